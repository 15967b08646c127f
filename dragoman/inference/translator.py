"""Raw lines in, raw lines out: what a model folder is for.

Shapes: B sentences, W beam width, N = B * W hypotheses, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, PAD, ConfigError, DragomanError, SearchConfig
from dragoman.inference.alignment import Alignment, Unit, align, alignment_layer, split_into_words
from dragoman.inference.rules import NEVER_WRITTEN, LengthPenalty, MinLength, Rule
from dragoman.inference.search import Hypothesis, SearchState, search
from dragoman.inspection.evidence import BeamRecorder, Evidence, examine
from dragoman.inspection.record import Inspection
from dragoman.model.attention import AttentionMaps
from dragoman.model.layers import DecoderCache
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.text.batches import pad_right, plan_in_order

_ALIGNED_TOKENS = 2048  # budget of one batch whose attention weights are all kept


@dataclass(frozen=True)
class Translation:
    """A translated line. An empty line translates to an empty line with log-probability 0."""

    text: str
    log_prob: float = 0.0
    """Natural logarithm of the probability of its subwords and the end."""
    score: float = 0.0
    """log_prob divided by the length penalty; what the search maximises."""
    subwords: list[int] = field(default_factory=list)
    """Target ids, without BOS and EOS."""
    alternatives: list[Translation] = field(default_factory=list)
    """The next best translations, best first, where n_best asks for them."""


@dataclass(frozen=True)
class PairScore:
    """What the model thinks of a given translation."""

    log_prob: float
    """Natural logarithm of P(target | source), the end of the sentence included."""
    num_tokens: int
    """Target subwords, the end included."""

    def score(self, length_penalty: float) -> float:
        """log_prob divided by the length penalty, as the search does."""
        return self.log_prob / LengthPenalty(length_penalty)(self.num_tokens)


class TransformerState:
    """What the model remembers during the search: memory, mask and cache."""

    def __init__(self, memory: Tensor, source_mask: Tensor, cache: DecoderCache) -> None:
        """memory (B, S, D), source_mask (B, 1, 1, S)."""
        self.memory = memory
        self.source_mask = source_mask
        self.cache = cache

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """Keep these hypotheses (N',) and sentences (B',), in this order."""
        self.cache.select_hypotheses(hypotheses)
        if sentences is not None:
            self.cache.select_sentences(sentences)
            self.memory = self.memory.index_select(0, sentences)
            self.source_mask = self.source_mask.index_select(0, sentences)


class Translator:
    """A model folder at work.

    Examples:
        >>> Translator.load("models/en-de").translate(["Hello world"])[0].text  # doctest: +SKIP
    """

    def __init__(self, folder: ModelFolder, device: torch.device | str = "cpu", autocast: bool = False) -> None:
        """Put a loaded model to work.

        Args:
            folder: model and vocabulary.
            device: where to compute.
            autocast: compute matrix products in bf16.
        """
        self.device = torch.device(device)
        self.autocast = autocast
        self.folder = folder
        self.model: Transformer = folder.model.to(self.device)
        self.vocabulary = folder.vocabulary

    @staticmethod
    def load(folder: Path | str, device: torch.device | str = "cpu") -> Translator:
        """Load a model folder.

        Raises:
            DragomanError: it is no model folder, or damaged.
        """
        return Translator(ModelFolder.load(folder), device)

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig | None = None,
        progress: Callable[[int], None] | None = None,
        first_line: int = 1,
    ) -> list[Translation]:
        """Translate raw lines; the result has one translation for each line, in order.

        Args:
            lines: any number of lines of raw text.
            config: beam, length penalty, n-best, …
            progress: called with the number of lines that each batch had.
            first_line: number of the first line; messages count from it.

        Raises:
            DragomanError: a line is longer than the model can take.
        """
        config = config or SearchConfig()
        encoded = self._encode_source(lines, first_line)
        translations = [Translation("") for _ in lines]
        todo = [i for i, ids in enumerate(encoded) if len(ids) > 1]
        lengths = np.array([len(encoded[i]) for i in todo], dtype=np.int64)
        for batch in plan_in_order(lengths, max(1, config.batch_tokens // config.beam)):
            indices = [todo[i] for i in batch]
            for i, hypotheses in zip(indices, self._search([encoded[i] for i in indices], config), strict=True):
                translations[i] = self._to_translation(hypotheses)
            if progress is not None:
                progress(len(indices))
        return translations

    def score(self, pairs: Sequence[tuple[str, str]], batch_tokens: int = 4096, first_line: int = 1) -> list[PairScore]:
        """The log-probability of each pair's target given its source, in order.

        Args:
            pairs: raw text.
            batch_tokens: budget of one batch: pairs × longest side.
            first_line: number of the first pair; messages count from it.

        Raises:
            DragomanError: a side is longer than the model can take.
        """
        sources = self._encode_source([source for source, _ in pairs], first_line)
        targets = [[*ids, EOS] for ids in self.vocabulary.target.encode([target for _, target in pairs])]
        self._check_lengths(targets, "target", first_line)
        lengths = np.array([max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)], dtype=np.int64)
        scores = [PairScore(0.0, 0)] * len(pairs)
        for batch in plan_in_order(lengths, batch_tokens):
            indices = batch.tolist()
            log_probs = self._score([sources[i] for i in indices], [targets[i] for i in indices])
            for i, log_prob in zip(indices, log_probs, strict=True):
                scores[i] = PairScore(log_prob, len(targets[i]))
        return scores

    def align(
        self,
        sources: Sequence[str],
        translations: Sequence[Translation],
        layer: int = 0,
        unit: Unit = "words",
        first_line: int = 1,
    ) -> list[Alignment]:
        """Which source word each word of a translation comes from, read off the cross-attention; in order.

        Args:
            sources: raw lines.
            translations: their translations.
            layer: the decoder layer to look at, from 1; 0 for the one that `alignment_layer` recommends.
            unit: words, which are what spaces separate, or subwords.
            first_line: number of the first line; messages count from it.

        Raises:
            ConfigError: the decoder has no such layer.
            DragomanError: a line is longer than the model can take.
        """
        name = f"decoder.{self._aligning_layer(layer)}.cross_attention"
        encoded = self._encode_source(sources, first_line)
        targets = [[*translation.subwords, EOS] for translation in translations]
        lengths = np.array([max(len(s), len(t)) for s, t in zip(encoded, targets, strict=True)], dtype=np.int64)
        alignments = [Alignment([], [], []) for _ in encoded]
        for batch in plan_in_order(lengths, _ALIGNED_TOKENS):
            indices = batch.tolist()
            _, maps = self._force([encoded[i] for i in indices], [targets[i] for i in indices])
            for i, weights in zip(indices, maps[name].cpu(), strict=True):
                source_words, sources_shown = split_into_words(encoded[i], self.vocabulary.source, unit)
                target_words, targets_shown = split_into_words(targets[i], self.vocabulary.target, unit)
                alignments[i] = Alignment(align(weights, source_words, target_words), sources_shown, targets_shown)
        return alignments

    def inspect(
        self, sentence: str, config: SearchConfig | None = None, translation: str | None = None, layer: int = 0
    ) -> Inspection:
        """Translate one sentence and keep all that happened: attention, probabilities, the beam, the alignment.

        Args:
            sentence: a line of raw text.
            config: beam, length penalty, …; every hypothesis that the search finishes is kept, whatever n_best says.
            translation: look at this translation instead of the model's best one.
            layer: the decoder layer that the alignment is read from, from 1; 0 for the recommended one.

        Raises:
            ConfigError: the decoder has no such layer.
            DragomanError: the sentence is empty, or it or the translation is longer than the model can take.
        """
        config = config or SearchConfig()
        source = self._encode_source([sentence], 1)[0]
        if len(source) == 1:
            raise DragomanError("the sentence is empty: there is nothing to inspect")
        recorder = BeamRecorder()
        hypotheses = self._search([source], replace(config, n_best=config.beam), recorder)[0]
        target = [*(hypotheses[0].tokens if translation is None else self._spelt(translation, hypotheses)), EOS]
        if len(target) > self.model.config.max_length:
            raise DragomanError(
                f"the translation has {len(target):,} subwords, but the model takes at most "
                f"{self.model.config.max_length:,}: shorten it"
            )
        forced, maps = self._force([source], [target])
        evidence = Evidence(
            source=source,
            target=target,
            log_probs=forced[0, : len(target)].cpu(),
            maps={name: _without_padding(block[0], name, len(source), len(target)) for name, block in maps.items()},
            hypotheses=hypotheses,
            recorder=recorder,
        )
        return examine(evidence, self.folder, config, sentence, self._aligning_layer(layer))

    def _spelt(self, translation: str, hypotheses: list[Hypothesis]) -> list[int]:
        """A translation's subwords; as the search found them where it did, for a text can be cut in several ways."""
        texts = self.vocabulary.target.decode([hypothesis.tokens for hypothesis in hypotheses])
        if translation in texts:
            return hypotheses[texts.index(translation)].tokens
        return self.vocabulary.target.encode([translation])[0]

    def _aligning_layer(self, layer: int) -> int:
        layers = self.model.config.num_decoder_layers
        if not 0 <= layer <= layers:
            raise ConfigError(f"alignment_layer is {layer}, but the model has {layers} decoder layers")
        return layer - 1 if layer else alignment_layer(layers)

    def _encode_source(self, lines: Sequence[str], first_line: int) -> list[list[int]]:
        encoded = [[*ids, EOS] for ids in self.vocabulary.source.encode(lines)]
        self._check_lengths(encoded, "source", first_line)
        return encoded

    def _check_lengths(self, encoded: list[list[int]], side: str, first_line: int) -> None:
        limit = self.model.config.max_length
        for number, ids in enumerate(encoded, start=first_line):
            if len(ids) > limit:
                raise DragomanError(
                    f"{side} line {number:,} has {len(ids):,} subwords, but the model takes at most {limit:,}: "
                    f"split it into sentences"
                )

    def _to_translation(self, hypotheses: list[Hypothesis]) -> Translation:
        texts = self.vocabulary.target.decode([h.tokens for h in hypotheses])
        best, *others = (
            Translation(text, h.log_prob, h.score, h.tokens) for text, h in zip(texts, hypotheses, strict=True)
        )
        return Translation(best.text, best.log_prob, best.score, best.subwords, others)

    @torch.inference_mode()
    def _search(self, sources: list[list[int]], config: SearchConfig, *more_rules: Rule) -> list[list[Hypothesis]]:
        with self._evaluating():
            source = torch.from_numpy(pad_right(sources)).to(self.device)
            source_mask = padding_mask(source, PAD)
            memory = self.model.encode(source, source_mask)
            state = TransformerState(memory, source_mask, self.model.start_cache(memory))
            longest = self.model.config.max_length - 1
            _require_room(config, longest)
            max_lengths = [min(max(len(ids) + config.max_length, config.min_length), longest) for ids in sources]
            rules: list[Rule] = [NEVER_WRITTEN, MinLength(config.min_length), *more_rules]
            return search(self._step, state, max_lengths, config, rules, self.device)

    def _step(self, last: Tensor, state: SearchState) -> Tensor:
        assert isinstance(state, TransformerState)
        logits = self.model.decode(last[:, None], state.memory, state.source_mask, state.cache)
        return logits[:, -1].log_softmax(dim=-1, dtype=torch.float32)  # (N, V)

    def _score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        log_probs, _ = self._force(sources, targets, need_maps=False)
        target_output = torch.from_numpy(pad_right(targets)).to(self.device)
        chosen = log_probs.gather(2, target_output[:, :, None]).squeeze(2)  # (B, T)
        return chosen.masked_fill(target_output == PAD, 0.0).double().sum(dim=1).tolist()

    @torch.inference_mode()
    def _force(
        self, sources: list[list[int]], targets: list[list[int]], need_maps: bool = True
    ) -> tuple[Tensor, AttentionMaps]:
        """Log-probabilities (B, T, V) of every next token along the targets, and the attention weights."""
        with self._evaluating():
            source = torch.from_numpy(pad_right(sources)).to(self.device)
            target_input = torch.from_numpy(pad_right([[BOS, *ids[:-1]] for ids in targets])).to(self.device)
            maps: AttentionMaps = {}
            logits = self.model(source, target_input, maps if need_maps else None)
            return logits.log_softmax(dim=-1, dtype=torch.float32), maps

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Dropout off, and bf16 where asked for; a model in training goes back to it."""
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
                yield
        finally:
            self.model.train(was_training)


def _require_room(config: SearchConfig, longest: int) -> None:
    if config.min_length > longest:
        raise ConfigError(f"min_length is {config.min_length}, but the model writes at most {longest} subwords")


def _without_padding(weights: Tensor, block: str, source_length: int, target_length: int) -> Tensor:
    """The real rows and columns of one sentence's attention (H, T, S)."""
    queries = source_length if block.startswith("encoder.") else target_length
    keys = target_length if block.startswith("decoder.") and block.endswith(".self_attention") else source_length
    return weights[:, :queries, :keys].float().cpu()
