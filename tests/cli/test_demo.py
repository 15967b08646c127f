"""The demo, as a user calls it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dragoman.cli.demo import demo
from dragoman.cli.main import main
from dragoman.cli.options import DemoConfig

FINISHED = Path(os.environ.get("DRAGOMAN_DEMO", "none")).resolve()
"""What `make demo` has made, to save its training; resolved before a fixture changes the working folder."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_learns_to_translate_what_it_has_never_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if FINISHED.is_dir():
        shutil.copytree(FINISHED, tmp_path, dirs_exist_ok=True)
    assert demo(DemoConfig(out=str(tmp_path))) == 0
    output = capsys.readouterr().out
    assert "\n  Hello world\n    → Bonjour le monde\n" in output
    assert float(output.split("BLEU ")[1].split()[0]) >= 90.0
    metrics = (tmp_path / "en-fr" / "metrics.jsonl").read_bytes()
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "en-fr" / "metrics.jsonl").read_bytes() == metrics, "a second run must not train again"
    assert capsys.readouterr().out == output
