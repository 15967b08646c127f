"""Inspect a translation: what the model expected and what the search looked into, as records.

Shapes: N hypotheses, H heads, S source subwords, T target steps (both with `</s>`), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import torch
from torch import Tensor

from dragoman.config import BOS, EOS, DragomanError, SearchConfig
from dragoman.inference.alignment import align, split_into_words, unit_of
from dragoman.inference.batching import log_probs_in_batches
from dragoman.inference.engine import Engine
from dragoman.inference.rules import LengthPenalty
from dragoman.inference.search import Hypothesis
from dragoman.inference.translator import Translator
from dragoman.inspection.record import BeamNode, Candidate, Inspection, Prediction
from dragoman.model.attention import AttentionMaps
from dragoman.text.subwords import SubwordModel

_LIKELIEST = 6  # subwords named at each step


def inspect(
    translator: Translator,
    sentence: str,
    config: SearchConfig | None = None,
    translation: str | None = None,
    layer: int = 0,
) -> Inspection:
    """Translate one sentence and keep everything that happened: attention, probabilities, the beam, the alignment.

    Args:
        translator: any but one of an exported model, which shows no attention.
        sentence: a line of raw text.
        config: beam, length penalty, …; as many candidates are kept as the beam is wide, whatever n_best says.
        translation: look at this translation instead of the model's best one.
        layer: the decoder layer that the alignment is read from, from 1; 0 for the recommended one.

    Raises:
        ConfigError: the decoder has no such layer.
        DragomanError: the sentence is empty, or it or the translation is longer than the model can take, or the model
            is an exported one.
    """
    config = config or SearchConfig()
    engine, layer = translator.torch_engine, translator.aligning_layer(layer)
    source = _source_ids(translator, sentence)
    recorder = BeamRecorder()
    hypotheses = engine.search([source], replace(config, n_best=config.beam), recorder)[0]
    target = _target_ids(translator, translation, hypotheses)
    # In fp32, whatever the search computes in, so that a row of attention adds up to 1 and scores can be compared.
    exact = Engine(engine.model, engine.device, autocast=False)
    ended = [[*hypothesis.tokens, EOS] for hypothesis in hypotheses]
    scored = log_probs_in_batches(exact.score, [source] * len(ended), ended)
    subwords, search = translator.vocabulary.target, ("beam", "length_penalty", "min_length", "max_length")
    facts = {name: getattr(config, name) for name in search} | {"precision": "bf16" if engine.autocast else "fp32"}
    return replace(
        _forced_pass(translator, exact, source, target, config, layer),
        facts={"parameters": engine.model.num_parameters, **asdict(translator.config), "search": facts},
        source=sentence,
        candidates=_candidates(ended, scored, config, subwords),
        chosen=ended.index(target) if target in ended else -1,
        tree=beam_tree(recorder, hypotheses, subwords),
    )


def _forced_pass(
    translator: Translator, exact: Engine, source: list[int], target: list[int], config: SearchConfig, layer: int
) -> Inspection:
    """Everything that one pass over a given translation shows; the fields about the search are left empty.

    Args:
        translator: the translator.
        exact: its engine in fp32.
        source: ids, ending with EOS (S).
        target: ids, ending with EOS (T).
        config: its length penalty is taken.
        layer: the decoder layer, from 0, that the alignment is read from.
    """
    padded: AttentionMaps = {}
    forced = exact.logits([source], [target], padded).log_softmax(dim=-1, dtype=torch.float32)
    log_probs = forced[0, : len(target)].cpu()  # (T, V)
    log_prob = float(log_probs.gather(1, torch.tensor(target)[:, None]).double().sum())
    maps = {name: _without_padding(block[0], name, len(source), len(target)) for name, block in padded.items()}
    vocabulary, direction = translator.vocabulary, translator.folder.direction
    source_words, _ = split_into_words(source, vocabulary.source, unit_of(direction.source))
    target_words, _ = split_into_words(target, vocabulary.target, unit_of(direction.target))
    return Inspection(
        languages=(direction.source, direction.target),
        facts={},
        source="",
        target=vocabulary.target.decode([target[:-1]])[0],
        source_pieces=vocabulary.source.pieces(source),
        inputs=vocabulary.target.pieces([BOS, *target[:-1]]),
        outputs=vocabulary.target.pieces(target),
        predictions=predictions(log_probs, target, vocabulary.target),
        log_prob=log_prob,
        score=log_prob / LengthPenalty(config.length_penalty)(len(target)),
        candidates=[],
        chosen=-1,
        tree=[],
        maps={name: block.numpy() for name, block in maps.items()},
        source_words=source_words,
        target_words=target_words,
        alignment=align(maps[f"decoder.{layer}.cross_attention"], source_words, target_words),
        alignment_layer=layer,
    )


def _source_ids(translator: Translator, sentence: str) -> list[int]:
    """The ids of a sentence that is to be inspected, with EOS."""
    (source,) = translator.source.encode([sentence], ["the sentence"], "inspect its parts one by one")
    if len(source) == 1:
        raise DragomanError("the sentence is empty: there is nothing to inspect")
    return source


def _target_ids(translator: Translator, translation: str | None, hypotheses: Sequence[Hypothesis]) -> list[int]:
    """The ids of the translation that is to be looked at, with EOS.

    A text can be cut into subwords in several ways: where the search found it, those that the search found.
    """
    subwords = translator.vocabulary.target
    texts = subwords.decode([hypothesis.tokens for hypothesis in hypotheses])
    if translation is None or translation in texts:
        return [*hypotheses[0 if translation is None else texts.index(translation)].tokens, EOS]
    return translator.target.encode([translation], ["the translation"], "shorten it")[0]


class BeamRecorder:
    """A search rule that forbids nothing and remembers every hypothesis of one sentence that the search continues."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.log_probs: dict[tuple[int, ...], float] = {}
        """Of every hypothesis seen, by its tokens; parents before children."""
        self._before: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """Look at the hypotheses (N, T) and what may follow them (N, V); returns the logits as they are."""
        open_now = [tuple(row) for row in tokens.tolist()]
        for hypothesis in open_now:
            if hypothesis:
                last_step = float(self._before[hypothesis[:-1]][hypothesis[-1]])
                self.log_probs[hypothesis] = self.log_probs.get(hypothesis[:-1], 0.0) + last_step
        self._before = dict(zip(open_now, logits.float().log_softmax(dim=1), strict=True))
        return logits


