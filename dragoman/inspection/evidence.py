"""Inspect a translation: what the model expected and what the search looked into, as records.

Shapes: N hypotheses, H heads, S source subwords, T target steps (both with `</s>`), V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from dragoman.config import BOS, EOS, DragomanError, SearchConfig
from dragoman.inference.alignment import Array, align, split_into_words, unit_of
from dragoman.inference.engine import Engine
from dragoman.inference.hypotheses import Hypothesis, length_penalty
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
    """
    config = config or SearchConfig()
    engine, layer = translator.torch_engine, translator.aligning_layer(layer)
    direction, subwords = translator.direction, translator.vocabulary.target
    (source,) = translator.source.encode([sentence], ["the sentence"])
    if len(source) == 1:
        raise DragomanError("the sentence is empty: there is nothing to inspect")
    recorder, rules = BeamRecorder(), translator.rules([source], config)
    hypotheses = engine.search([source], replace(config, n_best=config.beam), recorder, *rules)[0]
    ended = [[*hypothesis.tokens, EOS] for hypothesis in hypotheses]
    texts = _texts(translator, sentence, [hypothesis.tokens for hypothesis in hypotheses])
    # A text can be cut into subwords in several ways: if the search found it, it is looked at as the search found it.
    if translation is None or translation in texts:
        target = ended[0 if translation is None else texts.index(translation)]
    else:
        (target,) = translator.target.encode([translator.masked_target(sentence, translation)], ["the translation"])
    # In fp32, whatever the search computes in, so that a row of attention adds up to 1 and scores can be compared.
    exact = Engine(engine.model, engine.device, autocast=False)
    log_probs = exact.score([source] * len(ended), ended)
    search = {name: getattr(config, name) for name in ("beam", "length_penalty", "min_length", "max_length")}
    search["precision"] = "bf16" if engine.autocast else "fp32"
    return Inspection(
        languages=(direction.source, direction.target),
        facts={"parameters": engine.model.num_parameters, **asdict(translator.config), "search": search},
        source=sentence,
        candidates=[
            Candidate(text, subwords.pieces(ids), log_prob, log_prob / length_penalty(len(ids), config.length_penalty))
            for text, ids, log_prob in zip(texts, ended, log_probs, strict=True)
        ],
        chosen=ended.index(target) if target in ended else -1,
        tree=beam_tree(recorder, hypotheses, subwords),
        target=_texts(translator, sentence, [target[:-1]])[0],
        **_forced_pass(translator, exact, source, target, config.length_penalty, layer),
    )


def _texts(translator: Translator, sentence: str, translations: list[list[int]]) -> list[str]:
    """Translations of a sentence as text, with its placeholders."""
    restore = translator.source.restorer(sentence)
    return [restore(text)[0] for text in translator.vocabulary.target.decode(translations)]


def _forced_pass(
    translator: Translator, exact: Engine, source: list[int], target: list[int], alpha: float, layer: int
) -> dict[str, Any]:
    """The fields of an Inspection that one pass over source and target (ids with EOS) shows."""
    padded: AttentionMaps = {}
    forced = exact.logits([source], [target], padded).log_softmax(dim=-1, dtype=torch.float32)
    log_probs = forced[0, : len(target)].cpu()  # (T, V)
    log_prob = float(log_probs.gather(1, torch.tensor(target)[:, None]).double().sum())
    maps: dict[str, Array] = {}
    for block, weights in padded.items():
        queries = source if block.startswith("encoder.") else target
        keys = target if block.startswith("decoder.") and block.endswith(".self_attention") else source
        maps[block] = weights[0, :, : len(queries), : len(keys)].float().cpu().numpy()  # (H, T, S)
    vocabulary, direction = translator.vocabulary, translator.direction
    source_words, source_texts = split_into_words(source, vocabulary.source, unit_of(direction.source))
    target_words, target_texts = split_into_words(target, vocabulary.target, unit_of(direction.target))
    return {
        "source_pieces": vocabulary.source.pieces(source),
        "inputs": vocabulary.target.pieces([BOS, *target[:-1]]),
        "outputs": vocabulary.target.pieces(target),
        "predictions": predictions(log_probs, target, vocabulary.target),
        "log_prob": log_prob,
        "score": log_prob / length_penalty(len(target), alpha),
        "maps": maps,
        "source_words": source_words,
        "target_words": target_words,
        "words": (source_texts, target_texts),
        "alignment": align(maps[f"decoder.{layer}.cross_attention"], source_words, target_words),
        "alignment_layer": layer,
    }


class BeamRecorder:
    """A search rule that forbids nothing and remembers every hypothesis of one sentence that the search continues."""

    def __init__(self) -> None:
        self.log_probs: dict[tuple[int, ...], float] = {}
        """Of every hypothesis seen, by its tokens; parents before children."""
        self._before: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, logits: Tensor, tokens: Tensor, sentences: Sequence[int]) -> Tensor:
        """Look at the hypotheses (N, T) and what may follow them (N, V); returns the logits as they are."""
        open_now = [tuple(row) for row in tokens.tolist()]
        for hypothesis in open_now:
            if hypothesis:
                last_step = float(self._before[hypothesis[:-1]][hypothesis[-1]])
                self.log_probs[hypothesis] = self.log_probs.get(hypothesis[:-1], 0.0) + last_step
        self._before = dict(zip(open_now, logits.float().log_softmax(dim=1), strict=True))
        return logits


def beam_tree(recorder: BeamRecorder, finished: Sequence[Hypothesis], subwords: SubwordModel) -> list[BeamNode]:
    """Tree of the hypotheses that the recorder saw in a search, and of the finished ones, which are the candidates.

    Parents come before children, and the children of a node in the order in which they were found.
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


def predictions(log_probs: Tensor, target: Sequence[int], subwords: SubwordModel) -> list[Prediction]:
    """What the model expected at each step of a translation (T ids with EOS), of log-probabilities (T, V)."""
    result = []
    best, places = log_probs.exp().topk(_LIKELIEST, dim=1)
    for row, token, values, ids in zip(log_probs, target, best.tolist(), places.tolist(), strict=True):
        rank = int((row > row[token]).sum()) + 1
        likeliest = list(zip(subwords.pieces(ids), values, strict=True))
        result.append(Prediction(subwords.pieces([token])[0], float(row[token].exp()), rank, likeliest))
    return result
