"""Raw lines in, raw lines out: what a model folder is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import torch

from dragoman.checkpoint import LONGEST_FACT, LONGEST_UNKNOWN, Direction, ModelFolder
from dragoman.config import EOS, ConfigError, DragomanError, SearchConfig, require
from dragoman.inference.alignment import (
    Alignment,
    Unit,
    Units,
    align_sentences,
    alignment_layer,
    unit_of,
    without_first_source,
)
from dragoman.inference.batching import FORCE_CURE, FORCED_TOKENS, in_batches, log_probs_in_batches
from dragoman.inference.ctranslate2 import EngineName, choose_engine, load_exported
from dragoman.inference.encoding import LineEncoder, refuse_str
from dragoman.inference.engine import Engine, SearchEngine
from dragoman.inference.results import (
    PairScore,
    Part,
    Translation,
    join_alignments,
    join_translations,
    with_subwords,
)
from dragoman.inference.search import Hypothesis
from dragoman.inference.segmentation import longest_prefix, split_line, squeeze
from dragoman.inference.workers import Workers
from dragoman.model.transformer import Transformer
from dragoman.runtime.device import choose_device
from dragoman.text.languages import has_spaces
from dragoman.text.subwords import Vocabulary

_ALIGNED_TOKENS = 2048  # budget of one batch whose attention weights are all kept
_AT_ONCE = 20_000  # lines, or parts of long ones, that are in memory as ids
_SEARCH_CURE = "take a smaller --beam (a smaller --batch-tokens has been tried)"


@dataclass(frozen=True)
class _Stretch:
    """A line to translate, or a part of one."""

    line: int
    ids: list[int]
    source: str = ""
    """The text of a part; empty for a whole line."""
    left_out: int = 0


class Translator:
    """A model folder at work.

    Examples:
        >>> Translator.load("models/en-de").translate(["Hello world"])[0].text  # doctest: +SKIP
    """

    def __init__(
        self, folder: ModelFolder, device: torch.device | str = "cpu", autocast: bool = False, workers: int = 1
    ) -> None:
        """Put a loaded model to work.

        Args:
            folder: model and vocabulary.
            device: where to compute.
            autocast: compute matrix products in bf16.
            workers: processes that translate at the same time, with one thread each; 1 translates in this process,
                with all of PyTorch's threads. For CPUs, where products are small; only Linux can start them. They
                start with the first text that makes more than one batch, and end with the translator.
        """
        engine = Engine(folder.model.to(device), torch.device(device), autocast)
        self._begin(engine, folder.vocabulary, folder.direction, workers)

    def _begin(self, engine: SearchEngine, vocabulary: Vocabulary, direction: Direction, workers: int) -> None:
        self.engine, self.vocabulary, self.direction = engine, vocabulary, direction
        self.config, self.workers = engine.config, workers
        self.source = LineEncoder(vocabulary.source, "source", engine.config.max_length)
        self.target = LineEncoder(vocabulary.target, "target", engine.config.max_length)
        self._pool = Workers(engine.search, engine.decoder, workers)

    @classmethod
    def using(cls, engine: SearchEngine, vocabulary: Vocabulary, direction: Direction) -> Translator:
        """A translator over another implementation of a model: everything except align works."""
        translator = cls.__new__(cls)
        translator._begin(engine, vocabulary, direction, workers=1)
        return translator

    @staticmethod
    def load(
        folder: Path | str,
        device: torch.device | str = "cpu",
        engine: EngineName = "auto",
        autocast: bool = False,
        workers: int = 1,
    ) -> Translator:
        """Load a model folder, or one that was exported for CTranslate2.

        Args:
            folder: the folder.
            device: where to compute; auto takes a GPU where there is one.
            engine: torch or ctranslate2; auto takes the one that the folder is for.
            autocast: compute matrix products in bf16; an exported model computes as it was stored.
            workers: processes, or threads of an exported model, that translate at the same time on a CPU.

        Raises:
            DragomanError: it is no model folder, or damaged, or the engine can't read it or is not installed; or there
                is no such device.
        """
        require(
            engine in get_args(EngineName), f"engine must be one of {', '.join(get_args(EngineName))}, not {engine!r}"
        )
        place = choose_device(str(device))
        if choose_engine(Path(folder), engine) == "torch":
            return Translator(ModelFolder.load(folder), place, autocast, workers if place.type == "cpu" else 1)
        return Translator.using(*load_exported(Path(folder), place, workers))

    @property
    def torch_engine(self) -> Engine:
        """The engine as one that shows attention weights and takes further rules.

        Raises:
            DragomanError: the model is an exported one, which shows nothing of its inside.
        """
        if not isinstance(self.engine, Engine):
            raise DragomanError("an exported model shows no attention: take the model folder that was exported")
        return self.engine

    @property
    def folder(self) -> ModelFolder:
        """The model folder, with the model in its present state; raises what torch_engine raises."""
        return ModelFolder(self.torch_engine.model, self.vocabulary, self.direction)

    @property
    def model(self) -> Transformer:
        """The model; raises what torch_engine raises."""
        return self.torch_engine.model

    @property
    def longest_source(self) -> int:
        """Most subwords, the end included, that the model can translate well: what it takes, and what it has seen.

        Positions beyond the longest training sentence are new to a model, and its translations fall apart there.
        """
        seen = self.direction.facts.get(LONGEST_FACT)
        return min(self.config.max_length, seen if isinstance(seen, int) and seen > 1 else LONGEST_UNKNOWN)

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig | None = None,
        progress: Callable[[int], None] | None = None,
        first_line: int = 1,
    ) -> list[Translation]:
        """Translate raw lines; the result has one translation for each line, in order.

        What happens to long lines is for config.long to say. "split", the default, translates the sentences of a line
        of more subwords than longest_source one by one and joins the translations. "truncate" leaves out the end of a
        line of more subwords than the model takes at all (max_length); left_out of the translation says how much. The
        lines between, longer than any in training, are translated as they are, since losing text is worse. "error"
        refuses lines of more than max_length.

        Args:
            lines: any number of lines of raw text.
            config: beam, length penalty, n-best, …
            progress: called with the number of lines, or parts of long ones, that each batch had.
            first_line: number of the first line; messages count from it.

        Raises:
            DragomanError: a line is longer than the model can take and config.long is "error", or the memory does not
                suffice for a line.
            TypeError: lines is one str.
        """
        refuse_str([lines])
        config = config or SearchConfig()
        found: list[list[tuple[_Stretch, Translation]]] = [[] for _ in lines]
        stretches = self._stretches(lines, config, first_line)
        while some := list(islice(stretches, _AT_ONCE)):
            for stretch, hypotheses in zip(some, self._search(some, config, progress), strict=True):
                found[stretch.line].append((stretch, self._to_translation(hypotheses)))
        return [self._join(of_line, config.n_best) for of_line in found]

    def score(
        self, pairs: Sequence[tuple[str, str]], batch_tokens: int = FORCED_TOKENS, first_line: int = 1
    ) -> list[PairScore]:
        """The log-probability of each pair's target given its source, in order.

        Args:
            pairs: raw text.
            batch_tokens: budget of one batch: pairs × longest side.
            first_line: number of the first pair; messages count from it.

        Raises:
            DragomanError: a side is longer than the model can take.
            TypeError: pairs is one str, or has one for a pair.
        """
        refuse_str([pairs, *pairs])
        numbers = range(first_line, first_line + len(pairs))
        sources = self.source.encode([source for source, _ in pairs], numbers)
        targets = self.target.encode([target for _, target in pairs], numbers)
        log_probs = log_probs_in_batches(self.engine.score, sources, targets, batch_tokens)
        return [PairScore(log_prob, len(target)) for log_prob, target in zip(log_probs, targets, strict=True)]

    def align(
        self,
        sources: Sequence[str],
        translations: Sequence[Translation | str],
        layer: int = 0,
        unit: Literal["auto"] | Unit = "auto",
        first_line: int = 1,
    ) -> list[Alignment]:
        """Which source word each word of a translation comes from, read off the cross-attention; in order.

        A line that was translated in parts is aligned part by part; the links are those of the whole line.

        Args:
            sources: raw lines.
            translations: their translations, found or given.
            layer: the decoder layer to look at, from 1; 0 for the one that `alignment_layer` recommends.
            unit: words, which are what spaces separate, or subwords; auto is for each side what `unit_of` says.
            first_line: number of the first line; messages count from it.

        Raises:
            ConfigError: the decoder has no such layer.
            DragomanError: a line is longer than the model can take.
            TypeError: sources or translations is one str.
        """
        name, engine = f"decoder.{self.aligning_layer(layer)}.cross_attention", self.torch_engine
        units = (unit_of(self.direction.source), unit_of(self.direction.target)) if unit == "auto" else (unit, unit)
        refuse_str([sources, translations])
        found = with_subwords(translations, self.vocabulary.target)
        parts_of = [t.parts or [Part(source, t.subwords)] for source, t in zip(sources, found, strict=True)]
        parts = [part for of_line in parts_of for part in of_line]
        numbers = [number for number, of_line in enumerate(parts_of, start=first_line) for _ in of_line]
        encoded = self.source.encode([part.source for part in parts], numbers)
        targets = [[*part.subwords, EOS] for part in parts]

        def compute(batch: list[int]) -> list[Alignment]:
            maps = engine.attention([encoded[i] for i in batch], [targets[i] for i in batch])
            return [
                align_sentences(weights, encoded[i], targets[i], self.vocabulary, units)
                for weights, i in zip(maps[name].cpu(), batch, strict=True)
            ]

        lengths = [max(len(s), len(t)) for s, t in zip(encoded, targets, strict=True)]
        alignments = iter(in_batches(compute, lambda batch: (batch,), lengths, _ALIGNED_TOKENS, FORCE_CURE))
        return [
            self._joined(translation.parts, list(islice(alignments, len(translation.parts))), units)
            if translation.parts
            else next(alignments)
            for translation in found
        ]

    def _joined(self, parts: Sequence[Part], alignments: list[Alignment], units: Units) -> Alignment:
        """The alignment of a line from those of its parts; a tag that all begin with counts once."""
        if self.vocabulary.source.split_tag(parts[0].source)[0]:
            alignments[1:] = map(without_first_source, alignments[1:])
        return join_alignments(parts, alignments, units, has_spaces(self.direction.target))

    def aligning_layer(self, layer: int) -> int:
        """The decoder layer, from 0, that alignments are read from; layer counts from 1, and 0 is the recommended one.

        Raises:
            ConfigError: the decoder has no such layer.
            DragomanError: the model is one that was exported.
        """
        layers = self.model.config.num_decoder_layers
        if not 0 <= layer <= layers:
            raise ConfigError(f"alignment_layer is {layer}, but the model has {layers} decoder layers")
        return layer - 1 if layer else alignment_layer(layers)

    def _stretches(self, lines: Sequence[str], config: SearchConfig, first_line: int) -> Iterator[_Stretch]:
        """What to translate: lines that are not empty, in parts where they are too long."""
        encoded = self.source.encode_where_short(lines)
        limit = self.longest_source if config.long == "split" else self.config.max_length
        long = [i for i, ids in enumerate(encoded) if ids is None or len(ids) > limit]
        if long and config.long == "error":
            raise self.source.too_long(
                f"source line {first_line + long[0]:,}", lines[long[0]], encoded[long[0]], "split it into sentences"
            )
        for i, (line, ids) in enumerate(zip(lines, encoded, strict=True)):
            if ids is None or len(ids) > limit:
                yield from self._parts(i, line, config, limit, first_line + i)
            elif len(ids) > 1:
                yield _Stretch(i, ids)

    def _parts(self, place: int, line: str, config: SearchConfig, limit: int, number: int) -> Iterator[_Stretch]:
        """What is translated of a long line: its parts, or its beginning; each with the line's tag."""
        tag, line = self.vocabulary.source.split_tag(line)
        limit -= bool(tag)
        sources: Iterable[str]
        if config.long == "truncate":
            line = squeeze(line)
            prefix = longest_prefix(line, limit, self._count)
            sources, left_out = [prefix], len(line) - len(prefix)
        else:
            sources, left_out = split_line(line, limit, self._count), 0
        for source in sources:
            (ids,) = self.source.encode([tag + source.strip()], [number])
            if len(ids) > 1 + bool(tag) or left_out:
                yield _Stretch(place, ids, tag + source, left_out)

    def _search(
        self, stretches: Sequence[_Stretch], config: SearchConfig, progress: Callable[[int], None] | None
    ) -> list[list[Hypothesis]]:
        return in_batches(
            self.engine.search,
            lambda batch: ([stretches[i].ids for i in batch], config),
            [len(stretch.ids) for stretch in stretches],
            self.engine.batch_tokens(config),
            _SEARCH_CURE,
            progress,
            self._pool,
        )

    def _to_translation(self, hypotheses: list[Hypothesis]) -> Translation:
        texts = self.vocabulary.target.decode([h.tokens for h in hypotheses])
        best, *others = (
            Translation(text, h.log_prob, h.score, h.tokens) for text, h in zip(texts, hypotheses, strict=True)
        )
        return replace(best, alternatives=others)

    def _join(self, found: Sequence[tuple[_Stretch, Translation]], n_best: int) -> Translation:
        """The translation of a line from those of its stretches."""
        if not found:
            return Translation("")
        stretches, translations = [stretch for stretch, _ in found], [translation for _, translation in found]
        if not stretches[0].source:
            return translations[0]
        separator = " " if has_spaces(self.direction.target) else ""
        joined = join_translations([stretch.source for stretch in stretches], translations, separator, n_best)
        left_out = stretches[-1].left_out
        return replace(
            joined, left_out=left_out, alternatives=[replace(t, left_out=left_out) for t in joined.alternatives]
        )

    def _count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) + 1 for ids in self.vocabulary.source.encode(texts)]
