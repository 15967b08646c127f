"""An inspection shows what the model computes and what the search looked into, whatever was translated and how."""

import math

import pytest
import torch

from dragoman.config import EOS, ConfigError, DragomanError, SearchConfig, TextConfig
from dragoman.inference.hypotheses import Hypothesis
from dragoman.inference.search import SearchState, search
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import BeamRecorder, beam_tree, inspect, predictions
from dragoman.model.masks import causal_mask
from dragoman.text.subwords import SubwordModel, learn_subwords
from tests.inference.small_translators import LINES, build, folder_of, forced

SIZE = 300
BLOCKS = [("encoder", "self_attention"), ("decoder", "self_attention"), ("decoder", "cross_attention")]


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
    recorder(log_probs, torch.empty(1, 0, dtype=torch.long), [0])
    recorder(log_probs.repeat(2, 1), torch.tensor([[260], [261]]), [0])
    (node,) = beam_tree(recorder, [], subwords)
    assert (node.piece, node.log_prob, node.parent) == (subwords.pieces([260])[0], 0.0, -1)


def test_predictions_rank_the_subword_that_was_taken(subwords: SubwordModel) -> None:
    probs = torch.full((2, SIZE), 0.1 / (SIZE - 3))
    probs[0, [260, 261, 262]] = torch.tensor([0.5, 0.3, 0.1])
    probs[1, [260, EOS, 262]] = torch.tensor([0.2, 0.6, 0.1])
    first, second = predictions(probs.log(), [261, EOS], subwords)
    assert (first.rank, second.rank) == (2, 1)
    assert first.probability == pytest.approx(0.3)
    assert second.piece == "</s>"
    assert [piece for piece, _ in first.likeliest[:3]] == subwords.pieces([260, 261, 262])
    assert [p for _, p in first.likeliest[:3]] == pytest.approx([0.5, 0.3, 0.1])


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_inspection_shows_what_a_forward_pass_computes(joint: bool, norm: str) -> None:
    translator, sentence = build(joint, norm), LINES[11]
    inspection = inspect(translator, sentence, SearchConfig(beam=3))
    (best,) = translator.translate([sentence], SearchConfig(beam=3, n_best=3))
    log_probs, maps = forced(translator, sentence, best.subwords)
    names = [f"{part}.{i}.{kind}" for i in (0, 1) for part, kind in BLOCKS]
    assert sorted(inspection.maps) == sorted(names) == sorted(maps)
    for name, weights in inspection.maps.items():
        assert weights.shape == maps[name].shape[1:]
        assert weights == pytest.approx(maps[name][0].numpy(), abs=1e-6)
        assert weights.sum(axis=-1) == pytest.approx(1.0, abs=1e-5)
        if name.startswith("decoder") and name.endswith("self_attention"):
            future = ~causal_mask(weights.shape[1])[0, 0].numpy()
            assert (weights[:, future] == 0.0).all()
    target = [*best.subwords, EOS]
    probabilities = [float(row[token].exp()) for row, token in zip(log_probs, target, strict=True)]
    assert [step.probability for step in inspection.predictions] == pytest.approx(probabilities, abs=1e-6)
    assert inspection.log_prob == pytest.approx(best.log_prob, abs=1e-3)
    assert inspection.score == pytest.approx(best.score, abs=1e-3)
    assert (inspection.target, inspection.chosen) == (best.text, 0)
    # The alternatives are those of translate, and their scores are what scoring them gives.
    assert [c.text for c in inspection.candidates] == [best.text, *(a.text for a in best.alternatives)]
    for shown, found in zip(inspection.candidates, [best, *best.alternatives], strict=True):
        ids = [*translator.vocabulary.source.encode([sentence])[0], EOS]
        (log_prob,) = translator.engine.score([ids], [[*found.subwords, EOS]])
        assert shown.log_prob == pytest.approx(log_prob, abs=1e-3)


def test_any_translation_can_be_inspected() -> None:
    translator = build()
    wanted = "the old house"
    inspection = inspect(translator, LINES[4], translation=wanted)
    (score,) = translator.score([(LINES[4], wanted)])
    assert (inspection.target, inspection.chosen) == (wanted, -1)
    assert inspection.log_prob == pytest.approx(score.log_prob, abs=1e-4)
    assert inspection.score == pytest.approx(score.score(0.6), abs=1e-4)
    assert inspection.outputs == [
        *translator.vocabulary.target.pieces(translator.vocabulary.target.encode([wanted])[0]),
        "</s>",
    ]
    assert inspection.inputs[0] == "<s>"
    assert inspection.inputs[1:] == inspection.outputs[:-1]
    assert inspection.candidates == inspect(translator, LINES[4]).candidates  # the search is shown all the same
    assert inspect(translator, LINES[4], translation="").outputs == ["</s>"]


def test_a_translation_that_the_search_found_is_taken_as_it_found_it() -> None:
    translator = build()
    inspection = inspect(translator, LINES[4])
    for place, candidate in enumerate(inspection.candidates):
        first = [c.text for c in inspection.candidates].index(candidate.text)
        again = inspect(translator, LINES[4], translation=candidate.text)
        assert again.chosen == first <= place
        assert again.outputs == inspection.candidates[first].pieces
        assert again.score == pytest.approx(inspection.candidates[first].score, abs=1e-3)


def test_what_cannot_be_inspected_is_refused() -> None:
    translator = build(max_length=20)
    for sentence in ("", "  "):
        with pytest.raises(DragomanError, match="empty"):
            inspect(translator, sentence)
    with pytest.raises(DragomanError, match=r"the translation has .* at most 20"):
        inspect(translator, "cat", translation="dog cat " * 30)
    with pytest.raises(DragomanError, match=r"the sentence has .* at most 20 subwords"):
        inspect(translator, "cat dog " * 30)
    for layer in (-1, 3):
        with pytest.raises(ConfigError, match=r"alignment_layer.* 2 decoder layers"):
            inspect(translator, "cat", layer=layer)
        with pytest.raises(ConfigError, match="alignment_layer"):
            translator.align(["cat"], translator.translate(["cat"]), layer=layer)


def test_an_inspection_compares_scores_of_one_precision() -> None:
    translator = build()
    exact = inspect(translator, LINES[5])
    rounded = inspect(Translator(folder_of(translator), autocast=True), LINES[5], translation=exact.target)
    assert rounded.facts["search"]["precision"] == "bf16"
    assert rounded.chosen >= 0
    assert rounded.candidates[rounded.chosen].log_prob == pytest.approx(rounded.log_prob, abs=1e-5)
    assert rounded.candidates[rounded.chosen].score == pytest.approx(rounded.score, abs=1e-5)
    assert rounded != exact  # two records are told apart without a comparison of their arrays