def beam_tree(recorder: BeamRecorder, finished: Sequence[Hypothesis], subwords: SubwordModel) -> list[BeamNode]:
    """Tree of the hypotheses that were open at some step, and of the finished ones.

    Args:
        recorder: the rule that watched the search.
        finished: the hypotheses that the search returned; their places are the candidates' numbers.
        subwords: the target's.

    Returns:
        Nodes, parents before children; nodes that share a parent are in the order in which they were found.
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


def predictions(
    log_probs: Tensor, target: Sequence[int], subwords: SubwordModel, count: int = _LIKELIEST
) -> list[Prediction]:
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


def _candidates(
    ended: Sequence[list[int]], log_probs: Sequence[float], config: SearchConfig, subwords: SubwordModel
) -> list[Candidate]:
    """Hypotheses, with EOS, and their log-probabilities as records."""
    penalty = LengthPenalty(config.length_penalty)
    texts = subwords.decode([ids[:-1] for ids in ended])
    return [
        Candidate(text, subwords.pieces(ids), log_prob, log_prob / penalty(len(ids)))
        for text, ids, log_prob in zip(texts, ended, log_probs, strict=True)
    ]


def _without_padding(weights: Tensor, block: str, source_length: int, target_length: int) -> Tensor:
    """The real rows and columns of one sentence's attention (H, T, S)."""
    queries = source_length if block.startswith("encoder.") else target_length
    keys = target_length if block.startswith("decoder.") and block.endswith(".self_attention") else source_length
    return weights[:, :queries, :keys].float().cpu()
