from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dragoman.cli.demo import demo, demo_training
from dragoman.cli.main import main
from dragoman.cli.options import DemoConfig
from dragoman.config import PRESETS, TrainConfig


def test_the_demo_trains_on_the_phrasebook_and_validates_on_its_validation_part(tmp_path: Path) -> None:
    config = demo_training(tmp_path / "phrasebook", tmp_path / "model")
    assert isinstance(config, TrainConfig)
    assert config.train == [str(tmp_path / "phrasebook" / "train")]
    assert config.valid == [str(tmp_path / "phrasebook" / "valid")]
    assert config.preset in PRESETS
    assert config.max_steps > 0, "a limit in steps, so that the result does not depend on the machine's speed"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_learns_to_translate_what_it_has_never_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if finished := os.environ.get("DRAGOMAN_DEMO"):  # what `make demo` has made, to save its training
        shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    assert demo(DemoConfig(out=str(tmp_path))) == 0
    output = capsys.readouterr().out
    assert "\n  Hello world\n    → Bonjour le monde\n" in output
    assert float(output.split("BLEU ")[1].split()[0]) >= 90.0
    metrics = (tmp_path / "en-fr" / "metrics.jsonl").read_bytes()
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "en-fr" / "metrics.jsonl").read_bytes() == metrics, "a second run must not train again"
    assert capsys.readouterr().out == output
