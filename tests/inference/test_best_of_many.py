"""The best continuations of a step are those that a sort of all of them finds, also within a search."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from dragoman.config import SearchConfig
from dragoman.inference import search as search_module
from dragoman.inference.rules import Rule
from dragoman.inference.search import SearchState, _stable_topk, log_sums, search

NEVER = -float("inf")


def sorted_topk(sums: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """What _stable_topk must find, from a stable sort of everything."""
    values, places = sums.sort(dim=1, descending=True, stable=True)
    return values[:, :count], places[:, :count]


def assert_same_best(scores: Tensor, log_probs: Tensor, counts: list[int]) -> None:
    """The best values are those of a sort of everything, and so are their places, unless they are impossible."""
    sums = (scores[:, :, None] + log_probs).flatten(1)
    for count in counts:
        values, places = _stable_topk(sums, count)
        expected_values, expected_places = sorted_topk(sums, count)
        assert torch.equal(values, expected_values)
        possible = values > NEVER
        assert torch.equal(places[possible], expected_places[possible])


def logits_of(kind: str, shape: tuple[int, int, int]) -> Tensor:
    """Log-probabilities with more or fewer equal and impossible ones."""
    values = torch.randn(shape)
    ids = torch.arange(shape[2])
    if kind == "ties":  # values with one decimal: thousands are equal
        return values.mul(10).round().div(10)
    if kind == "all equal":
        return torch.zeros(shape)
    if kind == "a few levels":
        return torch.randint(-2, 1, shape).float()
    if kind == "few possible":
        return values.masked_fill(torch.rand(shape) < 0.998, NEVER)
    if kind == "one possible":
        return values.masked_fill(ids != shape[2] // 2, NEVER)
    if kind == "best at the end":
        return values + 20.0 * (ids >= shape[2] - 5)
    if kind == "last of many equal":  # most are equal to the last one found
        return torch.where(torch.rand(shape) < 0.01, values.abs().ceil(), torch.zeros(()))
    return values


KINDS = ["random", "ties", "all equal", "a few levels", "few possible", "one possible"]
KINDS += ["best at the end", "last of many equal"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vocabulary", [5, 513])
def test_the_best_of_many_are_those_of_a_sort_of_all(vocabulary: int, kind: str) -> None:
    torch.manual_seed(vocabulary)
    for width in (1, 4):
        for scores in (torch.zeros(3, width), -torch.rand(3, width), -torch.randint(3, (3, width)).float()):
            assert_same_best(scores, logits_of(kind, (3, width, vocabulary)), [1, 3, 8, 20, 129, 5000])
    impossible = torch.tensor([[-1.0, NEVER, -0.5, NEVER], [NEVER, NEVER, NEVER, -2.0], [NEVER] * 4])
    assert_same_best(impossible, logits_of(kind, (3, 4, vocabulary)), [8])


@pytest.mark.parametrize(("rows", "vocabulary"), [(1, 5), (3, 8000), (19, 8000), (2, 100_000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_are_those_of_all_exponentials(rows: int, vocabulary: int, dtype: torch.dtype) -> None:
    logits = (10 * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(1))).to(dtype)
    expected = logits.double().exp().sum(dim=1).log()
    torch.testing.assert_close(log_sums(logits).double(), expected, rtol=1e-6, atol=1e-5)


class Fixed:
    """Random log-probabilities over a large vocabulary, which depend on nothing but the step and the last token."""

    def __init__(self, vocabulary: int, decimals: int) -> None:
        self.vocabulary, self.decimals, self.steps = vocabulary, decimals, 0

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        pass

    def __call__(self, last: Tensor, state: SearchState) -> tuple[Tensor, Tensor]:
        self.steps += 1
        rows = []
        for token in last.tolist():
            generator = torch.Generator().manual_seed(self.steps * 99_991 + token)
            rows.append(torch.randn(self.vocabulary, generator=generator).mul(3).log_softmax(0))
        return torch.stack(rows).round(decimals=self.decimals), torch.zeros(len(rows))


def forcing(*allowed: list[int]) -> Rule:
    """A rule that leaves but these tokens at the first places."""

    def rule(log_probs: Tensor, tokens: Tensor, sentences: Sequence[int]) -> Tensor:
        if tokens.size(1) >= len(allowed):
            return log_probs
        forced = torch.full_like(log_probs, NEVER)
        forced[:, allowed[tokens.size(1)]] = log_probs[:, allowed[tokens.size(1)]]
        return forced

    return rule


@pytest.mark.parametrize("vocabulary", [513])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("rules", [(), (forcing([5]),), (forcing([5], [6, 7], [300]),)], ids=["free", "1", "3"])
def test_a_search_among_many_words_is_the_search_that_sorts_them_all(
    vocabulary: int, beam: int, rules: tuple[Rule, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for decimals in (1, 6):
        found = []
        for topk in (_stable_topk, sorted_topk):
            monkeypatch.setattr(search_module, "_stable_topk", topk)
            language = Fixed(vocabulary, decimals)
            found.append(search(language, language, [6, 3, 5], SearchConfig(beam=beam, n_best=beam), rules))
        assert found[0] == found[1]
        assert all(found[0])


@pytest.mark.parametrize("vocabulary", [8, 600])
def test_a_model_without_numbers_ends_the_search_of_its_sentence_alone(vocabulary: int) -> None:
    def step(last: Tensor, state: SearchState) -> tuple[Tensor, Tensor]:
        log_probs = torch.randn(len(last), vocabulary, generator=torch.Generator().manual_seed(len(last)))
        log_probs = log_probs.log_softmax(dim=1)
        if len(last) == 3:
            log_probs[1] = float("nan")
        return log_probs, torch.zeros(len(log_probs))

    found = search(step, Fixed(vocabulary, 0), [4, 4, 4], SearchConfig(beam=2))
    assert [bool(hypotheses) for hypotheses in found] == [True, False, True]
