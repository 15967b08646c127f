"""The survey counts, samples and finds again; it sees when whole corpora are not what they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.corpus_check.blocks import BLOCK_PAIRS
from dragoman.corpus_check.issues import Tally
from dragoman.corpus_check.survey import Survey, survey_text
from dragoman.text.corpus import Corpus, locate
from tests.texts_at_hand import phrasebook

PAIRS = phrasebook().train[:6000]


def write(
    folder: Path, name: str, sources: list[str], targets: list[str], codes: tuple[str, str] = ("en", "fr")
) -> Corpus:
    for code, lines in zip(codes, (sources, targets), strict=True):
        (folder / f"{name}.{code}").write_text("".join(line + "\n" for line in lines))
    return locate(str(folder / name), *codes)


def survey(*corpora: Corpus, codes: tuple[str, str] = ("en", "fr")) -> Survey:
    return survey_text(corpora, codes, lambda done, total: None)


@pytest.fixture
def two(tmp_path: Path) -> Survey:
    first = write(tmp_path, "first", [s for s, _ in PAIRS[:4500]], [t for _, t in PAIRS[:4500]])
    second = write(tmp_path, "second", [s for s, _ in PAIRS[4500:]], [t for _, t in PAIRS[4500:]])
    return survey(first, second)


def test_pairs_are_counted_and_numbered_through(two: Survey) -> None:
    assert two.pairs == 6000
    assert [(extent.start, extent.pairs, extent.sound) for extent in two.extents] == [
        (0, 4500, 4500),
        (4500, 1500, 1500),
    ]
    blocks = list(two.blocks())
    assert [(number, first) for number, first, _ in blocks] == [(0, 0), (0, BLOCK_PAIRS), (1, 4500)]
    assert [pair for _, _, b in blocks for pair in zip(b.source, b.target, strict=True)] == PAIRS


def test_pairs_are_fetched_by_their_numbers(two: Survey) -> None:
    found = two.fetch([5999, 0, 4499, 4500, 0])
    assert {n: (Path(e.file).name, e.line, e.texts) for n, e in found.items()} == {
        0: ("first.en", 1, PAIRS[0]),
        4499: ("first.en", 4500, PAIRS[4499]),
        4500: ("second.en", 1, PAIRS[4500]),
        5999: ("second.en", 1500, PAIRS[5999]),
    }
    assert two.fetch([]) == {}


def test_what_is_usual_is_learned_from_all_corpora(two: Survey) -> None:
    usual = two.usual
    assert usual.letters.apart
    assert usual.scripts == ({"Latn"}, {"Latn"})
    assert usual.familiar == (("en", "en"), ("fr", "fr"))
    assert -0.5 < usual.ratio < 0.2


def test_the_place_where_line_counts_part_is_found_for_either_side(tmp_path: Path) -> None:
    sources, targets = [s for s, _ in PAIRS[:2000]], [t for _, t in PAIRS[:2000]]
    for lines in (sources, targets):
        shorter = lines[:1300] + lines[1303:]
        corpus = write(tmp_path, "t", *((shorter, targets) if lines is sources else (sources, shorter)))
        (extent,) = survey(corpus).extents
        assert extent.pairs == 1997
        assert extent.mismatch
        assert extent.mismatch.lines == 3
        assert abs(extent.sound - 1300) <= 8


def test_the_place_is_exact_where_lengths_leave_no_doubt(tmp_path: Path) -> None:
    lines = ["x" * (7 * n % 101 + 1) for n in range(2000)]
    (extent,) = survey(write(tmp_path, "t", lines, lines[:1300] + lines[1301:])).extents
    assert extent.sound == 1300


def reported(survey: Survey) -> dict[str, list[str]]:
    tally = Tally("training", 3)
    survey.report(tally)
    return {reason.name: details for reason, details in tally.details.items()}


def test_sound_corpora_have_nothing_to_report(two: Survey) -> None:
    assert reported(two) == {}
    assert two.report(Tally("training", 3)) == [False, False]


def test_one_of_two_corpora_the_wrong_way_round_is_named(tmp_path: Path) -> None:
    sources, targets = [s for s, _ in PAIRS], [t for _, t in PAIRS]
    corpora = [
        write(tmp_path, "good", sources[:3000], targets[:3000]),
        write(tmp_path, "bad", targets[3000:], sources[3000:]),
    ]
    looked = survey(*corpora)
    (detail,) = reported(looked)["text the wrong way round"]
    assert "bad.en" in detail
    assert "good.en" not in detail
    assert looked.report(Tally("training", 3)) == [False, True]


def test_sides_in_one_another_s_script_are_the_wrong_way_round(tmp_path: Path) -> None:
    russian = ["Где находится ближайшая станция метро?"] * 300
    corpus = write(tmp_path, "t", russian, [s for s, _ in PAIRS[:300]], ("en", "ru"))
    assert list(reported(survey(corpus, codes=("en", "ru")))) == ["text the wrong way round"]


def test_the_script_of_an_unknown_language_is_learned(tmp_path: Path) -> None:
    russian = ["Где находится ближайшая станция метро?"] * 300
    looked = survey(write(tmp_path, "t", [s for s, _ in PAIRS[:300]], russian, ("xx", "yy")), codes=("xx", "yy"))
    assert looked.usual.scripts == ({"Latn"}, {"Cyrl"})
    assert reported(looked) == {}


def test_no_text_at_all_is_reported(tmp_path: Path) -> None:
    assert list(reported(survey(write(tmp_path, "t", [], [])))) == ["no pairs"]
