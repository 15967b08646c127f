"""The token store: what goes in comes out, or there is no store at all."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from dragoman.config import EOS, DragomanError, TextConfig
from dragoman.text import dataset
from dragoman.text.corpus import Pair
from dragoman.text.dataset import PairEncoder, TokenStore, build_store, sample_pairs
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


def build(pairs: Iterable[Pair], vocabulary: Vocabulary, folder: Path, longest: int, name: str = "") -> TokenStore:
    return build_store([(0, pairs)], PairEncoder(vocabulary, longest), folder, name=name)


def contents(store: TokenStore) -> list[tuple[list[int], list[int]]]:
    return [(source.tolist(), target.tolist()) for source, target in map(store.__getitem__, range(len(store)))]


def encoded(pairs: Sequence[Pair], vocabulary: Vocabulary) -> list[tuple[list[int], list[int]]]:
    sources = vocabulary.source.encode([source for source, _ in pairs])
    targets = vocabulary.target.encode([target for _, target in pairs])
    return [([*s, EOS], [*t, EOS]) for s, t in zip(sources, targets, strict=True)]


@pytest.mark.parametrize("count", [1, 3, 11])
def test_what_goes_in_comes_out_across_chunks(count: int, vocabulary: Vocabulary, tmp_path: Path) -> None:
    store = build(iter(PAIRS[:count]), vocabulary, tmp_path / "store", 100)
    assert contents(store) == encoded(PAIRS[:count], vocabulary)
    assert contents(TokenStore(tmp_path / "store")) == contents(store)
    assert isinstance(getattr(store[0][0].base, "base", None), np.memmap)
    for lengths, tokens, number in (
        (store.lengths[0], store.report.source_tokens, 0),
        (store.lengths[1], store.report.target_tokens, 1),
    ):
        assert lengths.tolist() == [len(pair[number]) for pair in contents(store)]
        assert tokens == lengths.sum()


def test_texts_are_read_by_weight_and_temperature(vocabulary: Vocabulary, tmp_path: Path) -> None:
    odd = [("", "x"), PAIRS[0], ("x", "")]
    texts = [(0, PAIRS[:5]), (0, PAIRS[5:6]), (1, odd)]  # two directions of the first text
    store = build_store(texts, PairEncoder(vocabulary, 100), tmp_path / "store")
    assert store.times([], 1) is None
    for own in (store, TokenStore(tmp_path / "store")):
        for weights, temperature, expected in (
            ([3, 0.5], 1, [3, 3, 0.5]),
            ([], 2, [1, 5**0.5, 5**0.5]),
            ([3, 0.5], 2, [3, 3 * 5**0.5, 0.5 * 5**0.5]),
        ):
            times = own.times(weights, temperature)
            assert times is not None
            assert times.tolist() == pytest.approx([*expected[:1] * 5, *expected[1:]])


def test_empty_sides_and_long_pairs_are_left_out_and_counted(vocabulary: Vocabulary, tmp_path: Path) -> None:
    long = " ".join(["cat"] * 200)
    odd = [("", "x"), ("x", " \t"), (long, "x"), ("x", long), ("\u3000", ""), ("x", long), ("", long)]
    mixed = [*PAIRS[:5], *odd[:4], *PAIRS[5:], *odd[4:]]
    store = build(mixed, vocabulary, tmp_path / "store", 100)
    assert contents(store) == encoded(PAIRS, vocabulary)
    assert (store.report.pairs, store.report.empty, store.report.too_long) == (11, 4, 3)
    description = store.report.describe()
    assert "4 with an empty side" in description
    assert "3 too long" in description


def test_a_pair_that_is_encoded_as_nothing_counts_as_empty(vocabulary: Vocabulary, tmp_path: Path) -> None:
    lone = "\u2581"  # SentencePiece's own sign for a space
    assert vocabulary.source.encode([lone]) == [[]]
    store = build([*PAIRS, (lone, "x"), ("x", lone), (lone, lone)], vocabulary, tmp_path / "store", 100)
    assert contents(store) == encoded(PAIRS, vocabulary)
    assert (store.report.empty, store.report.too_long) == (3, 0)


def test_the_length_limit_is_inclusive_and_does_not_count_the_end(vocabulary: Vocabulary, tmp_path: Path) -> None:
    lengths = [max(len(s), len(t)) - 1 for s, t in encoded(PAIRS, vocabulary)]
    longest = max(lengths)
    assert len(build(PAIRS, vocabulary, tmp_path / "all", longest)) == len(PAIRS)
    shorter = build(PAIRS, vocabulary, tmp_path / "fewer", longest - 1)
    assert len(shorter) == sum(length < longest for length in lengths) < len(PAIRS)


# ---- the fingerprint


def test_the_fingerprint_is_the_texts(vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fingerprint(pairs: Sequence[Pair], vocabulary: Vocabulary = vocabulary, max_length: int = 100) -> str:
        return build(pairs, vocabulary, tmp_path / "store", max_length).report.fingerprint

    texts = [PAIRS, PAIRS[::-1], [*PAIRS[:10], (PAIRS[10][0], PAIRS[10][1] + " ")]]
    assert len({fingerprint(pairs) for pairs in texts}) == len(texts)
    assert fingerprint([("ab", "c")]) != fingerprint([("a", "bc")])
    other = learn_subwords([target for _, target in PAIRS], TextConfig(vocab_size=300, subwords="unigram"))
    monkeypatch.setattr(dataset, "_CHUNK", 1000)
    assert fingerprint(PAIRS, Vocabulary(other, other), 40) == fingerprint(PAIRS)


def test_a_text_of_which_nothing_is_left_is_refused(vocabulary: Vocabulary, tmp_path: Path) -> None:
    pairs = [("", "x"), ("x", " "), ("a b c d e f g h", "x")]
    with pytest.raises(DragomanError, match=r"my text: no sentence pair is left: 2 have .* and 1 more than 3"):
        build(pairs, vocabulary, tmp_path / "store", 3, name="my text")
    assert not list(tmp_path.iterdir())


# ---- ids on disk


class WideSubwords(SubwordModel):
    """So many subwords that two bytes are not enough for the last ones."""

    def __init__(self, size: int) -> None:
        self.size = size

    has_symbols = merges = False

    def __len__(self) -> int:
        return self.size

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[self.size - 1, len(line)] for line in lines]


@pytest.mark.parametrize(("size", "width"), [(2**16, 2), (2**16 + 1, 4), (200_000, 4)])
def test_ids_take_two_bytes_if_they_fit_and_four_otherwise(size: int, width: int, tmp_path: Path) -> None:
    small = WideSubwords(300)
    for sides in (Vocabulary(WideSubwords(size), small), Vocabulary(small, WideSubwords(size))):
        store = build(PAIRS, sides, tmp_path / "store", 100)
        assert contents(store) == encoded(PAIRS, sides)
        assert (tmp_path / "store" / "source.ids").stat().st_size == width * store.report.source_tokens


# ---- whole or not at all


class Interrupted(Exception):
    pass


def broken_off(after: int) -> Iterator[Pair]:
    yield from PAIRS[:after]
    raise Interrupted


@pytest.mark.parametrize("after", [0, 2, 7])
def test_an_interrupted_build_leaves_everything_as_it_was(after: int, vocabulary: Vocabulary, tmp_path: Path) -> None:
    for before in ([], ["store"]):
        with pytest.raises(Interrupted):
            build(broken_off(after), vocabulary, tmp_path / "store", 100)
        assert [path.name for path in tmp_path.iterdir()] == before
        build(PAIRS[:4], vocabulary, tmp_path / "store", 100)
    assert contents(TokenStore(tmp_path / "store")) == encoded(PAIRS[:4], vocabulary)


def test_what_a_killed_build_left_behind_does_no_harm(vocabulary: Vocabulary, tmp_path: Path) -> None:
    (tmp_path / "store.partial").mkdir()
    (tmp_path / "store.partial" / "source.ids").write_bytes(b"rubbish")
    build(PAIRS, vocabulary, tmp_path / "store", 100)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("name", ["store.json", *dataset._FILES])
def test_a_damaged_store_is_refused(name: str, vocabulary: Vocabulary, tmp_path: Path) -> None:
    build(PAIRS, vocabulary, tmp_path / "store", 100)
    path = tmp_path / "store" / name
    whole = path.read_bytes()
    for damaged in (b"", b"[]", b"{}", b"\xff", b"[" * 100_000, whole[:-1], bytes([whole[0] ^ 1, *whole[1:]]), None):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(DragomanError, match="store: not a complete token store"):
            TokenStore(tmp_path / "store")


# ---- sampling


NUMBERED: list[Pair] = [(str(i), str(i)) for i in range(100)]


@pytest.mark.parametrize("size", [100, 500])
def test_a_sample_as_large_as_the_text_is_the_text(size: int) -> None:
    assert sample_pairs(iter(NUMBERED), size, seed=1) == NUMBERED


def test_every_pair_is_about_equally_likely_to_be_sampled() -> None:
    published = ["37", "55", "2", "97"]
    assert sample_pairs(iter(NUMBERED), 4, seed=1) == [(number, number) for number in published]
    drawn = Counter(pair for seed in range(600) for pair in sample_pairs(iter(NUMBERED), 10, seed))
    # Binomial: 60 times on average, with a standard deviation of 7.3.
    assert all(60 - 5 * 7.4 < drawn[pair] < 60 + 5 * 7.4 for pair in NUMBERED)


def test_a_full_disk_is_an_error_with_the_cure(vocabulary: Vocabulary, tmp_path: Path) -> None:
    pairs = [("a cat sees a dog", "un chat voit un chien")] * 400
    with full_disk(1000):
        said = complaint(lambda: build(pairs, vocabulary, tmp_path / "store", 100))
    assert "store: could not be saved (File too large)" in said
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", lambda path, target: no_space(0))
        said = complaint(lambda: build(pairs, vocabulary, tmp_path / "store", 100))
    assert "make room and run the same command again" in said
    assert not list(tmp_path.iterdir())
