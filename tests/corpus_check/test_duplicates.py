"""Repeats: the same pairs as a plain search finds, whatever fits into memory; alike means equal letters."""

from __future__ import annotations

import string
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.corpus_check.blocks import Side, read_blocks
from dragoman.corpus_check.duplicates import HeldOut, Repeats, contains, essence, near_keys, pair_keys, side_keys
from dragoman.text.corpus import Corpus


@given(st.lists(st.integers(0, 12), max_size=60), st.integers(1, 20), st.integers(1, 9))
def test_what_came_before_is_found_in_any_number_of_partitions(values: list[int], partition: int, step: int) -> None:
    spread = np.array(values, np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # over all partitions
    with Repeats(len(values), partition) as repeats:
        for start in range(0, len(values), step):
            part = spread[start : start + step]
            repeats.add(part, np.arange(start, start + len(part), dtype=np.int64))
        found = {
            int(later): int(first)
            for laters, firsts in repeats.found()
            for later, first in zip(laters, firsts, strict=True)
        }
    assert found == {n: values.index(value) for n, value in enumerate(values) if value in values[:n]}


def test_partitions_are_as_many_as_memory_asks_for() -> None:
    keys = np.random.default_rng(1).integers(0, 2**63, 4000).astype(np.uint64) * np.uint64(2)
    with Repeats(4000, 500) as repeats:
        repeats.add(keys, np.arange(4000))
        parts = list(repeats.found())
        assert len(repeats._files) == 8
    assert len(parts) == 8
    assert all(file.closed for file in repeats._files)


@given(
    st.lists(st.text(st.sampled_from(string.printable.replace("\n", "") + "éÉßÄä日本—…«»١٢"), max_size=8), min_size=1)
)
def test_essence_is_the_letters_in_lower_case_whatever_the_neighbours_are(lines: list[str]) -> None:
    expected = ["".join(c for c in line.lower() if c.isalpha()) for line in lines]
    assert essence(Side(lines)) == expected
    assert essence(Side([*lines, "é"]))[:-1] == expected  # not by the fast way for ASCII


@given(st.sets(st.integers(0, 50)), st.lists(st.integers(0, 50)))
def test_contains_is_membership(known: set[int], asked: list[int]) -> None:
    found = contains(np.array(sorted(known), np.uint64), np.array(asked, np.uint64))
    assert found.tolist() == [value in known for value in asked]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    pairs = [
        ("A cat.", "Eine Katze."),
        ("a  cat!", "eine KATZE 2"),
        (" A cat. ", "Eine Katze."),
        ("", "leer"),
        ("7", "7"),
    ]
    for side, name in enumerate("ab"):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return Corpus((tmp_path / "a", tmp_path / "b"), ("en", "de"))


def test_keys_are_equal_for_equal_text(corpus: Corpus) -> None:
    (block,) = read_blocks(corpus)
    exact, sources, targets = pair_keys(block), side_keys(block, 0), side_keys(block, 1)
    near, comparable = near_keys(block)
    assert exact[0] == exact[2] != exact[1]
    assert sources[0] == sources[2] != sources[1]
    assert targets[0] == targets[2] != targets[1]
    assert near[0] == near[1] == near[2]
    assert comparable.tolist() == [True, True, True, False, False]  # without letters nothing is alike
    assert len({*exact.tolist()}) == 4


def test_keys_are_equal_however_accents_are_written(tmp_path: Path) -> None:
    pairs = [("Café déjà vu", "naïf été"), ("한국어", "Ελλάδα ά"), ("cafe deja vu", "naif ete")]
    blocks = []
    for forms in (("NFC", "NFC"), ("NFD", "NFC"), ("NFC", "NFD"), ("NFD", "NFD")):
        for side, form in enumerate(forms):
            lines = "".join(f"{unicodedata.normalize(form, pair[side])}\n" for pair in pairs)
            (tmp_path / "ab"[side]).write_text(lines, encoding="utf-8")
        blocks += read_blocks(Corpus((tmp_path / "a", tmp_path / "b"), ("en", "de")))
    for keys in (pair_keys, lambda b: side_keys(b, 0), lambda b: side_keys(b, 1), lambda b: near_keys(b)[0]):
        found = [keys(block).tolist() for block in blocks]
        assert found == [found[0]] * 4
        assert len({*found[0]}) == 3
    held = HeldOut(iter(blocks[:1]))
    assert contains(held.pairs, pair_keys(blocks[3])).all()


def test_held_out_text_is_known_without_its_empty_pairs(corpus: Corpus) -> None:
    held = HeldOut(read_blocks(corpus))
    (block,) = read_blocks(corpus)
    assert contains(held.pairs, pair_keys(block)).tolist() == [True, True, True, False, True]
    assert contains(held.near, near_keys(block)[0]).tolist() == [True, True, True, False, False]
    assert len(held.sources) == 3
    assert len(held.targets) == 3
