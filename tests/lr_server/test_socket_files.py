"""The watch on the file of a server's Unix socket."""

from pathlib import Path

from lr_server.socket_files import SocketFiles


def test_a_file_that_is_gone_before_the_first_look_is_trouble(tmp_path: Path) -> None:
    """A server that stops may remove the file that a new server has just made."""
    files = SocketFiles([f"ipc://{tmp_path / 'lrq.sock'}"])
    assert "was removed or replaced" in files.trouble
