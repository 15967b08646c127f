import pytest
import torch

from dragoman.config import BOS, EOS, PAD, UNK, SearchConfig
from dragoman.inference.hypotheses import length_penalty
from dragoman.inference.rules import Begin, MinLength, Once, Sample, forbid_specials

NO_TOKENS = torch.empty(2, 0, dtype=torch.long)


def test_length_penalty_is_wu_et_al_equation_14() -> None:
    assert length_penalty(7, 0.6) == pytest.approx(((5 + 7) ** 0.6) / ((5 + 1) ** 0.6))
    assert length_penalty(99, 0.0) == 1.0
    assert length_penalty(1, 0.6) == 1.0


def test_special_symbols_are_never_written_but_the_end_is_and_the_others_keep_their_probability() -> None:
    logits = torch.randn(2, 8)
    before = logits.clone()
    after = forbid_specials(logits, NO_TOKENS, [0, 1])
    assert after[:, [PAD, UNK, BOS]].eq(-float("inf")).all()
    assert torch.equal(after[:, EOS:], before[:, EOS:])


@pytest.mark.parametrize(
    ("tokens", "whole", "forbidden"),
    [
        ([], False, [0, 1, 2, EOS, 6, 7, 8, 9]),
        ([], True, [0, 1, 2, EOS, 5, 6, 7, 8, 9]),
        ([4], True, [0, 1, 2, EOS, 4, 5, 7, 8, 9, 10]),
        ([4, 6, 7, 8], True, [0, 1, 2, 6]),
        ([4, 6, 7, 8], False, []),
        ([4, 6, 7, 8, 9], True, []),
    ],
)
def test_a_beginning_is_spelt_as_it_is_and_ends_with_a_word_if_asked(
    tokens: list[int], whole: bool, forbidden: list[int]
) -> None:
    written = ["", "", "", "", "▁h", "▁hiÃ©s", "i", "Ã", "©", "!", "▁hiÃ©!"]  # é is written as two bytes
    after = Begin(written, ["▁hiÃ©"], whole)(torch.zeros(1, 11), torch.tensor([tokens], dtype=torch.long), [0])
    assert after[0].eq(-float("inf")).nonzero()[:, 0].tolist() == forbidden


@pytest.mark.parametrize(("written", "may_end"), [(0, False), (2, False), (3, True), (4, True)])
def test_min_length_counts_the_tokens_before_the_end(written: int, may_end: bool) -> None:
    after = MinLength(3)(torch.zeros(1, 8), torch.zeros(1, written, dtype=torch.long), [0])
    assert (after[0, EOS] == 0.0) == may_end


def test_symbols_are_written_once_and_before_the_end() -> None:
    rule = Once(symbols=[4, 5, 6], needed=[2, 0, 2, 2], limits=[9, 9, 1, 3])
    tokens = torch.tensor([[7], [7], [4], [4], [7], [7], [7], [7]])  # two hypotheses of each sentence
    logits = torch.zeros(8, 8)
    logits[:, EOS] = 3.0
    after = rule(logits, tokens, [1, 0, 2, 3])
    closed = -float("inf")
    assert after[0].tolist() == after[1].tolist() == [0, 0, 0, 3, closed, closed, closed, 0]  # needs none
    assert after[2].tolist() == after[3].tolist() == [0, 0, 0, closed, closed, 3, closed, 0]  # has the first of two
    assert after[4].tolist() == after[5].tolist() == [0, 0, 0, 3, 0, 0, closed, 0]  # has reached its limit
    assert after[6].tolist() == after[7].tolist() == [closed] * 4 + [3] + [closed] * 3  # has room for both


# ---- sampling


def drawn(sampling: float, top_k: int = 0, top_p: float = 1.0) -> torch.Tensor:
    """How often each of five tokens with these log-probabilities is drawn, as shares of 4,000."""
    logits = torch.tensor([0.5, 0.25, 0.125, 0.1, 0.025]).log()
    config = SearchConfig(sampling=sampling, top_k=top_k, top_p=top_p)
    rule = Sample(config, [torch.Generator().manual_seed(seed) for seed in range(4000)])
    after = rule(logits.repeat(4000, 1), torch.empty(4000, 0, dtype=torch.long), range(4000))
    chosen = after.argmax(dim=1)
    assert torch.equal(after.isfinite().sum(dim=1), torch.ones(4000, dtype=torch.long))
    assert torch.equal(after.max(dim=1).values, logits[chosen])  # the model's own, whatever the temperature
    return chosen.bincount(minlength=5) / 4000


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((1.0,), [0.5, 0.25, 0.125, 0.1, 0.025]),
        ((0.5,), [0.7353, 0.1838, 0.0460, 0.0294, 0.0018]),  # squares
        ((1.0, 2), [2 / 3, 1 / 3, 0, 0, 0]),
        ((1.0, 0, 0.76), [0.5714, 0.2857, 0.1429, 0, 0]),
        ((1.0, 0, 0.4), [1, 0, 0, 0, 0]),
        ((1.0, 99, 1.0), [0.5, 0.25, 0.125, 0.1, 0.025]),
    ],
)
def test_tokens_are_drawn_as_often_as_they_are_probable(settings: tuple[float, ...], expected: list[float]) -> None:
    found = drawn(*settings)  # type: ignore[arg-type]
    assert found.tolist() == pytest.approx(expected, abs=0.025)
    assert [share == 0 for share in found] == [share == 0 for share in expected]
