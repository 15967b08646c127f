"""Slips: found to the line where lengths allow it, and never where they say nothing."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dragoman.corpus_check import misalignment
from dragoman.corpus_check.misalignment import WINDOW, Slip, find_slips

Lengths = NDArray[np.intp]


def aligned(count: int, seed: int = 1, noise: float = 0.2) -> tuple[Lengths, Lengths]:
    generator = np.random.default_rng(seed)
    source = generator.lognormal(4, 0.5, count)
    return source.astype(np.intp) + 1, (source * generator.lognormal(0, noise, count)).astype(np.intp) + 1


@pytest.mark.parametrize("piece", [2, 3, 4096])  # windows; a long text is compared in pieces
@pytest.mark.parametrize("shift", [1, -1, 2, -3, 5, -5])
def test_a_slip_is_found_with_its_place_and_size(shift: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misalignment, "_PIECE", piece)
    source, target = aligned(10_000)
    start, end = 3210, 6789
    slipped = target.copy()
    slipped[start:end] = np.roll(target[start:end], shift)
    (slip,) = find_slips(source, slipped)
    assert slip.shift == shift
    assert abs(slip.start - start) <= 8
    assert abs(slip.end - end) <= 8


def test_two_slips_after_one_another_are_two() -> None:
    source, target = aligned(12_000)
    slipped = target.copy()
    slipped[2000:5000] = np.roll(target[2000:5000], 1)
    slipped[5000:9000] = np.roll(target[5000:9000], -2)
    found = find_slips(source, slipped)
    assert [slip.shift for slip in found] == [1, -2]
    assert abs(found[0].end - 5000) <= 8
    assert abs(found[1].start - 5000) <= 8


def test_a_slip_to_the_end_and_one_from_the_start() -> None:
    source, target = aligned(5000)
    assert [(s.start, s.end, s.shift) for s in find_slips(source, np.roll(target, 1))] == [(0, 5000, 1)]
    late = target.copy()
    late[4000:] = np.roll(target[4000:], 1)
    (slip,) = find_slips(source, late)
    assert (abs(slip.start - 4000) <= 8, slip.end) == (True, 5000)


@pytest.mark.parametrize("seed", range(0, 20, 4))
def test_aligned_text_has_no_slips_however_it_is_sorted(seed: int) -> None:
    source, target = aligned(8000, seed, noise=0.1 + 0.03 * seed)
    assert find_slips(source, target) == []
    order = np.argsort(source, kind="stable")
    assert find_slips(source[order], target[order]) == []
    order = np.argsort(target, kind="stable")
    assert find_slips(source[order], target[order]) == []
    repeated = np.repeat(np.arange(2000), 4)  # one sentence, several translations
    assert find_slips(source[repeated], aligned(8000, seed + 1)[1][:8000] * 0 + target[repeated]) == []


def test_a_part_of_chance_is_found_among_aligned_text() -> None:
    source, target = aligned(20_000)
    mixed = target.copy()
    mixed[8000:12_000] = np.random.default_rng(2).permutation(target[8000:12_000])
    (slip,) = find_slips(source, mixed)
    assert (slip.shift, slip.start, slip.end) == (0, 8000, 12_000)


def test_a_part_where_lengths_hardly_vary_is_no_part_of_chance() -> None:
    source, target = aligned(20_000)
    for lengths, seed in ((source, 4), (target, 5)):
        lengths[8000:12_000] = np.random.default_rng(seed).integers(38, 43, 4000)
    assert find_slips(source, target) == []


def test_text_of_chance_is_told_as_a_whole() -> None:
    source, target = aligned(6000)
    assert find_slips(source, np.random.default_rng(3).permutation(target)) == [Slip(0, 6000, 0)]


def test_lines_of_one_length_and_short_texts_say_nothing() -> None:
    same = np.full(5000, 30, np.intp)
    assert find_slips(same, same) == []
    source, target = aligned(5000)
    assert find_slips(source, same) == []
    assert find_slips(source[: WINDOW // 2 - 1], np.roll(target[: WINDOW // 2 - 1], 1)) == []
    assert find_slips(source[:0], target[:0]) == []


# ---- text whose neighbouring lines resemble each other


def captions(count: int, seed: int = 1) -> tuple[Lengths, Lengths]:
    """Long and short lines alternate, in stretches with more or fewer words."""
    generator = np.random.default_rng(seed)
    level = 4 + 0.2 * (np.arange(count) % 2) + 0.1 * np.repeat(generator.standard_normal(count // 5 + 1), 5)[:count]
    source = np.exp(level + 0.2 * generator.standard_normal(count))
    return source.astype(np.intp) + 1, (source * generator.lognormal(0, 0.15, count)).astype(np.intp) + 1


@pytest.mark.parametrize("seed", range(5))
def test_neighbours_that_resemble_each_other_are_no_slip(seed: int) -> None:
    assert find_slips(*captions(6000, seed)) == []


@pytest.mark.parametrize("shift", [6, 10, -12, 33, 100])
def test_lines_far_out_of_step_are_unrelated_although_their_neighbours_resemble_them(shift: int) -> None:
    source, target = captions(10_000)
    assert find_slips(source, np.roll(target, shift)) == [Slip(0, 10_000, 0)]


@pytest.mark.parametrize("make", [aligned, captions])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.6, 0.8, 0.9])
def test_damage_to_most_of_a_text_is_seen(share: float, make: Callable[[int], tuple[Lengths, Lengths]]) -> None:
    source, target = make(20_000)
    first = round(20_000 * (1 - share))
    target[first:] = np.roll(target[first:], 10)
    (slip,) = find_slips(source, target)
    assert (abs(slip.start - first) <= WINDOW, slip.end, slip.shift) == (True, 20_000, 0)
