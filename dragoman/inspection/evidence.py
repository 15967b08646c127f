"""What the model expected and what the search looked into, as records.

Shapes: N hypotheses, T target steps, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from dragoman.config import EOS
from dragoman.inference.search import Hypothesis
from dragoman.inspection.record import BeamNode, Prediction
from dragoman.text.subword import SubwordModel


class BeamRecorder:
    """A rule that forbids nothing and remembers every hypothesis of one sentence that the search goes on with."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.log_probs: dict[tuple[int, ...], float] = {}
        """Of every hypothesis seen, by its tokens; parents before children."""
        self._before: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """Look at the hypotheses (N, T) and what may follow them (N, V); returns log_probs as they are."""
        open_now = [tuple(row) for row in tokens.tolist()]
        for hypothesis in open_now:
            if hypothesis:
                last_step = float(self._before[hypothesis[:-1]][hypothesis[-1]])
                self.log_probs[hypothesis] = self.log_probs.get(hypothesis[:-1], 0.0) + last_step
        self._before = dict(zip(open_now, log_probs, strict=True))
        return log_probs


def beam_tree(recorder: BeamRecorder, finished: Sequence[Hypothesis], subwords: SubwordModel) -> list[BeamNode]:
    """The hypotheses that were open at some step, and the ends of the finished ones.

    Args:
        recorder: what watched the search.
        finished: what the search returned; their places are the candidates' numbers.
        subwords: the target's.

    Returns:
        Nodes, parents before children; nodes that share a parent stand in the order in which they were found.
    """
    log_probs = dict(recorder.log_probs)
    ends: dict[tuple[int, ...], int] = {}
    for candidate, hypothesis in enumerate(finished):
        path = (*hypothesis.tokens, EOS)
        log_probs[path] = hypothesis.log_prob
        ends[path] = candidate
    places: dict[tuple[int, ...], int] = {(): -1}
    nodes: list[BeamNode] = []
    for path in sorted(log_probs, key=len):
        if log_probs[path] == -float("inf"):  # fills up a beam wider than the vocabulary
            continue
        places[path] = len(nodes)
        piece = subwords.pieces(path[-1:])[0]
        nodes.append(BeamNode(places[path[:-1]], len(path) - 1, piece, log_probs[path], ends.get(path, -1)))
    return nodes


def predictions(log_probs: Tensor, target: Sequence[int], subwords: SubwordModel, count: int) -> list[Prediction]:
    """What the model expected at each step of a translation.

    Args:
        log_probs: of every next token along the translation, (T, V).
        target: ids of the translation and EOS (T).
        subwords: the target's.
        count: how many of the most probable subwords to name.
    """
    result = []
    best, places = log_probs.exp().topk(min(count, log_probs.size(1)), dim=1)
    for row, token, values, ids in zip(log_probs, target, best.tolist(), places.tolist(), strict=True):
        rank = int((row > row[token]).sum()) + 1
        likeliest = list(zip(subwords.pieces(ids), values, strict=True))
        result.append(Prediction(subwords.pieces([token])[0], float(row[token].exp()), rank, likeliest))
    return result
