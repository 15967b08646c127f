"""One text becomes three, and no sentence is in two of them."""

import shlex
import unicodedata
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.text.corpus import Pair, read_pairs

PARTS = ("train", "valid", "test")
TEXT = [(f"sentence {n}", f"phrase {n}") for n in range(3000)]


def write(path: Path, pairs: list[Pair]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def divide(out: Path, *words: str) -> dict[str, list[Pair]]:
    assert main(["split", *words, "--source", "en", "--target", "fr", "--out", str(out)]) == 0
    return {part: list(read_pairs([str(out / part)], "en", "fr")) for part in PARTS}


def test_every_pair_is_in_one_part_in_its_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = divide(tmp_path / "out", write(tmp_path / "text.tsv", TEXT), "--pairs", "200")
    assert sorted(pair for pairs in found.values() for pair in pairs) == sorted(TEXT)
    for pairs in found.values():
        assert pairs == [pair for pair in TEXT if pair in pairs]
    assert all(150 <= len(found[part]) <= 250 for part in ("valid", "test"))
    told = capsys.readouterr().err
    assert f"{tmp_path}/out/test.en, {tmp_path}/out/test.fr: {len(found['test'])} pairs" in told
    main(shlex.split(told.split("next:\n  dragoman ")[1]))
    shown = capsys.readouterr().out
    assert "Examined" in shown
    assert "also in held-out text" not in shown


def test_a_sentence_and_its_translations_are_on_one_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = [(source, f"{target} too") for source, target in TEXT] + TEXT[:50]
    found = divide(tmp_path / "out", write(tmp_path / "text.tsv", TEXT + again))
    sources = {part: [source for source, _ in pairs] for part, pairs in found.items()}
    for part in ("valid", "test"):
        assert len({*sources[part]}) == len(sources[part])
        assert not {*sources[part]} & {*sources["train"]}
        assert all(pair in TEXT for pair in found[part]), "the first translation"
    assert not {*sources["valid"]} & {*sources["test"]}
    left_out = 2 * len(TEXT) + 50 - sum(map(len, found.values()))
    assert f"left out: {left_out:,} with a source sentence that is held out already" in capsys.readouterr().err


def test_sentences_that_differ_in_case_spaces_and_punctuation_are_on_one_side(tmp_path: Path) -> None:
    forms = [str.upper, lambda s: f"« {s} »!", lambda s: s.replace(" ", "  – "), str.title]
    again = [(form(source), target) for source, target in TEXT for form in forms]
    found = divide(tmp_path / "out", write(tmp_path / "text.tsv", TEXT + again + [("!", "!"), ("?", "?")]))
    numbers = {part: {s for source, _ in some for s in source.split() if s.isdecimal()} for part, some in found.items()}
    assert not numbers["train"] & (numbers["valid"] | numbers["test"])
    assert not numbers["valid"] & numbers["test"]
    assert sum(map(len, found.values())) == 5 * len(TEXT) + 2, "nothing is lost"


def test_a_translation_that_is_held_out_is_not_trained_on_with_another_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forms = [str.title, lambda s: f"« {s} »!", lambda s: unicodedata.normalize("NFD", s), str]
    text = [(f"sentence {n}", f"énoncé {n}") for n in range(3000)]
    again = [(f"another {n}", form(target)) for n, (_, target) in enumerate(text) for form in forms[n % 4 : n % 4 + 1]]
    name = write(tmp_path / "text.tsv", text + again)
    found = divide(tmp_path / "out", name)
    numbers = {part: {target.strip("« »!").split()[1] for _, target in pairs} for part, pairs in found.items()}
    assert not numbers["train"] & (numbers["valid"] | numbers["test"])
    assert not numbers["valid"] & numbers["test"]
    held_out = len(numbers["valid"] | numbers["test"])
    left_out = 6000 - sum(map(len, found.values()))
    assert 0.8 * held_out < left_out <= held_out
    told = capsys.readouterr().err
    assert f"left out: {left_out:,} with a target sentence that is held out\n" in told
    main(shlex.split(told.split("next:\n  dragoman ")[1]))
    shown = capsys.readouterr().out
    assert "Examined" in shown
    assert "target in held-out text" not in shown


def test_vowel_signs_tell_sentences_apart(tmp_path: Path) -> None:
    """Words of Devanagari that differ in a vowel sign alone are other words, and no reason to leave a pair out."""
    signs = [chr(code) for code in range(0x93E, 0x94D)]
    words = [f"क{one}ल{two}म{three}" for one in signs for two in signs for three in signs]
    found = divide(tmp_path / "out", write(tmp_path / "text.tsv", [(word, word[::-1]) for word in words]))
    assert sum(map(len, found.values())) == len(words)
    assert all(len(pairs) > 100 for pairs in found.values())


def test_existing_files_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = write(tmp_path / "text.tsv", TEXT)
    (tmp_path / "valid.fr").write_text("mine")
    words = ["split", text, "--source", "en", "--target", "fr", "--out", str(tmp_path)]
    assert main(words) == 1
    assert f"{tmp_path}: already contains valid.fr, which would be lost" in capsys.readouterr().err
    assert (tmp_path / "valid.fr").read_text() == "mine"
    assert not (tmp_path / "train.en").exists()


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [(TEXT[:9], "9 pairs are too few"), ([TEXT[1]] * 100, "too few distinct sentences; nothing is left for")],
)
def test_a_text_that_is_too_short_is_refused_and_leaves_nothing(
    pairs: list[Pair], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write(tmp_path / "text.tsv", pairs)
    assert main(["split", text, "--source", "en", "--target", "fr", "--out", str(tmp_path / "out")]) == 1
    assert reason in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*"))
