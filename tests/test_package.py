import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_the_source_distribution_has_all_that_the_repository_has(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no repository here")
    files = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests" / "__pycache__").mkdir()
    (tmp_path / "tests" / "__pycache__" / "faults.cpython-311.pyc").touch()
    code = "import sys; from setuptools import build_meta; print(build_meta.build_sdist('built'))"
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    (archive,) = (tmp_path / "built").iterdir()
    with tarfile.open(archive) as packed:
        found = {member.name.partition("/")[2] for member in packed if member.isfile()}
    assert files <= found, sorted(files - found)
    made = {"PKG-INFO", "setup.cfg"}
    assert {name for name in found - files - made if not name.startswith("dragoman.egg-info/")} == set()


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "10000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "active"}, "None")]
)
def test_threads_wait_for_one_another_only_briefly_unless_told_otherwise(given: dict[str, str], expected: str) -> None:
    settings = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    code = "import dragoman, os, sys; print(os.environ.get('GOMP_SPINCOUNT')); assert 'torch' not in sys.modules"
    said = subprocess.run(
        [sys.executable, "-c", code], env=settings | given, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == expected
