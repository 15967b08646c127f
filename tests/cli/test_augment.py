"""augment: text in one language becomes pairs, also if it is stopped on the way."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.checkpoint import ModelFolder
from dragoman.cli import augment as commands
from dragoman.folder import Direction
from dragoman.inference.translator import Translator
from tests.command_calls import complaint, run
from tests.small_models import LINES, small_model

TEXT = [*dict.fromkeys(LINES), LINES[0], "", "a\tcat"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_model().save(tmp_path / "model")
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in TEXT))
    return tmp_path


def augment(folder: Path, *more: object) -> tuple[list[str], list[str]]:
    """Lines of the two files, those of the text's language first."""
    words = ("augment", folder / "model", "--text", folder / "text", "--out", folder / "made", "--engine", "torch")
    result = run(*words, *more)
    assert result.code == 0, result.err
    original, translated = ((folder / f"made.{language}").read_text().splitlines() for language in ("en", "ne"))
    return original, translated


def forget(folder: Path) -> None:
    for path in folder.glob("made.*"):
        path.unlink()


def test_each_line_stands_once_beside_its_translation_which_has_the_tag(folder: Path) -> None:
    original, translated = augment(folder)
    expected = {line: one.text for line, one in zip(TEXT, translations(folder), strict=True)}
    assert len(original) > len(TEXT) // 2
    assert len({*original}) == len(original)
    assert translated == [f"<BT> {expected[line]}" for line in original]
    card = json.loads((folder / "made.json").read_text())
    assert card["lines"] == len(TEXT) == card["pairs"] + sum(card["left_out"].values())
    assert card["pairs"] == len(original)
    assert card["left_out"]["duplicates"] >= 1
    assert (card["source"], card["target"]) == ("ne", "en")


def translations(folder: Path) -> list:  # type: ignore[type-arg]
    lines = [line.replace("\t", " ") for line in TEXT]
    return Translator.load(folder / "model", engine="torch").translate(lines)


def test_forward_translations_are_targets(folder: Path) -> None:
    backward = augment(folder)
    original, translated = augment(folder, "--forward")
    assert [f"<BT> {line}" for line in backward[0]] == original
    assert backward[1] == [f"<BT> {line}" for line in translated]
    assert augment(folder, "--forward", "--tag", "")[0] == backward[0]


def test_several_translations_of_a_line_are_pairs_and_sampled_ones_depend_on_a_seed(folder: Path) -> None:
    best = augment(folder)
    forget(folder)
    several = augment(folder, "--n-best", 3)
    assert len(several[0]) > 2 * len(best[0])
    assert {*zip(*best, strict=True)} < {*zip(*several, strict=True)}
    drawn = []
    for seed in (1, 2, 1):
        forget(folder)
        more = ("--sampling", 0.7, "--top-k", 3, "--n-best", 3, "--sampling-seed", seed)
        drawn.append(augment(folder, *more))
    assert drawn[0] == drawn[2] != drawn[1]
    assert len({*zip(*drawn[0], strict=True)}) == len(drawn[0][0]) > len(best[0])


def test_a_scorer_keeps_the_likeliest_share(folder: Path) -> None:
    model = ModelFolder.load(folder / "model")
    replace(model, direction=Direction("ne", "en")).save(folder / "back")
    every = [*zip(*augment(folder, "--tag", ""), strict=True)]
    scores = Translator.load(folder / "back", engine="torch").score([(synthetic, line) for line, synthetic in every])
    ranked = sorted(zip([one.log_prob / one.num_tokens for one in scores], every, strict=True), reverse=True)
    best = [*zip(*augment(folder, "--tag", "", "--scorer", folder / "back", "--keep", 0.5), strict=True)]
    assert len(best) == pytest.approx(len(every) / 2, abs=1)
    assert {*best} == {pair for _, pair in ranked[: len(best)]}
    assert json.loads((folder / "made.json").read_text())["left_out"]["unlikely"] == len(every) - len(best)
    words = ("augment", folder / "model", "--text", folder / "text", "--out", folder / "more")
    assert "knows no language" in complaint(1, *words, "--scorer", folder / "model")


def test_what_is_too_long_to_score_is_left_out(folder: Path) -> None:
    model = ModelFolder.load(folder / "model")
    replace(model, direction=Direction("ne", "en")).save(folder / "back")
    with (folder / "text").open("a") as file:
        file.write(" ".join(LINES) + "\n")
    augment(folder, "--scorer", folder / "back", "--keep", 1)
    assert json.loads((folder / "made.json").read_text())["left_out"]["too long to score"] == 1


def test_noise_leaves_out_blanks_and_moves_words_of_sources_alone(folder: Path) -> None:
    clean, noisy = augment(folder), augment(folder, "--noise")
    assert noisy[0] == clean[0]
    kept = [word for line in noisy[1] for word in line.split()[1:]]
    assert 0.02 < kept.count(commands.BLANK) / len(kept) < 0.3
    for before, after in zip(clean[1], noisy[1], strict=True):
        words, left = before.split(), [word for word in after.split() if word != commands.BLANK]
        assert left[0] == "<BT>"
        assert not Counter(left) - Counter(words)


def test_what_was_stopped_goes_on_and_gives_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = augment(folder)
    forget(folder)
    counts = []

    def translate(self: Translator, lines: list[str], *rest: object) -> object:
        counts.append(len(lines))
        if len(counts) == 3:
            raise KeyboardInterrupt
        return whole(self, lines, *rest)  # type: ignore[arg-type]

    whole = Translator.translate
    monkeypatch.setattr(commands, "LINES_AT_ONCE", 5)
    monkeypatch.setattr(Translator, "translate", translate)
    with pytest.raises(AssertionError):
        augment(folder)
    assert not (folder / "made.en").exists()
    with (folder / "made.all.tsv").open("a") as rows:
        rows.write("half a ro")
    assert augment(folder) == expected
    assert sum(counts) == len(TEXT) + 5


def test_another_text_does_not_replace_what_is_there(folder: Path) -> None:
    made = augment(folder)
    (folder / "other").write_text("a dog\n")
    words = ("augment", folder / "model", "--text", folder / "other", "--out", folder / "made", "--engine", "torch")
    assert "of another text, model or settings" in complaint(1, *words)
    assert augment(folder) == made


@pytest.mark.parametrize("name", ["made.en", "made.json", "made.all.tsv"])
def test_files_of_others_stay(name: str, folder: Path) -> None:
    (folder / name).write_text("mine\n")
    words = ("augment", folder / "model", "--text", folder / "text", "--out", folder / "made")
    assert f"already contains {name}" in complaint(1, *words)
    assert (folder / name).read_text() == "mine\n"


def test_what_is_finished_is_not_translated_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = augment(folder)
    monkeypatch.setattr(Translator, "translate", None)
    assert augment(folder) == made
    (folder / "made.en").unlink()
    assert augment(folder) == made
    original, translated = augment(folder, "--tag", "")  # is chosen anew from the same translations
    assert (original, [f"<BT> {line}" for line in translated]) == made


def test_nothing_fit_is_an_error(folder: Path) -> None:
    (folder / "text").write_text("\n\n")
    words = ("augment", folder / "model", "--text", folder / "text", "--out", folder / "made")
    assert "no translation is fit for training (2 without a translation)" in complaint(1, *words)
