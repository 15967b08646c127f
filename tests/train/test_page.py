"""A training run keeps its page up to date, and is none the worse for one that can't be written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import train as train_module
from dragoman.folder import CURVES_FILE, REPORT_FILE
from tests.training.small_runs import records, same

from .running import NO_SHAPE, Ended, kept

SENTENCE = '<script type="application/json" id="record">'


def test_each_validation_writes_the_page_and_the_end_opens_a_sentence(
    text: Path, tmp_path: Path, run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[tuple[bool, str]] = []
    write = train_module.write_report

    def write_and_read(folder: Path, ended: bool) -> None:
        write(folder, ended)
        pages.append((ended, (folder / REPORT_FILE).read_text(encoding="utf-8")))

    monkeypatch.setattr(train_module, "write_report", write_and_read)
    out = tmp_path / "run"
    ended = run(text, out, "--max-steps", 30)
    assert f"open {out / REPORT_FILE} in a browser" in ended.said
    assert [ended for ended, _ in pages] == [False, False, False, True]
    assert [SENTENCE in page for _, page in pages] == [False, False, False, True]
    samples = [value for _, name, value in records(out, "samples")]
    assert [len(one) for one in samples] == [3, 3, 3]
    source, reference, translation = samples[-1][0]
    assert (text / "valid.en").read_text().startswith(source + "\n")
    assert reference == source.upper()
    assert f"→ {translation}\n" in ended.said
    times = [json.loads(line)["seconds"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert times == sorted(times)
    assert f"]({CURVES_FILE})" in (out / "README.md").read_text()
    assert (out / CURVES_FILE).is_file()
    assert len(pages) == 4
    run(text, out, "--max-steps", 30)
    assert len(pages) == 4, "a run that had finished keeps its page"
    (out / REPORT_FILE).unlink()
    run(text, out, "--max-steps", 30)
    assert len(pages) == 5, "one without a page gets it"
    run(text, tmp_path / "tuned", "--max-steps", 5, "--from", out, shape=NO_SHAPE)
    assert f"fine-tuned from <bdi>{out}</bdi>" in pages[-1][1]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyError("step"), MemoryError()])
def test_a_page_that_fails_is_one_warning(
    error: Exception, text: Path, tmp_path: Path, run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    steady = run(text, tmp_path / "steady", "--max-steps", 20)

    def fail(*given: Any) -> None:
        raise error

    monkeypatch.setattr(train_module, "write_report", fail)
    ended = run(text, tmp_path / "failing", "--max-steps", 20)
    assert ended.code == steady.code == 0
    assert ended.said.count("warning: ") == 1
    assert f"{tmp_path / 'failing' / REPORT_FILE} is not up to date" in ended.said
    assert same(kept(tmp_path / "steady"), kept(tmp_path / "failing"))
    assert CURVES_FILE not in (tmp_path / "failing" / "README.md").read_text(), "no picture that is not there"


def test_a_dry_run_writes_none(text: Path, tmp_path: Path) -> None:
    config = train_module.TrainConfig(
        source="en", target="xx", train=[str(text / "train")], valid=[str(text / "valid")], out=str(tmp_path / "dry"),
        device="cpu", model=train_module.ModelConfig(d_model=16, d_ff=32, num_heads=2, num_encoder_layers=1),
    )  # fmt: skip
    train_module.dry_run_training(config)
    assert not (tmp_path / "dry" / REPORT_FILE).exists()
