"""The token store: what goes in comes out, or there is no store at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from dragoman.config import EOS, DragomanError, TextConfig
from dragoman.text import dataset
from dragoman.text.corpus import Pair
from dragoman.text.dataset import StoreReport, TokenStore, build_store, sample_pairs
from dragoman.text.subwords import SubwordModel, Vocabulary, learn_subwords
from tests.fuzz.faults import complaint, full_disk, no_space

PAIRS: list[Pair] = [
    (f"the cat number {i} sleeps", f"die Katze Nummer {i} schläft" + " tief" * (i % 5)) for i in range(11)
]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    sides = ([source for source, _ in PAIRS], [target for _, target in PAIRS])
    return Vocabulary.learn(sides, TextConfig(vocab_size=310, vocabulary="separate"))


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "_CHUNK", 3)


def contents(store: TokenStore) -> list[tuple[list[int], list[int]]]:
    return [(store.source(i).tolist(), store.target(i).tolist()) for i in range(len(store))]


def encoded(pairs: Sequence[Pair], vocabulary: Vocabulary) -> list[tuple[list[int], list[int]]]:
    sources = vocabulary.source.encode([source for source, _ in pairs])
    targets = vocabulary.target.encode([target for _, target in pairs])
    return [([*s, EOS], [*t, EOS]) for s, t in zip(sources, targets, strict=True)]


@pytest.mark.parametrize("count", [1, 3, 4, 11])
def test_what_goes_in_comes_out_across_the_borders_of_chunks(
    count: int, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    store = build_store(iter(PAIRS[:count]), vocabulary, tmp_path / "store", 100)
    assert contents(store) == encoded(PAIRS[:count], vocabulary)
    assert contents(TokenStore(tmp_path / "store")) == contents(store)


def test_the_lengths_are_those_of_the_sentences(vocabulary: Vocabulary, tmp_path: Path) -> None:
    store = build_store(PAIRS, vocabulary, tmp_path / "store", 100)
    assert list(zip(store.source_lengths, store.target_lengths, strict=True)) == [
        (len(source), len(target)) for source, target in contents(store)
    ]
    assert store.report.source_tokens == store.source_lengths.sum()
    assert store.report.target_tokens == store.target_lengths.sum()


def test_empty_sides_and_long_pairs_are_left_out_and_counted(vocabulary: Vocabulary, tmp_path: Path) -> None:
    long = " ".join(["cat"] * 200)
    odd = [("", "x"), ("x", " \t"), (long, "x"), ("x", long), ("\u3000", ""), ("x", long), ("", long)]
    mixed = [*PAIRS[:5], *odd[:4], *PAIRS[5:], *odd[4:]]
    store = build_store(mixed, vocabulary, tmp_path / "store", 100)
    assert contents(store) == encoded(PAIRS, vocabulary)
    assert (store.report.pairs, store.report.empty, store.report.too_long) == (11, 4, 3)
    description = store.report.describe()
    assert "4 with an empty side" in description
    assert "3 too long" in description


def test_of_a_pair_that_is_cut_into_nothing_nothing_is_learned(vocabulary: Vocabulary, tmp_path: Path) -> None:
    lone = "\u2581"  # SentencePiece's own sign for a space
    assert vocabulary.source.encode([lone]) == [[]]
    store = build_store([*PAIRS, (lone, "x"), ("x", lone), (lone, lone)], vocabulary, tmp_path / "store", 100)
    assert contents(store) == encoded(PAIRS, vocabulary)
    assert (store.report.empty, store.report.too_long) == (3, 0)


def test_the_length_limit_is_inclusive_and_does_not_count_the_end(vocabulary: Vocabulary, tmp_path: Path) -> None:
    lengths = [max(len(s), len(t)) - 1 for s, t in encoded(PAIRS, vocabulary)]
    longest = max(lengths)
    assert len(build_store(PAIRS, vocabulary, tmp_path / "all", longest)) == len(PAIRS)
    shorter = build_store(PAIRS, vocabulary, tmp_path / "fewer", longest - 1)
    assert len(shorter) == sum(length < longest for length in lengths) < len(PAIRS)


def test_a_clean_text_is_described_without_anything_left_out(vocabulary: Vocabulary, tmp_path: Path) -> None:
    assert "left out" not in build_store(PAIRS, vocabulary, tmp_path / "store", 100).report.describe()


@pytest.mark.parametrize("pairs", [[], [("", "")], [("a b c d e f g h", "x")]])
def test_a_text_of_which_nothing_is_left_is_refused(pairs: list[Pair], vocabulary: Vocabulary, tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match="no sentence pair is left"):
        build_store(pairs, vocabulary, tmp_path / "store", 3)
    assert list(tmp_path.iterdir()) == []


# ---- the fingerprint


def fingerprint(pairs: list[Pair], vocabulary: Vocabulary, folder: Path) -> str:
    return build_store(pairs, vocabulary, folder, 100).report.fingerprint


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        (0, ("the cat number 0 sleepS", PAIRS[0][1])),
        (10, (PAIRS[10][0], PAIRS[10][1] + " ")),
        (4, (PAIRS[4][0], "")),
        (4, (PAIRS[4][1], PAIRS[4][0])),
    ],
)
def test_the_fingerprint_changes_with_any_character(
    line: int, changed: Pair, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    pairs = [*PAIRS[:line], changed, *PAIRS[line + 1 :]]
    assert fingerprint(pairs, vocabulary, tmp_path / "a") != fingerprint(PAIRS, vocabulary, tmp_path / "b")


def test_the_fingerprint_changes_with_the_order_of_the_pairs(vocabulary: Vocabulary, tmp_path: Path) -> None:
    assert fingerprint(PAIRS[::-1], vocabulary, tmp_path / "a") != fingerprint(PAIRS, vocabulary, tmp_path / "b")


def test_the_fingerprint_depends_on_the_text_alone(
    vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = learn_subwords([target for _, target in PAIRS], TextConfig(vocab_size=300, subwords="unigram"))
    first = fingerprint(PAIRS, vocabulary, tmp_path / "a")
    monkeypatch.setattr(dataset, "_CHUNK", 1000)
    assert fingerprint(PAIRS, Vocabulary(other, other), tmp_path / "b") == first
    assert build_store(PAIRS, vocabulary, tmp_path / "c", 40).report.fingerprint == first


# ---- ids on disk


class WideSubwords(SubwordModel):
    """So many subwords that two bytes are not enough for the last ones."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[self.size - 1, len(line)] for line in lines]


