"""The search against brute force and against sums done by hand; no model is needed for that."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dragoman.config import BOS, EOS, SearchConfig
from dragoman.inference.hypotheses import Hypothesis, length_penalty
from dragoman.inference.rules import Begin, Rule
from dragoman.inference.search import SearchState, Step, search

A, B, C, D = 4, 5, 6, 7  # the words of the scripted languages
VOCABULARY = 8
NEVER = -float("inf")

Script = Callable[[int, tuple[int, ...]], dict[int, float]]
"""(sentence, tokens so far) -> probability of each next token."""


class Prefixes:
    """A search state that remembers every hypothesis' sentence and tokens."""

    def __init__(self, batch: int) -> None:
        self.rows: list[tuple[int, tuple[int, ...]]] = [(sentence, ()) for sentence in range(batch)]
        self.batch = list(range(batch))

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        self.rows = [self.rows[i] for i in hypotheses.tolist()]
        if sentences is not None:
            self.batch = [self.batch[i] for i in sentences.tolist()]
        width = len(self.rows) // len(self.batch)
        for i, (sentence, _) in enumerate(self.rows):
            assert sentence == self.batch[i // width], "hypotheses of one sentence must stay side by side"


def scripted(script: Script) -> Step:
    """A step function that looks the probabilities up."""

    def step(last: Tensor, state: SearchState) -> tuple[Tensor, Tensor]:
        assert isinstance(state, Prefixes)
        rows = []
        state.rows = [
            (sentence, (*tokens, token) if token != BOS else tokens)
            for (sentence, tokens), token in zip(state.rows, last.tolist(), strict=True)
        ]
        for sentence, tokens in state.rows:
            probabilities = script(sentence, tokens)
            rows.append([math.log(p) if (p := probabilities.get(i, 0.0)) else NEVER for i in range(VOCABULARY)])
        return torch.tensor(rows, dtype=torch.float64), torch.zeros(len(rows), dtype=torch.float64)

    return step


def run(
    script: Script, config: SearchConfig, max_lengths: list[int], rules: tuple[Rule, ...] = ()
) -> list[list[Hypothesis]]:
    return search(scripted(script), Prefixes(len(max_lengths)), max_lengths, config, rules)


def random_language(seed: int, sharpness: float = 1.0) -> Script:
    """Four words, any order, random but fixed probabilities for every prefix."""

    def script(sentence: int, tokens: tuple[int, ...]) -> dict[int, float]:
        generator = torch.Generator().manual_seed(
            (seed * 7919 + sentence * 104729 + sum((i + 2) ** 3 * t for i, t in enumerate(tokens))) % 2**31
        )
        probabilities = (sharpness * torch.randn(5, generator=generator, dtype=torch.float64)).softmax(0).tolist()
        return dict(zip((EOS, A, B, C, D), probabilities, strict=True))

    return script


def brute_force(script: Script, sentence: int, max_length: int, alpha: float) -> list[Hypothesis]:
    """Every sequence of up to max_length words, best first."""
    found = []
    for length in range(max_length + 1):
        for tokens in itertools.product((A, B, C, D), repeat=length):
            steps = zip((*tokens, EOS), range(length + 1), strict=True)
            log_prob = sum(math.log(script(sentence, tokens[:i])[token]) for token, i in steps)
            found.append(Hypothesis(list(tokens), log_prob, log_prob / length_penalty(length + 1, alpha)))
    return sorted(found, key=lambda h: -h.score)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_beam_as_wide_as_the_space_finds_what_brute_force_finds(seed: int, alpha: float) -> None:
    script = random_language(seed)
    config = SearchConfig(beam=400, n_best=5, length_penalty=alpha)
    results = run(script, config, [4, 3, 4])
    for sentence, (found, max_length) in enumerate(zip(results, [4, 3, 4], strict=True)):
        expected = brute_force(script, sentence, max_length, alpha)[:5]
        assert [h.tokens for h in found] == [h.tokens for h in expected]
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_with_a_beginning_it_finds_the_best_of_all_that_begin_so_in_whatever_subwords(seed: int) -> None:
    script, lengths = random_language(seed), [4, 3, 4, 4]
    written = [""] * 4 + [" a", " ab", "b", " b"]
    beginnings = [" ab", "", " a", " abb b"]
    results = run(script, SearchConfig(beam=400, n_best=5), lengths, (Begin(written, beginnings),))
    for sentence, (found, beginning) in enumerate(zip(results, beginnings, strict=True)):
        every = brute_force(script, sentence, lengths[sentence], 0.6)
        begins = [h for h in every if "".join(written[i] for i in h.tokens).startswith(beginning)]
        assert [h.tokens for h in found] == [h.tokens for h in begins[:5]]
        assert [h.log_prob for h in found] == pytest.approx([h.log_prob for h in begins[:5]], abs=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_beam_of_one_takes_the_most_probable_token_until_it_is_the_end(seed: int, alpha: float) -> None:
    script = random_language(seed)
    for sentence, (found,) in enumerate(run(script, SearchConfig(beam=1, length_penalty=alpha), [9] * 20)):
        tokens: tuple[int, ...] = ()
        while len(tokens) < 9 and (best := max(options := script(sentence, tokens), key=options.__getitem__)) != EOS:
            tokens += (best,)
        assert found.tokens == list(tokens)


def test_a_beam_of_two_by_hand() -> None:
    # Greedy takes A (0.6), after which nothing is better than 0.5: A EOS has 0.30.
    # The beam keeps B (0.4) as well, which is followed by C (0.9) and the end (1.0): B C EOS has 0.36.
    table = {
        (): {A: 0.6, B: 0.4},
        (A,): {EOS: 0.5, A: 0.3, B: 0.2},
        (B,): {C: 0.9, EOS: 0.1},
        (A, A): {EOS: 1.0},
        (B, C): {EOS: 1.0},
    }

    def script(sentence: int, tokens: tuple[int, ...]) -> dict[int, float]:
        return table.get(tokens, {EOS: 1.0})

    greedy = run(script, SearchConfig(beam=1, length_penalty=0.0), [5])[0]
    assert [(h.tokens, h.log_prob) for h in greedy] == [([A], pytest.approx(math.log(0.30)))]
    beam = run(script, SearchConfig(beam=2, n_best=2, length_penalty=0.0), [5])[0]
    assert [h.tokens for h in beam] == [[B, C], [A]]
    assert [h.log_prob for h in beam] == pytest.approx([math.log(0.36), math.log(0.30)])


def test_the_length_penalty_can_turn_the_order_round() -> None:
    # A EOS: 0.5. B C C C C EOS: 0.4. Divided by lp(2) and lp(6) with α = 1: ln 0.5 / (7/6) and ln 0.4 / (11/6).
    def script(sentence: int, tokens: tuple[int, ...]) -> dict[int, float]:
        if not tokens:
            return {A: 0.5, B: 0.4, D: 0.1}
        if tokens[0] == B and len(tokens) < 5:
            return {C: 1.0}
        return {EOS: 1.0}

    for alpha, best in [(0.0, [A]), (1.0, [B, C, C, C, C])]:
        (found,) = run(script, SearchConfig(beam=3, length_penalty=alpha), [8])
        assert found[0].tokens == best
    assert found[0].score == pytest.approx(math.log(0.4) / (11 / 6))


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_a_batch_finds_what_each_sentence_finds_alone(beam: int) -> None:
    script = random_language(7)
    config = SearchConfig(beam=beam, n_best=beam)
    limits = [6, 2, 9, 0, 4]
    together = run(script, config, limits)
    for sentence, limit in enumerate(limits):
        (alone,) = run(lambda _, tokens, s=sentence: script(s, tokens), config, [limit])  # type: ignore[misc]
        assert [h.tokens for h in together[sentence]] == [h.tokens for h in alone]
        assert [h.score for h in together[sentence]] == pytest.approx([h.score for h in alone])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_stopping_early_loses_nothing(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def scores() -> list[list[float]]:
        config = SearchConfig(beam=6, length_penalty=alpha)
        return [[h[0].score for h in run(random_language(seed), config, [10, 7])] for seed in range(20)]

    early = scores()
    stop = "dragoman.inference.search._is_done"
    monkeypatch.setattr(
        stop, lambda beam, row, best, finished, config: len(finished[beam.sentences[row]]) >= 6 or best == NEVER
    )
    quota = scores()
    assert all(a >= b for some, others in zip(early, quota, strict=True) for a, b in zip(some, others, strict=True))
    if alpha == 0.0:  # without a penalty the bound is exact: nothing gets better by waiting
        monkeypatch.setattr(stop, lambda beam, row, best, finished, config: best == NEVER)
        assert early == scores()


@pytest.mark.parametrize("beam", [1, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_hopeless_endings_do_not_end_the_search(beam: int, alpha: float) -> None:
    # A model that is sure of every word: whatever else the beam holds is an ending with a probability of 0.02.
    def script(sentence: int, tokens: tuple[int, ...]) -> dict[int, float]:
        return {EOS: 1.0} if len(tokens) == 4 else {(A, B, C, D)[len(tokens)]: 0.98, EOS: 0.02}

    (found,) = run(script, SearchConfig(beam=beam, length_penalty=alpha), [8])[0]
    assert found.tokens == [A, B, C, D]


def test_equal_scores_go_to_the_earlier_hypothesis_and_the_smaller_token() -> None:
    def script(sentence: int, tokens: tuple[int, ...]) -> dict[int, float]:
        return {EOS: 1.0} if len(tokens) == 2 else {A: 0.25, B: 0.25, C: 0.25, D: 0.25}

    (found,) = run(script, SearchConfig(beam=4, n_best=4), [5])
    assert [h.tokens for h in found] == [[A, A], [A, B], [A, C], [A, D]]


def test_no_hypothesis_is_longer_than_its_limit_and_each_one_pays_for_its_end() -> None:
    def script(sentence: int, tokens: tuple[int, ...]) -> dict[int, float]:
        return {EOS: 0.01, A: 0.99}

    (found,) = run(script, SearchConfig(beam=5, length_penalty=2.0), [3])
    assert found[0].tokens == [A, A, A]
    assert found[0].log_prob == pytest.approx(3 * math.log(0.99) + math.log(0.01))


def test_an_ending_takes_no_place_in_the_beam() -> None:
    # A EOS 0.30, A C 0.30, B D 0.28: the ending and A C are the two best, and B D goes on all the same.
    table = {
        (): {A: 0.6, B: 0.4},
        (A,): {EOS: 0.5, C: 0.5},
        (B,): {D: 0.7, EOS: 0.3},
        (A, C): {A: 0.5, B: 0.5},
        (B, D): {EOS: 1.0},
    }
    (found,) = run(
        lambda _, tokens: table.get(tokens, {EOS: 1.0}), SearchConfig(beam=2, n_best=2, length_penalty=0.0), [5]
    )
    assert [h.tokens for h in found] == [[A], [B, D]]


def test_a_full_beam_goes_on_while_an_ending_at_the_next_step_would_win() -> None:
    # Finished: EOS, ln 0.3; A EOS, ln 0.25 / (7/6) = -1.19. A C EOS has ln 0.25 / (8/6) = -1.04.
    table = {(): {A: 0.5, EOS: 0.3, B: 0.2}, (A,): {EOS: 0.5, C: 0.5}, (B,): {D: 0.5, C: 0.5}}
    (found,) = run(lambda _, tokens: table.get(tokens, {EOS: 1.0}), SearchConfig(beam=2, length_penalty=1.0), [5])
    assert found[0].tokens == [A, C]
