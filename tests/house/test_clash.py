"""Foreign packages with the names of lrq's packages: one sentence names the file in the way."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lrq_packages

ROOT = Path(lrq_packages.__file__).parent


def run(code: str, *, folder: Path, packages: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run *code* in a new Python process, in *folder*, with lrq's *packages* behind *folder* on the path."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def copy_of_ours(folder: Path) -> Path:
    for name in lrq_packages.PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "lrq_packages.py", folder)
    return folder


@pytest.mark.parametrize("name", ["queues", "sink", "discovery"])
@pytest.mark.parametrize("form", ["module", "package"])
def test_importing_lr_client_beside_a_foreign_package_names_its_file(name: str, form: str, tmp_path: Path):
    in_the_way = tmp_path / f"{name}.py" if form == "module" else tmp_path / name / "__init__.py"
    in_the_way.parent.mkdir(exist_ok=True)
    in_the_way.write_text("answer = 42\n")
    result = run("import lr_client", folder=tmp_path)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"queues.errors.PackageClashError: lrq needs its own package {name!r}")
    assert str(in_the_way) in last


@pytest.mark.parametrize("entrance", lrq_packages.PACKAGES)
def test_every_package_of_lrq_notices_the_clash(entrance: str, tmp_path: Path):
    name = "sink" if entrance == "queues" else "queues"
    (tmp_path / f"{name}.py").write_text("")
    result = run(f"import {entrance}", folder=tmp_path)
    assert f"PackageClashError: lrq needs its own package {name!r}" in result.stderr


def test_a_foreign_package_that_is_already_imported_is_named(tmp_path: Path):
    (tmp_path / "queues.py").write_text("")
    result = run("import queues, sys; sys.path.remove(''); import lr_client", folder=tmp_path)
    assert str(tmp_path / "queues.py") in result.stderr.splitlines()[-1]


def test_a_package_that_was_installed_over_lrq_s_own_is_named(tmp_path: Path):
    installed = copy_of_ours(tmp_path / "site-packages")
    (installed / "queues" / "__init__.py").write_text("class Queue: ...\n")
    result = run("import lr_client", folder=tmp_path, packages=installed)
    assert str(installed / "queues" / "__init__.py") in result.stderr.splitlines()[-1]


def test_the_error_is_an_import_error_of_lrq_s_tree(tmp_path: Path):
    (tmp_path / "sink.py").write_text("")
    code = (
        "from pathlib import Path\n"
        "try:\n    import lr_client\n"
        "except ImportError as error:\n"
        "    from queues.errors import PackageClashError\n"
        "    assert isinstance(error, PackageClashError)\n"
        "    print('caught')\n"
    )
    assert run(code, folder=tmp_path).stdout == "caught\n"


def test_the_packages_of_lrq_alone_raise_no_error(tmp_path: Path):
    installed = copy_of_ours(tmp_path / "site-packages")
    result = run("import lr_client, queues; print(queues.__file__)", folder=tmp_path, packages=installed)
    assert result.stdout.strip() == str(installed / "queues" / "__init__.py"), result.stderr


def test_the_packages_of_lrq_in_an_archive_raise_no_error(tmp_path: Path):
    archive = shutil.make_archive(str(tmp_path / "lrq"), "zip", copy_of_ours(tmp_path / "site-packages"))
    result = run("import lr_client, queues; print(queues.__file__)", folder=tmp_path, packages=Path(archive))
    assert result.stdout.strip() == str(Path(archive) / "queues" / "__init__.py"), result.stderr
