"""The sentences of a proof."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dragoman.config import DragomanError
from dragoman.interop.sample import choose_sample, random_lines
from tests.small_models import LINES, small_model


@pytest.mark.parametrize("most", [2, 5, 15])
def test_random_lines_are_short_enough_for_the_model(most: int) -> None:
    vocabulary = small_model().vocabulary
    lines = random_lines(vocabulary, 20, most)
    assert lines
    assert lines == random_lines(vocabulary, 20, most)
    assert all(0 < len(ids) < most for ids in vocabulary.source.encode(lines))
    assert random_lines(vocabulary, 20, 1) == []


def test_the_text_is_the_one_that_is_named_or_that_of_the_run_or_random(tmp_path: Path) -> None:
    for language, lines in (("en", ["", " ".join(LINES), *LINES]), ("ne", ["x", "x", *LINES])):
        (tmp_path / f"valid.{language}").write_text("".join(f"{line}\n" for line in lines))
    loaded, run = small_model(), tmp_path / "run"
    run.mkdir()
    assert choose_sample(loaded, run, [], 4).name == "random subwords"
    settings = {"source": "en", "target": "ne", "valid": [str(tmp_path / "valid")]}
    (run / "train.yaml").write_text(yaml.safe_dump(settings))
    for texts in ([], [str(tmp_path / "valid")]):
        sample = choose_sample(loaded, run, texts, 4)
        assert sample.name == "valid", "the card tells no folder"
        assert sample.sources == sample.references == LINES[:4], "without empty lines and those that are too long"
    (tmp_path / "valid.en").write_text("\n")
    (tmp_path / "valid.ne").write_text("\n")
    with pytest.raises(DragomanError, match="no sentences that the model could translate"):
        choose_sample(loaded, run, [str(tmp_path / "valid")], 4)
