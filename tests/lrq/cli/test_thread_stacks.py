import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import eventually

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no such signal")

# Six threads start one short thread after another, as a server does while it sends.
_THREADS_COME_AND_GO = """
import threading, time
from lrq.cli.process.thread_stacks import show_stacks_on_signal

def deep(calls):
    if calls:
        deep(calls - 1)
    else:
        time.sleep(0.0005)

def begin_and_end():
    while True:
        thread = threading.Thread(target=deep, args=(20,), name="short")
        thread.start()
        thread.join()

show_stacks_on_signal()
for number in range(6):
    threading.Thread(target=begin_and_end, name=f"starter-{number}", daemon=True).start()
print("runs", flush=True)
while True:
    threading.Event().wait(1)
"""


def test_threads_that_end_meanwhile_do_not_end_the_process(tmp_path: Path):
    log = tmp_path / "log"
    with (
        log.open("wb") as stderr,
        subprocess.Popen([sys.executable, "-c", _THREADS_COME_AND_GO], stdout=-1, stderr=stderr) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"runs\n"
            for number in range(20):
                process.send_signal(signal.SIGUSR1)
                shown = number + 1
                eventually(
                    lambda least=shown: (
                        process.poll() is not None
                        or log.read_text().count("Thread MainThread (most recent call last)") >= least
                    )
                )
            assert process.poll() is None
            assert "Thread starter-5 (most recent call last)" in log.read_text()
        finally:
            process.kill()
