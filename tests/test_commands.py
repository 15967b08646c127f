from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dragoman import commands
from dragoman.cli import main
from dragoman.config import DragomanError
from dragoman.inference.alignment import Alignment
from dragoman.inference.translator import Translation
from dragoman.options import TranslateConfig

CANDIDATES = [Translation("eins", -1.0, -0.5, [7]), Translation("zwei", -2.0, -1.0, [8])]
ALIGNMENTS = [Alignment([(1, 0)], ["a", "one"], ["eins"]), Alignment([(0, 0)], ["a", "one"], ["zwei"])]


def shown(aligned: bool = False, **settings: object) -> str:
    config = TranslateConfig(folder="x", **settings)  # type: ignore[arg-type]
    number = 2 if config.n_best > 1 or config.format == "moses" else 1
    alignments = ALIGNMENTS if aligned else [None, None]
    return commands._format(3, CANDIDATES[:number], alignments[:number], config)


def test_text_is_the_best_translation_and_nothing_else() -> None:
    assert shown() == "eins"


@pytest.mark.parametrize("settings", [{"format": "moses"}, {"n_best": 2}])
def test_lists_have_one_candidate_a_line_as_moses_writes_them(settings: dict[str, object]) -> None:
    assert shown(**settings) == "3 ||| eins ||| -1.0000 ||| -0.5000\n3 ||| zwei ||| -2.0000 ||| -1.0000"


def test_json_has_the_alternatives_when_they_were_asked_for() -> None:
    assert json.loads(shown(format="json")) == {"text": "eins", "log_prob": -1.0, "score": -0.5}
    alternatives = json.loads(shown(format="json", n_best=2))["alternatives"]
    assert alternatives == [{"text": "zwei", "log_prob": -2.0, "score": -1.0}]


def test_alignments_follow_the_translation() -> None:
    assert shown(aligned=True) == "eins ||| 1-0"
    first, second = shown(aligned=True, n_best=2).split("\n")
    assert first == "3 ||| eins ||| -1.0000 ||| -0.5000 ||| 1-0"
    assert second == "3 ||| zwei ||| -2.0000 ||| -1.0000 ||| 0-0"
    best = json.loads(shown(aligned=True, format="json", n_best=2))
    assert best["alternatives"][0]["alignment"] == [[0, 0]]
    assert (best["alignment"], best["source_tokens"], best["target_tokens"]) == ([[1, 0]], ["a", "one"], ["eins"])


def test_lines_of_a_file_arrive_in_order_in_bounded_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_LINES_AT_ONCE", 10)
    path = tmp_path / "text"
    path.write_text("".join(f"{i}\n" for i in range(57)))
    lists = list(commands._incoming(str(path)))
    assert [line for some in lists for line in some] == [str(i) for i in range(57)]
    assert all(0 < len(some) <= 10 for some in lists)


def test_lines_before_a_fault_are_delivered_and_the_fault_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"good\nalso good\n\xff\xfe\n")
    received: list[str] = []
    with pytest.raises(DragomanError, match=r"text, line 3, byte 1"):  # noqa: PT012
        for lines in commands._incoming(str(path)):
            received += lines
    assert received == ["good", "also good"]


def test_the_saved_settings_are_the_run_s_and_can_be_read_again(tmp_path: Path) -> None:
    for language in ("en", "xx"):
        (tmp_path / f"train.{language}").write_text("".join(f"word{i} and {i * 7}\n" for i in range(80)))
    arguments = f"train --source en --target xx --train {tmp_path}/train --out {tmp_path}/run --max-steps 1"
    shape = "--model.d-model 16 --model.d-ff 16 --model.num-heads 2 --device cpu --text.vocab-size 300"
    assert main([*arguments.split(), *shape.split()]) == 0
    settings = yaml.safe_load((tmp_path / "run" / "train.yaml").read_text())
    assert settings["model"]["d_model"] == 16
    assert settings["max_steps"] == 1
    assert main(["train", "--config", str(tmp_path / "run" / "train.yaml"), "--out", str(tmp_path / "again")]) == 0
    settings["out"] = str(tmp_path / "again")
    assert yaml.safe_load((tmp_path / "again" / "train.yaml").read_text()) == settings


def test_restart_removes_the_run_and_nothing_else(tmp_path: Path) -> None:
    for language in ("en", "xx"):
        (tmp_path / f"train.{language}").write_text("".join(f"word{i} and {i * 7}\n" for i in range(80)))
    arguments = f"train --source en --target xx --train {tmp_path}/train --out {tmp_path} --max-steps 1 --device cpu"
    shape = "--model.d-model 16 --model.d-ff 16 --model.num-heads 2 --text.vocab-size 300"
    assert main([*arguments.split(), *shape.split()]) == 0
    assert main([*arguments.split(), *shape.split(), "--restart", "true", "--seed", "2"]) == 0
    assert len((tmp_path / "train.en").read_text().splitlines()) == 80


def test_scoring_names_the_line_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Folder:
        class direction:
            source, target = "en", "xx"

    class Fake:
        folder = Folder

        def score(self, pairs: list[tuple[str, str]], first_line: int) -> Iterator[None]:
            for number, (source, _) in enumerate(pairs, start=first_line):
                if source == "long":
                    raise DragomanError(f"source line {number} is long")
            return iter(())

    monkeypatch.setattr(commands, "_LINES_AT_ONCE", 2)
    monkeypatch.setattr(commands.Translator, "load", lambda folder, device: Fake())
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\na\tb\na\tb\nlong\tb\n")
    monkeypatch.setattr("sys.stdout", io.StringIO())
    with pytest.raises(DragomanError, match=r"pairs\.tsv: source line 4 is long"):
        commands.score(commands.ScoreConfig(folder="x", test=[str(path)]))
