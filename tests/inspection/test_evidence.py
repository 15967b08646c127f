from __future__ import annotations

import math

import pytest
import torch

from dragoman.config import EOS, SearchConfig, TextConfig
from dragoman.inference.search import Hypothesis, SearchState, search
from dragoman.inspection.evidence import BeamRecorder, beam_tree, predictions
from dragoman.text.subwords import SubwordModel, learn_subwords

SIZE = 300


@pytest.fixture(scope="module")
def subwords() -> SubwordModel:
    lines = [f"word{i} and {i * 7} more" for i in range(200)]
    return learn_subwords(lines, TextConfig(vocab_size=SIZE))


class _Stateless:
    def select(self, hypotheses: torch.Tensor, sentences: torch.Tensor | None) -> None:
        pass


def _step(last: torch.Tensor, state: SearchState) -> tuple[torch.Tensor, torch.Tensor]:
    """A Markov model: what follows depends on the last token alone."""
    table = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(5)) * 3
    table[:, EOS] += 3.0
    return table[last], table[last].logsumexp(dim=1)


def _searched(beam: int) -> tuple[BeamRecorder, list[Hypothesis]]:
    recorder = BeamRecorder()
    config = SearchConfig(beam=beam, n_best=beam)
    (watched,) = search(_step, _Stateless(), [12], config, (recorder,))
    (unwatched,) = search(_step, _Stateless(), [12], config)
    assert watched == unwatched, "watching changes the search"
    return recorder, watched


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_the_tree_holds_every_open_hypothesis_and_every_end(beam: int, subwords: SubwordModel) -> None:
    recorder, finished = _searched(beam)
    tree = beam_tree(recorder, finished, subwords)
    # Walk up from every end: the pieces on the way are the hypothesis, the log-probability its own.
    ends = {node.candidate: node for node in tree if node.candidate >= 0}
    assert sorted(ends) == list(range(len(finished)))
    for candidate, hypothesis in enumerate(finished):
        pieces, node = [], ends[candidate]
        assert node.log_prob == pytest.approx(hypothesis.log_prob)
        while True:
            pieces.append(node.piece)
            if node.parent < 0:
                break
            assert tree[node.parent].depth == node.depth - 1
            assert tree[node.parent].log_prob >= node.log_prob
            node = tree[node.parent]
        assert pieces[::-1] == subwords.pieces([*hypothesis.tokens, EOS])
    depths = [node.depth for node in tree if node.candidate < 0]
    assert depths
    assert max(depths.count(depth) for depth in set(depths)) <= beam
    assert all(node.parent < place for place, node in enumerate(tree))


def test_log_probabilities_in_the_tree_are_those_of_the_model(subwords: SubwordModel) -> None:
    recorder, finished = _searched(3)
    for tokens, log_prob in recorder.log_probs.items():
        last = [2, *tokens[:-1]]  # BOS first
        expected = 0.0
        for before, token in zip(last, tokens, strict=True):
            logits, total = _step(torch.tensor([before]), _Stateless())
            expected += float(logits[0, token] - total)
        assert log_prob == pytest.approx(expected, abs=1e-4)
    assert finished


def test_impossible_hypotheses_are_no_nodes(subwords: SubwordModel) -> None:
    recorder = BeamRecorder()
    log_probs = torch.full((1, SIZE), -math.inf)
    log_probs[0, 260] = 0.0
    recorder(log_probs, torch.empty(1, 0, dtype=torch.long))
    recorder(log_probs.repeat(2, 1), torch.tensor([[260], [261]]))
    (node,) = beam_tree(recorder, [], subwords)
    assert (node.piece, node.log_prob, node.parent) == (subwords.pieces([260])[0], 0.0, -1)


def test_predictions_rank_the_subword_that_was_taken(subwords: SubwordModel) -> None:
    probs = torch.full((2, SIZE), 0.1 / (SIZE - 3))
    probs[0, [260, 261, 262]] = torch.tensor([0.5, 0.3, 0.1])
    probs[1, [260, EOS, 262]] = torch.tensor([0.2, 0.6, 0.1])
    first, second = predictions(probs.log(), [261, EOS], subwords, 3)
    assert (first.rank, second.rank) == (2, 1)
    assert first.probability == pytest.approx(0.3)
    assert second.piece == "</s>"
    assert [piece for piece, _ in first.likeliest] == subwords.pieces([260, 261, 262])
    assert [p for _, p in first.likeliest] == pytest.approx([0.5, 0.3, 0.1])
    assert len(predictions(probs.log(), [261, EOS], subwords, 10**6)[0].likeliest) == SIZE
