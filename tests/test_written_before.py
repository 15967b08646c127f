"""What the version before wrote still loads, translates, scores, continues and compares as it did there."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from dragoman.checkpoint import read_weights
from dragoman.cli.main import main
from tests.fuzz.running import command

BEFORE = Path(__file__).parent / "written_before"
MODELS = ["finished", "separate"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of everything, and the folder to work in."""
    shutil.copytree(BEFORE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: object, stdin: bytes = b"") -> str:
    outcome = command(*words, stdin=stdin)
    assert outcome.code == 0, outcome
    return outcome.out


def assert_close(found: Path, expected: Path) -> None:
    """Processors and versions differ in the last bits.

    The bias of keys adds the same to all logits of a query, so its gradient is rounding, which Adam makes large.
    """
    ours, theirs = read_weights(found), read_weights(expected)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        if not name.endswith("key.bias"):
            torch.testing.assert_close(ours[name], tensor, rtol=0, atol=1e-4, msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_models_translate_and_score_as_before(name: str, folder: Path) -> None:
    search = ["--beam", 2, "--precision", "fp32", "--workers", 1, "--max-length", 10, "--format", "json"]
    written = run("translate", f"models/{name}", *search, stdin=(folder / "valid.en").read_bytes())
    expected = (folder / "expected" / f"{name}.jsonl").read_text()
    for line, before in zip(map(json.loads, written.splitlines()), map(json.loads, expected.splitlines()), strict=True):
        assert line["text"] == before["text"]
        assert line["score"] == pytest.approx(before["score"], abs=1e-4)
    scored = run("score", f"models/{name}", "--test", "valid").split()
    before = (folder / "expected" / f"{name}.score.tsv").read_text().split()
    assert [float(x) for x in scored] == pytest.approx([float(x) for x in before], abs=2e-3)


def test_a_run_continues_to_the_same_weights(folder: Path) -> None:
    saved = (folder / "run" / "train.yaml").read_text()
    (folder / "again.yaml").write_text(saved.replace("max_steps: 6", "max_steps: 12"))
    run("train", "--config", "again.yaml")
    expected = folder / "expected"
    for path in sorted(expected.glob("checkpoints/*")):
        assert_close(folder / "run" / "checkpoints" / path.name, path)
    assert_close(folder / "run" / "model.safetensors", expected / "model.safetensors")
    run("average", "run", "--out", "average", "--last", 2)
    assert_close(folder / "average" / "model.safetensors", expected / "average.safetensors")
    steps = [json.loads(line)["step"] for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    assert sorted(set(steps)) == list(range(1, 13))


def test_the_run_is_recognised_as_the_same_and_other_settings_as_others(folder: Path) -> None:
    assert main(["train", "--config", "run/train.yaml"]) == 0  # nothing to do
    assert main(["train", "--config", "run/train.yaml", "--max-steps", "8", "--optimizer.warmup-steps", "3"]) == 1


def test_scores_are_those_of_before_and_evaluations_compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--test", "valid", "--json", "now.json", "--max-length", 10, "--beam", 2]
    run("evaluate", "models/finished", *settings)
    now, before = (json.loads(Path(name).read_text()) for name in ("now.json", "expected/scores.json"))
    assert now["scores"] == before["scores"]
    assert now["text"] == before["text"]
    assert now["weights"]["sha256"] == before["weights"]["sha256"]
    (folder / "a").mkdir()
    shutil.copy("expected/scores.json", "a/scores.json")
    assert main(["compare", "--system", "a/scores.json", "--baseline", "now.json"]) == 0
    assert "BLEU" in capsys.readouterr().out


def test_exports_are_still_understood(folder: Path) -> None:
    lines = (folder / "valid.en").read_bytes()
    search = ["--beam", 2, "--max-length", 10]
    texts = [json.loads(line)["text"] for line in (folder / "expected" / "finished.jsonl").read_text().splitlines()]
    assert run("translate", "ct2", *search, stdin=lines).splitlines() == texts
    pytest.importorskip("transformers")
    run("import", "hf", "--out", "imported", "--sentences", 5)
    assert run("translate", "imported", *search, "--precision", "fp32", stdin=lines).splitlines() == texts
