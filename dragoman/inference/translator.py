"""Raw lines in, translations out: a model folder at work.

Segmentation makes segments of ids from lines, batching runs an engine's search over them, in several processes if asked
to, and results join the translations of segments to those of lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice, starmap
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from dragoman.checkpoint import LONGEST_FACT, LONGEST_UNKNOWN, Direction, ModelFolder
from dragoman.config import EOS, ConfigError, DragomanError, SearchConfig, require
from dragoman.inference.alignment import Alignment, Unit, align_sentences, alignment_layer, join_alignments, unit_of
from dragoman.inference.batching import Workers, in_batches, log_probs_in_batches
from dragoman.inference.ctranslate2 import CTranslate2Engine, EngineName, choose_engine, load_exported
from dragoman.inference.engine import Engine
from dragoman.inference.results import PairScore, Part, Translation, join_translations
from dragoman.inference.rules import Once, Rule, length_limits
from dragoman.inference.search import Hypothesis
from dragoman.inference.segmentation import LineEncoder, Segment
from dragoman.model.transformer import Transformer
from dragoman.runtime.device import choose_device, use_bf16
from dragoman.text.languages import has_spaces
from dragoman.text.placeholders import SYMBOLS, mask_target, restore
from dragoman.text.subwords import Vocabulary

_ALIGNED_TOKENS = 2048  # budget of one batch whose attention weights are all kept


class Translator:
    """A model folder at work: `Translator.load("models/en-de").translate(["Hello world"])[0].text`."""

    def __init__(
        self, folder: ModelFolder, device: torch.device | str = "cpu", autocast: bool = False, workers: int = 1
    ) -> None:
        """Put a loaded model to work; autocast computes matrix products in bf16.

        workers is the number of processes that translate at the same time, at most one for each core, with one thread
        each; 1 translates in this process, with all of PyTorch's threads. For CPUs, where products are small, and only
        on Linux. They start with the first text of more than one batch, and end with the translator.
        """
        engine = Engine(folder.model.to(device), torch.device(device), autocast)
        self._set_up(engine, folder.vocabulary, folder.direction, Workers(engine.search, workers, engine.decoder))

    def _set_up(
        self,
        engine: Engine | CTranslate2Engine,
        vocabulary: Vocabulary,
        direction: Direction,
        searchers: Workers[list[Hypothesis]],
    ) -> None:
        self.engine, self.vocabulary, self.direction, self._searchers = engine, vocabulary, direction, searchers
        self.config, self.workers = engine.config, searchers.count
        self.source = LineEncoder(vocabulary.source, engine.config.max_length, direction.source, masks=True)
        self.target = LineEncoder(vocabulary.target, engine.config.max_length, direction.target)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        device: torch.device | str = "auto",
        engine: EngineName = "auto",
        autocast: bool | None = None,
        workers: int = 0,
    ) -> Translator:
        """Load a model folder, or one that was exported for CTranslate2; the defaults are those of `translate`.

        Args:
            folder: the folder.
            device: where to compute; auto takes a GPU if there is one.
            engine: torch or ctranslate2; auto picks it from the folder type.
            autocast: compute matrix products in bf16; None: where it is faster. An exported model computes as it was
                stored. With bf16, one or two lines in a hundred depend on what is translated beside them.
            workers: processes, or threads of an exported model, as above; 0: as many as PyTorch has threads.
        """
        require(engine in get_args(EngineName), f"engine must be auto, torch or ctranslate2, not {engine!r}")
        device = choose_device(str(device))
        if choose_engine(Path(folder), engine) == "ctranslate2":
            exported, vocabulary, direction = load_exported(Path(folder), device, workers)
            translator = cls.__new__(cls)
            translator._set_up(exported, vocabulary, direction, Workers(exported.search))
            return translator
        workers = workers or torch.get_num_threads()
        autocast = use_bf16("auto", device) if autocast is None else autocast
        return cls(ModelFolder.load(folder), device, autocast, workers if device.type == "cpu" else 1)

    @property
    def torch_engine(self) -> Engine:
        """The engine, which shows attention weights and takes further rules; an exported model's is a DragomanError."""
        if not isinstance(self.engine, Engine):
            raise DragomanError("an exported model shows no attention: take the model folder that was exported")
        return self.engine

    @property
    def model(self) -> Transformer:
        """The model; errors as for torch_engine."""
        return self.torch_engine.model

    @property
    def folder(self) -> ModelFolder:
        """The model folder, with the model in its present state; errors as for torch_engine."""
        return ModelFolder(self.model, self.vocabulary, self.direction)

    @property
    def longest_source(self) -> int:
        """Most subwords, the end included, of a line that is translated well: what the model takes, and has seen.

        Positions beyond the longest training sentence are new to a model, and its translations fall apart there.
        """
        seen = self.direction.facts.get(LONGEST_FACT)
        return min(self.config.max_length, seen if isinstance(seen, int) and seen > 1 else LONGEST_UNKNOWN)

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig | None = None,
        progress: Callable[[int], None] = lambda lines: None,
        first_line: int = 1,
    ) -> list[Translation]:
        """Translate raw lines; the result has one translation for each line, in order.

        The sentences of a line are translated one by one, and their translations joined with the spaces that stood
        between the sentences; config.sentences "keep" takes each line as one sentence. Sentences of more than
        longest_source subwords are cut into parts. Placeholders such as {name} are kept; `lost` names those that
        were not.

        progress is called with the number of lines finished since the last call; messages count from first_line.

        Raises:
            DragomanError: a character of a line has more subwords than the model takes, or memory runs out.
        """
        if isinstance(lines, str):  # its letters would be taken for lines
            raise TypeError("translate takes a list of lines, not a str")
        config = config or SearchConfig()
        segments = list(self.source.segments(lines, self.longest_source, first_line, config.sentences == "split"))
        waiting = Counter(segment.line for segment in segments)

        def count(batch: list[int]) -> None:
            waiting.subtract(segments[i].line for i in batch)
            if finished := sum(not waiting[line] for line in {segments[i].line for i in batch}):
                progress(finished)

        found = in_batches(
            self._searchers,
            lambda batch: self._arguments([segments[i].ids for i in batch], config),
            [len(segment.ids) for segment in segments],
            self.engine.batch_tokens(config),
            count,
        )
        texts = iter(self.vocabulary.target.decode([one.tokens for hypotheses in found for one in hypotheses]))
        of_lines: list[list[tuple[Segment, list[Translation]]]] = [[] for _ in lines]
        for segment, hypotheses in zip(segments, found, strict=True):
            _, placeholders = self.source.mask(segment.source or lines[segment.line])
            restored = [(one, *restore(next(texts), placeholders)) for one in hypotheses]
            candidates = [Translation(t, one.log_prob, one.score, one.tokens, lost=lost) for one, t, lost in restored]
            of_lines[segment.line].append((segment, candidates))
        spaced = has_spaces(self.direction.target)
        return [join_translations(of_line, spaced, config.n_best) for of_line in of_lines]

    def _arguments(self, sources: list[list[int]], config: SearchConfig) -> tuple[Any, ...]:
        return sources, config, *self.rules(sources, config)

    def rules(self, sources: list[list[int]], config: SearchConfig) -> tuple[Rule, ...]:
        """The rule that keeps placeholders, if these sources (ids) have any; an exported model takes no rules."""
        if not (self.vocabulary.has_symbols and isinstance(self.engine, Engine)):
            return ()
        marks, symbols = (side.ids(SYMBOLS) for side in (self.vocabulary.source, self.vocabulary.target))
        needed = [len({*marks}.intersection(ids)) for ids in sources]
        limits = length_limits(sources, config, self.config.max_length)
        return (Once(symbols, needed, limits),) if any(needed) else ()

    def masked_target(self, source: str, target: str) -> str:
        """A given translation with symbols in place of the placeholders of its source, as the model writes them."""
        return mask_target(target, self.source.mask(source)[1])

    def score(self, pairs: Sequence[tuple[str, str]], first_line: int = 1) -> list[PairScore]:
        """The log-probability of each raw pair's target given its source, in order; messages count from first_line."""
        numbers = range(first_line, first_line + len(pairs))
        sources = self.source.encode([source for source, _ in pairs], [f"source line {n:,}" for n in numbers])
        targets = self.target.encode(list(starmap(self.masked_target, pairs)), [f"target line {n:,}" for n in numbers])
        log_probs = log_probs_in_batches(self.engine.score, sources, targets)
        return [PairScore(log_prob, len(target)) for log_prob, target in zip(log_probs, targets, strict=True)]

    def align(
        self,
        sources: Sequence[str],
        translations: Sequence[Translation | str],
        layer: int = 0,
        unit: Literal["auto"] | Unit = "auto",
    ) -> list[Alignment]:
        """Which source word each word of a translation comes from, read from the cross-attention; in order.

        A line that was translated in parts is aligned part by part; the links are those of the whole line.

        Args:
            sources: raw lines.
            translations: their translations, found or given.
            layer: the decoder layer to read, from 1; 0 for the one that `alignment_layer` recommends.
            unit: words, which spaces separate, or subwords; auto is for each side what `unit_of` says.
        """
        layer = self.aligning_layer(layer)
        units = (unit_of(self.direction.source), unit_of(self.direction.target)) if unit == "auto" else (unit, unit)
        found = [Translation(one) if isinstance(one, str) else one for one in translations]
        given = self.target.encode(
            [
                "" if one.subwords or one.parts else self.masked_target(source, one.text)
                for source, one in zip(sources, found, strict=True)
            ],
            [f"target line {n:,}" for n in range(1, len(found) + 1)],
        )
        parts_of = [
            one.parts or [Part(source, one.subwords or ids[:-1])]
            for source, one, ids in zip(sources, found, given, strict=True)
        ]
        names = [f"source line {n:,}" for n, parts in enumerate(parts_of, start=1) for _ in parts]
        alignments = iter(self._align([part for parts in parts_of for part in parts], names, layer, units))
        split_tag = self.vocabulary.source.split_tag
        return [
            join_alignments(parts, list(islice(alignments, len(parts))), units[0], bool(split_tag(source)[0]))
            for source, parts in zip(sources, parts_of, strict=True)
        ]

    def _align(self, parts: list[Part], names: list[str], layer: int, units: tuple[Unit, Unit]) -> list[Alignment]:
        """The alignment of each part by itself; names are what messages call the parts."""
        engine, sources = self.torch_engine, self.source.encode([part.source for part in parts], names)
        targets = [[*part.subwords, EOS] for part in parts]

        def compute(batch: list[int]) -> list[Alignment]:
            maps = engine.attention([sources[i] for i in batch], [targets[i] for i in batch])
            return [
                align_sentences(weights, sources[i], targets[i], self.vocabulary, units).with_placeholders(
                    self.source.mask(parts[i].source)[1]
                )
                for weights, i in zip(maps[f"decoder.{layer}.cross_attention"].cpu(), batch, strict=True)
            ]

        lengths = [max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
        return in_batches(Workers(compute), lambda batch: (batch,), lengths, _ALIGNED_TOKENS)

    def aligning_layer(self, layer: int) -> int:
        """The decoder layer, from 0, that alignments are read from; layer counts from 1, and 0 is for the default."""
        layers = self.model.config.num_decoder_layers
        if not 0 <= layer <= layers:
            raise ConfigError(f"alignment_layer is {layer}, but the model has {layers} decoder layers")
        return layer - 1 if layer else alignment_layer(layers)