@pytest.mark.parametrize(("size", "width"), [(2**16, 2), (2**16 + 1, 4), (200_000, 4)])
def test_ids_take_two_bytes_where_they_fit_and_four_where_they_do_not(size: int, width: int, tmp_path: Path) -> None:
    small = WideSubwords(300)
    for sides in (Vocabulary(WideSubwords(size), small), Vocabulary(small, WideSubwords(size))):
        store = build_store(PAIRS, sides, tmp_path / "store", 100)
        assert contents(store) == encoded(PAIRS, sides)
        assert (tmp_path / "store" / "source.ids").stat().st_size == width * store.report.source_tokens


def test_ids_are_mapped_from_disk_not_read_into_memory(vocabulary: Vocabulary, tmp_path: Path) -> None:
    ids = build_store(PAIRS, vocabulary, tmp_path / "store", 100).source(2)
    assert isinstance(ids, np.memmap)


# ---- whole or not at all


class Interrupted(Exception):
    pass


def broken_off(after: int) -> Iterator[Pair]:
    yield from PAIRS[:after]
    raise Interrupted


@pytest.mark.parametrize("after", [0, 2, 7])
def test_an_interrupted_build_leaves_nothing(after: int, vocabulary: Vocabulary, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        build_store(broken_off(after), vocabulary, tmp_path / "store", 100)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_build_leaves_an_older_store_as_it_was(vocabulary: Vocabulary, tmp_path: Path) -> None:
    build_store(PAIRS[:4], vocabulary, tmp_path / "store", 100)
    with pytest.raises(Interrupted):
        build_store(broken_off(7), vocabulary, tmp_path / "store", 100)
    assert contents(TokenStore(tmp_path / "store")) == encoded(PAIRS[:4], vocabulary)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_what_a_killed_build_left_behind_does_no_harm(vocabulary: Vocabulary, tmp_path: Path) -> None:
    (tmp_path / "store.partial").mkdir()
    (tmp_path / "store.partial" / "source.ids").write_bytes(b"rubbish")
    build_store(PAIRS, vocabulary, tmp_path / "store", 100)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_new_store_replaces_the_older_one(vocabulary: Vocabulary, tmp_path: Path) -> None:
    build_store(PAIRS, vocabulary, tmp_path / "store", 100)
    build_store(PAIRS[:2], vocabulary, tmp_path / "store", 100)
    assert len(TokenStore(tmp_path / "store")) == 2


def test_a_missing_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match="nowhere"):
        TokenStore(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["store.json", "source.ids", "target.ids", "source.ends", "target.ends"])
def test_a_store_without_one_of_its_files_is_refused(name: str, vocabulary: Vocabulary, tmp_path: Path) -> None:
    build_store(PAIRS, vocabulary, tmp_path / "store", 100)
    (tmp_path / "store" / name).unlink()
    with pytest.raises(DragomanError, match="store"):
        TokenStore(tmp_path / "store")


@pytest.mark.parametrize(
    ("name", "keep"),
    [
        ("store.json", 0),
        ("store.json", 40),
        ("source.ids", 0),
        ("source.ids", 21),
        ("source.ids", 20),
        ("target.ids", 20),
        ("source.ends", 16),
        ("target.ends", 0),
    ],
)
def test_a_truncated_store_is_refused(name: str, keep: int, vocabulary: Vocabulary, tmp_path: Path) -> None:
    build_store(PAIRS, vocabulary, tmp_path / "store", 100)
    path = tmp_path / "store" / name
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DragomanError, match="store"):
        TokenStore(tmp_path / "store")


@pytest.mark.parametrize("content", ["[]", "{}", '{"report": {"pairs": 3}}', "null", "\xff"])
def test_a_store_with_a_strange_description_is_refused(content: str, vocabulary: Vocabulary, tmp_path: Path) -> None:
    build_store(PAIRS, vocabulary, tmp_path / "store", 100)
    (tmp_path / "store" / "store.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(DragomanError, match="store"):
        TokenStore(tmp_path / "store")


def test_progress_counts_the_pairs_read_up_to_all_of_them(vocabulary: Vocabulary, tmp_path: Path) -> None:
    seen: list[int] = []
    build_store([*PAIRS, ("", "")], vocabulary, tmp_path / "store", 100, seen.append)
    assert seen == sorted(set(seen))
    assert seen[-1] == len(PAIRS) + 1


def test_numbers_of_a_report_are_what_the_line_for_people_says() -> None:
    line = StoreReport(1234, 0, 5, 10_000, 20_000, "").describe()
    assert all(number in line for number in ("1,234", "10,000", "20,000", "5 too long"))
    assert "empty" not in line


# ---- sampling


NUMBERED: list[Pair] = [(str(i), str(i)) for i in range(100)]


def test_a_sample_is_drawn_without_repetition_and_counts_everything() -> None:
    sample, count = sample_pairs(iter(NUMBERED), 10, seed=1)
    assert count == 100
    assert len(set(sample)) == 10
    assert set(sample) <= set(NUMBERED)


@pytest.mark.parametrize("size", [100, 500])
def test_a_sample_as_large_as_the_text_is_the_text(size: int) -> None:
    assert sample_pairs(iter(NUMBERED), size, seed=1) == (NUMBERED, 100)


def test_a_sample_depends_on_the_seed_and_on_nothing_else() -> None:
    assert sample_pairs(iter(NUMBERED), 10, seed=1) == sample_pairs(iter(NUMBERED), 10, seed=1)
    assert sample_pairs(iter(NUMBERED), 10, seed=1) != sample_pairs(iter(NUMBERED), 10, seed=2)


def test_every_pair_is_about_equally_likely_to_be_sampled() -> None:
    drawn = Counter(pair for seed in range(600) for pair in sample_pairs(iter(NUMBERED), 10, seed)[0])
    # Binomial: 60 times on average, with a standard deviation of 7.3.
    assert all(60 - 5 * 7.4 < drawn[pair] < 60 + 5 * 7.4 for pair in NUMBERED)


@pytest.mark.parametrize("name", ["source.ids", "source.ends", "target.ids", "target.ends"])
def test_a_store_in_which_a_bit_has_turned_is_none(name: str, vocabulary: Vocabulary, tmp_path: Path) -> None:
    build_store(PAIRS, vocabulary, tmp_path / "store", 50)
    path = tmp_path / "store" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DragomanError, match="not a complete token store"):
        TokenStore(tmp_path / "store")


def test_a_description_that_is_nested_without_end_is_none(vocabulary: Vocabulary, tmp_path: Path) -> None:
    build_store(PAIRS, vocabulary, tmp_path / "store", 50)
    (tmp_path / "store" / "store.json").write_text("[" * 100_000)
    with pytest.raises(DragomanError, match="not a complete token store"):
        TokenStore(tmp_path / "store")


def test_a_text_of_which_nothing_is_left_is_named(vocabulary: Vocabulary, tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match="my text: no sentence pair is left of 2"):
        build_store([("", "x"), ("x", " ")], vocabulary, tmp_path / "store", 50, name="my text")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_with_the_cure(vocabulary: Vocabulary, tmp_path: Path) -> None:
    pairs = [("a cat sees a dog", "un chat voit un chien")] * 400
    with full_disk(1000):
        said = complaint(lambda: build_store(pairs, vocabulary, tmp_path / "store", 100))
    assert "store: could not be saved (File too large)" in said
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", lambda path, target: no_space(0))
        said = complaint(lambda: build_store(pairs, vocabulary, tmp_path / "store", 100))
    assert "make room and run the same command again" in said
    assert not list(tmp_path.iterdir())


def test_the_fingerprint_tells_where_the_source_ends(vocabulary: Vocabulary, tmp_path: Path) -> None:
    pairs = [("ab", "c"), ("a", "bc")]
    one, other = (build_store([pair], vocabulary, tmp_path / "store", 100).report.fingerprint for pair in pairs)
    assert one != other


def test_the_last_pair_is_no_likelier_in_a_sample_than_the_first() -> None:
    first = sum(sample_pairs([("a", "a"), ("b", "b")], 1, seed)[0] == [("a", "a")] for seed in range(400))
    assert 150 < first < 250


def test_spaces_make_no_sentence_hopeless(vocabulary: Vocabulary, tmp_path: Path) -> None:
    padded = "the cat" + " " * 5000 + "sleeps"
    store = build_store([(padded, "die Katze")], vocabulary, tmp_path / "store", 100)
    assert contents(store) == encoded([("the cat sleeps", "die Katze")], vocabulary)
