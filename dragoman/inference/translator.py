"""Raw lines in, translations out: a model folder at work.

Segmentation makes segments of ids from lines, batching runs an engine's search over them, and results join the
translations of segments to those of lines. On a CPU the engine is CTranslate2, for which a model is converted once;
PyTorch is imported for what needs it: attention, placeholders that were lost, other devices.
"""

import copy
import importlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain, islice, starmap
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args
from zlib import crc32

import ctranslate2

from dragoman.config import EOS, UNK, ConfigError, DragomanError, Precision, SearchConfig, require
from dragoman.folder import CONVERTED, MODEL_FILE, Direction, model_key, read_description, read_exported
from dragoman.inference.alignment import Alignment, Unit, align_sentences, alignment_layer, join_alignments, unit_of
from dragoman.inference.batching import in_batches
from dragoman.inference.ctranslate2 import CTranslate2Engine
from dragoman.inference.glossary import Glossary
from dragoman.inference.hypotheses import Hypothesis, length_limits
from dragoman.inference.results import PairScore, Part, Translation, join_translations
from dragoman.inference.segmentation import LineEncoder, Segment
from dragoman.text.languages import sentence_gap, target_tag
from dragoman.text.placeholders import SYMBOLS, mask, mask_target
from dragoman.text.subwords import Vocabulary

if TYPE_CHECKING:
    from dragoman.checkpoint import ModelFolder
    from dragoman.inference.engine import Engine
    from dragoman.inference.rules import Rule

EngineName = Literal["auto", "torch", "ctranslate2"]
_MOST_TERMS = 9  # of a glossary in a sentence, put in one after the other
_LINES_AT_ONCE = 500  # for CTranslate2: enough for batches of similar length


def _late(module: str) -> Any:
    """A module that needs PyTorch, whose import takes longer than translating a sentence."""
    return importlib.import_module(f"dragoman.{module}")


class Translator:
    """A model folder at work: `Translator.load("models/en-de").translate(["Hello world"])[0].text`."""

    def __init__(
        self,
        folder: "ModelFolder",
        device: object = "cpu",
        autocast: bool = False,
        ensemble: "Sequence[ModelFolder]" = (),
    ) -> None:
        """Put a loaded model to work in PyTorch, on this device; autocast computes matrix products in bf16.

        The probabilities of the ensemble, which are further models with the same subwords, are averaged with its own.
        """
        for other in ensemble:
            is_alike = other.vocabulary.files() == folder.vocabulary.files()
            is_alike = is_alike and other.model.config.max_length == folder.model.config.max_length
            require(is_alike, "the models of an ensemble need the same subwords and max_length: train all on one text")
        engine = _late("inference.engine").Engine(folder.model, device, autocast, [one.model for one in ensemble])
        self._set_up(engine, folder.vocabulary, folder.direction)

    def _set_up(
        self,
        engine: "Engine | CTranslate2Engine",
        vocabulary: Vocabulary,
        direction: Direction,
        weights: Path | None = None,
    ) -> None:
        self.engine, self.vocabulary, self.direction, self.config = engine, vocabulary, direction, engine.config
        self._glossary: Glossary | None = None
        self._weights = weights  # folder of what torch_engine loads, if that is not the engine
        # At most one, in a list that the translators of other languages share, as they share the lock.
        self._loading = threading.Lock()
        self._torch_engines = [] if isinstance(engine, CTranslate2Engine) else [engine]
        self.source = LineEncoder(vocabulary.source, engine.config.max_length, direction.source, is_source=True)
        self.target = LineEncoder(vocabulary.target, engine.config.max_length, direction.target)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        device: object = "auto",
        engine: EngineName = "auto",
        precision: Precision = "auto",
        workers: int = 0,
        ensemble: Sequence[Path | str] = (),
    ) -> "Translator":
        """Load a model folder, or one that was exported for CTranslate2; the defaults are those of `translate`.

        Args:
            folder: the folder.
            device: where to compute, a name or a torch.device; auto takes a CUDA GPU if there is one.
            engine: torch or ctranslate2; auto takes CTranslate2 on a CPU, for which a model is copied once into a
                folder beside its weights.
            precision: fp32, bf16 (PyTorch only) or auto: what is fastest, which on a CPU is CTranslate2's int8. An
                exported model keeps its own. With int8 and bf16, one or two lines in a hundred depend on what is
                translated beside them.
            workers: batches that CTranslate2 computes at the same time, each on one core; 0: one for each core.
            ensemble: further model folders, whose probabilities are averaged with the first one's, in PyTorch.
        """
        require(engine in get_args(EngineName), f"engine must be auto, torch or ctranslate2, not {engine!r}")
        require(precision in get_args(Precision), f"precision must be auto, fp32 or bf16, not {precision!r}")
        folder, name = Path(folder), str(device)
        if name == "auto" and not ctranslate2.get_cuda_device_count():
            name = "cpu"
        if name != "cpu":
            name = str(_late("runtime.device").choose_device(name))
        is_exported = (folder / MODEL_FILE).is_file()
        if is_exported and engine == "torch":
            raise ConfigError(f"{folder}: a CTranslate2 folder, which PyTorch can't read; take the model folder")
        suits = name == "cpu" and precision != "bf16" and not ensemble
        require(not ensemble or not (is_exported or engine == "ctranslate2"), "CTranslate2 computes no ensembles")
        writable = os.access(folder, os.W_OK) or _has_copy(folder, "int8")
        if is_exported or engine == "ctranslate2" or (engine == "auto" and suits and writable):
            parts = _open_for_ctranslate2(folder, name, precision, workers)
            translator = cls.__new__(cls)
            translator._set_up(*parts)
            return translator
        bf16 = _late("runtime.device").use_bf16(precision, name)
        first, *others = (_late("checkpoint").ModelFolder.load(one) for one in (folder, *ensemble))
        return cls(first, name, bf16, others)

    def toward(self, source: str = "", target: str = "") -> "Translator":
        """The same translator for some of its model's languages; "" leaves all of them.

        Lines need no tag that names the target then.

        Raises:
            DragomanError: the model has no such language.
        """
        own = self.direction
        direction = replace(own, source=source or own.source, target=target or own.target)
        tag = self.vocabulary.source.split_tag(target_tag(direction.target))[0]
        for wanted, codes in ((source, own.source), ("" if tag else target, own.target)):
            if wanted and wanted not in codes.split(","):
                raise DragomanError(f"the model knows no language {wanted!r} there: choose one of {codes}")
        result = copy.copy(self)
        result.direction = direction
        result.source = replace(self.source, language=direction.source, tag=tag)
        result.target = replace(self.target, language=direction.target)
        return result

    def with_glossary(self, terms: Mapping[str, str]) -> "Translator":
        """The same translator, which translates these terms as they say; errors as for Glossary.

        Where a translation lacks a term, PyTorch searches again, from the word in the term's place. `lost` names terms
        that are missing all the same.
        """
        result = copy.copy(self)
        result._glossary = Glossary(terms, self.direction.source, self.direction.target)
        return result

    @property
    def torch_engine(self) -> "Engine":
        """The model in PyTorch, which shows attention weights and takes rules.

        Raises:
            DragomanError: the model was exported, and its weights are elsewhere.
        """
        with self._loading:
            if not self._torch_engines:
                if self._weights is None:
                    raise DragomanError("an exported model can't do this: take the model folder that was exported")
                loaded, device = _late("checkpoint").ModelFolder.load(self._weights), self.engine.device
                self._torch_engines.append(_late("inference.engine").Engine(loaded.model, device, autocast=False))
        return self._torch_engines[0]

    @property
    def concurrency(self) -> int:
        """Calls of translate that compute at the same time."""
        return self.engine.workers if isinstance(self.engine, CTranslate2Engine) else 1

    @property
    def longest_source(self) -> int:
        """Most subwords, the end included, of a line that is translated well: what the model takes, and has seen.

        Positions beyond the longest training sentence are new to a model, and its translations fall apart there.
        """
        return min(self.config.max_length, self.direction.longest)

    def translate(
        self,
        lines: Sequence[str],
        config: SearchConfig | None = None,
        progress: Callable[[int], None] = lambda lines: None,
        first_line: int = 1,
        beginnings: Sequence[str] = (),
    ) -> list[Translation]:
        """Translate raw lines; the result has one translation for each line, in order.

        The sentences of a line are translated one by one, and joined with the spaces that stood between them;
        config.sentences "keep" takes each line as one sentence. Sentences of more than longest_source subwords are cut
        into parts. Placeholders such as {name} are kept; `lost` names those that were not.

        progress gets the number of newly finished lines, perhaps in another thread; messages count from first_line.
        beginnings, one for each line, are texts that the translations must start with; "" forces nothing. With them,
        PyTorch searches and each line is translated as one sentence. With config.sampling, translations are drawn at
        random, in PyTorch; what is drawn for a line depends on the seed, the line, its number and nothing else.

        Raises:
            DragomanError: a character of a line has more subwords than the model takes; memory runs out; a beginning
                can't be written or is too long; or nothing says which of several languages to write.
        """
        self._refuse_unfit(lines)
        config = config or SearchConfig()
        if len(lines) > _LINES_AT_ONCE and self.concurrency > 1 and not (beginnings or config.sampling):
            # While CTranslate2 computes for one thread, the other makes segments of lines and joins translations.
            starts = range(0, len(lines), _LINES_AT_ONCE)
            calls = [(lines[i : i + _LINES_AT_ONCE], config, progress, first_line + i) for i in starts]
            with ThreadPoolExecutor(2) as pool:
                return list(chain.from_iterable(pool.map(self.translate, *zip(*calls, strict=True))))
        split = config.sentences == "split" and not beginnings
        segments = list(self.source.segments(lines, self.longest_source, first_line, split))
        forced = self._beginnings(lines, segments, beginnings, config, first_line) if any(beginnings) else []
        waiting = Counter(segment.line for segment in segments)

        def count(batch: list[int]) -> None:
            waiting.subtract(segments[i].line for i in batch)
            if finished := sum(not waiting[line] for line in {segments[i].line for i in batch}):
                progress(finished)

        if config.sampling or forced:
            found = self._search_with_rules(segments, forced or [""] * len(segments), config, first_line, count)
        else:
            ids, budget = [segment.ids for segment in segments], self.engine.batch_tokens(config)
            found = in_batches(partial(self._search, ids, config), list(map(len, ids)), budget, count)
        sources = [segment.source or lines[segment.line] for segment in segments]
        if self._glossary:
            self._honour(self._glossary, segments, sources, found, config, first_line)
        return self._joined(lines, segments, sources, found, config)

    def _refuse_unfit(self, lines: Sequence[str]) -> None:
        if isinstance(lines, str):  # its letters would be taken for lines
            raise TypeError("translate takes a list of lines, not a str")
        tagged = (self.vocabulary.source.split_tag(line.strip())[0] or not line.strip() for line in lines)
        if "," in self.direction.target and not all(tagged):
            raise DragomanError(f"choose one of {self.direction.target} with toward, or begin each line with its tag")

    def _joined(
        self,
        lines: Sequence[str],
        segments: Sequence[Segment],
        sources: Sequence[str],
        found: Sequence[list[Hypothesis]],
        config: SearchConfig,
    ) -> list[Translation]:
        """The translation of each line from the hypotheses of each segment; sources are the segments as text."""
        texts = iter(self.vocabulary.target.decode([one.tokens for hypotheses in found for one in hypotheses]))
        of_lines: list[list[tuple[Segment, list[Translation]]]] = [[] for _ in lines]
        for segment, source, hypotheses in zip(segments, sources, found, strict=True):
            restore = self.source.restorer(source)
            restored = [(one, *restore(next(texts))) for one in hypotheses]
            if self._glossary:
                for _, text, lost in restored:
                    lost += [term for _, term in self._glossary.missing(source, text)]
            candidates = [Translation(t, one.log_prob, one.score, one.tokens, lost=lost) for one, t, lost in restored]
            of_lines[segment.line].append((segment, candidates))
        gap = sentence_gap(self.direction.target)
        return [join_translations(of_line, gap, config.n_best, config.sampling > 0) for of_line in of_lines]

    def complete(self, line: str, beginning: str, config: SearchConfig | None = None) -> Translation:
        """The best translation of a line that starts with this text, which may end inside a word.

        Arguments and errors as for translate.
        """
        return self.translate([line], config, beginnings=[beginning])[0]

    def _beginnings(
        self,
        lines: Sequence[str],
        segments: Sequence[Segment],
        beginnings: Sequence[str],
        config: SearchConfig,
        first_line: int,
    ) -> list[str]:
        """What each segment's translation must start with: only the first segment of a line has a beginning."""
        found, last = list[str](), -1
        for segment in segments:
            line, own = segment.line, beginnings[segment.line] if segment.line != last else ""
            found.append(self._spelt(own, lines[line], segment, config, f"beginning {first_line + line:,}"))
            last = line
        return found

    def _spelt(self, beginning: str, source: str, segment: Segment, config: SearchConfig, name: str) -> str:
        """A beginning of the translation of a source text, spelt as the rule Begin compares it."""
        ids, written = self.target.encode([self.masked_target(source, beginning)], [name])[0][:-1], self._written
        if UNK in ids:
            raise DragomanError(f"{name} has a character that the model can't write")
        if len(ids) > length_limits([segment.ids], config, self.config.max_length)[0]:
            raise DragomanError(f"{name} has more subwords than a translation of its line may have: {len(ids):,}")
        return "".join(written[i] for i in ids) + "▁" * bool(ids and beginning[-1].isspace())

    @cached_property
    def _written(self) -> list[str]:
        return self.vocabulary.target.written()

    def _honour(
        self,
        glossary: Glossary,
        segments: Sequence[Segment],
        sources: Sequence[str],
        found: list[list[Hypothesis]],
        config: SearchConfig,
        first_line: int,
    ) -> None:
        """Search again where a translation lacks a term, one term after the other."""
        sources = [mask(one)[0] if self.vocabulary.has_symbols else one for one in sources]  # <a href="…"> is one word
        waiting = [i for i, source in enumerate(sources) if glossary.missing(source, "")]
        for _ in range(_MOST_TERMS):
            names = [f"line {first_line + segments[i].line:,}" for i in waiting]
            parts = [Part(sources[i], found[i][0].tokens) for i in waiting]
            alignments = self._align(parts, names, self.aligning_layer(0), ("words", "words"))
            begin = {i: glossary.beginning(sources[i], one) for i, one in zip(waiting, alignments, strict=True)}
            waiting = [i for i in waiting if begin[i]]
            if not waiting:
                return
            forced = [self._spelt(begin[i], sources[i], segments[i], config, f"the term {begin[i]!r}") for i in waiting]
            again = self._search_with_rules([segments[i] for i in waiting], forced, config, first_line, whole=True)
            for i, hypotheses in zip(waiting, again, strict=True):
                found[i] = hypotheses

    def _search_with_rules(
        self,
        segments: Sequence[Segment],
        beginnings: Sequence[str],
        config: SearchConfig,
        first_line: int,
        progress: Callable[[list[int]], None] = lambda batch: None,
        whole: bool = False,
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each segment that PyTorch finds or draws, with the beginnings that _spelt gives.

        They end with a word if they are whole.
        """
        times = config.n_best if config.sampling else 1
        engine = self.torch_engine

        def find(batch: list[int]) -> list[list[Hypothesis]]:
            many = [(i, draw) for i in batch for draw in range(times)]
            sources, rules = [segments[i].ids for i, _ in many], list["Rule"]()
            if any(beginnings):
                rules.append(_late("inference.rules").Begin(self._written, [beginnings[i] for i, _ in many], whole))
            keys = [(config.sampling_seed, first_line + segments[i].line, draw, segments[i].ids) for i, draw in many]
            seeds = [crc32(repr(key).encode()) for key in keys]
            found = engine.search(sources, config, *self.rules(sources, config), *rules, seeds=seeds)
            return [list(chain.from_iterable(found[i : i + times])) for i in range(0, len(found), times)]

        budget = max(1, engine.batch_tokens(config) // times)
        return in_batches(find, [len(one.ids) for one in segments], budget, progress)

    def _search(self, every: list[list[int]], config: SearchConfig, batch: list[int]) -> list[list[Hypothesis]]:
        """The best hypotheses for a batch, places in every; where one lost a placeholder, those that have it."""
        sources = [every[i] for i in batch]
        symbols, needed = self.vocabulary.target.ids(SYMBOLS), self._placeholders(sources)
        if isinstance(self.engine, CTranslate2Engine):
            found = self.engine.search(sources, config, [() if count else symbols for count in needed])
        else:
            found = self.engine.search(sources, config)
        if self.vocabulary.has_symbols and (self._torch_engines or self._weights):
            lost = [
                place
                for place, count in enumerate(needed)
                if any([t for t in sorted(one.tokens) if t in symbols] != symbols[:count] for one in found[place])
            ]
            if lost:
                again = [sources[place] for place in lost]
                better = self.torch_engine.search(again, config, *self.rules(again, config))
                for place, hypotheses in zip(lost, better, strict=True):
                    found[place] = hypotheses
        return found

    def rules(self, sources: list[list[int]], config: SearchConfig) -> "list[Rule]":
        """The rule of torch_engine's search that keeps the placeholders of these sources (ids), if the model can."""
        if not self.vocabulary.has_symbols:
            return []
        symbols, limits = self.vocabulary.target.ids(SYMBOLS), length_limits(sources, config, self.config.max_length)
        return [_late("inference.rules").Once(symbols, self._placeholders(sources), limits)]

    def _placeholders(self, sources: list[list[int]]) -> list[int]:
        marks = {*self.vocabulary.source.ids(SYMBOLS)}
        return [len(marks.intersection(ids)) for ids in sources]

    def masked_target(self, source: str, target: str) -> str:
        """A given translation as the model writes it: symbols for placeholders, no capitals for a line in capitals."""
        _, placeholders, capitals = self.source.read(source)
        masked = mask_target(target, placeholders)
        return self.vocabulary.target.respelt(masked) if capitals else masked

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Whether the model takes both sides of each raw pair whole, as `score` needs."""
        targets = self.target.fits(list(starmap(self.masked_target, pairs)))
        return list(map(and_, self.source.fits([source for source, _ in pairs]), targets))

    def score(self, pairs: Sequence[tuple[str, str]], first_line: int = 1) -> list[PairScore]:
        """The log-probability of each raw pair's target given its source, in order; messages count from first_line."""
        numbers = range(first_line, first_line + len(pairs))
        sources = self.source.encode([source for source, _ in pairs], [f"source line {n:,}" for n in numbers])
        targets = self.target.encode(list(starmap(self.masked_target, pairs)), [f"target line {n:,}" for n in numbers])
        lengths = [max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
        log_probs = in_batches(
            lambda some: self.engine.score([sources[i] for i in some], [targets[i] for i in some]),
            lengths,
            self.engine.forced_tokens,
        )
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
        pairs = zip(sources, found, strict=True)
        to_cut = ["" if one.subwords or one.parts else self.masked_target(source, one.text) for source, one in pairs]
        given = self.target.encode(to_cut, [f"target line {n:,}" for n in range(1, len(found) + 1)])
        parts_of = [
            one.parts or [Part(source, one.subwords or ids[:-1])]
            for source, one, ids in zip(sources, found, given, strict=True)
        ]
        names = [f"source line {n:,}" for n, parts in enumerate(parts_of, start=1) for _ in parts]
        alignments = iter(self._align([part for parts in parts_of for part in parts], names, layer, units))
        tagged = [not self.source.tag and bool(self.vocabulary.source.split_tag(source)[0]) for source in sources]
        return [
            join_alignments(parts, list(islice(alignments, len(parts))), units[0], is_tagged)
            for parts, is_tagged in zip(parts_of, tagged, strict=True)
        ]

    def _align(self, parts: list[Part], names: list[str], layer: int, units: tuple[Unit, Unit]) -> list[Alignment]:
        """The alignment of each part by itself; names are what messages call the parts."""
        has_weights = isinstance(self.engine, CTranslate2Engine) and layer == self.engine.attending_layer
        engine = self.engine if has_weights else self.torch_engine
        sources = self.source.encode([part.source for part in parts], names)
        targets = [[*part.subwords, EOS] for part in parts]
        own = int(bool(self.source.tag))  # no word of the line

        def compute(batch: list[int]) -> list[Alignment]:
            found = engine.cross_attention([sources[i] for i in batch], [targets[i] for i in batch], layer)
            return [
                align_sentences(weights[..., own:], sources[i][own:], targets[i], self.vocabulary, units).restored(
                    self.source.restorer(parts[i].source)
                )
                for weights, i in zip(found, batch, strict=True)
            ]

        lengths = [max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)]
        return in_batches(compute, lengths, engine.aligned_tokens)

    def aligning_layer(self, layer: int) -> int:
        """The decoder layer, from 0, that alignments are read from; layer counts from 1, and 0 is for the default."""
        layers = self.config.num_decoder_layers
        if not 0 <= layer <= layers:
            raise ConfigError(f"alignment_layer is {layer}, but the model has {layers} decoder layers")
        return layer - 1 if layer else alignment_layer(layers)


def _open_for_ctranslate2(
    folder: Path, device: str, precision: Precision, workers: int
) -> tuple[CTranslate2Engine, Vocabulary, Direction, Path | None]:
    """The arguments of Translator._set_up for an exported folder, or for a model folder, which is converted first."""
    device = device if device.startswith("cuda") else "cpu"
    if (folder / MODEL_FILE).is_file():
        exported = read_exported(folder, verify=True)
        vocabulary = Vocabulary.load(folder)
        engine = CTranslate2Engine(folder, vocabulary, exported.config, device, "default", workers, exported.attends)
        return engine, vocabulary, exported.direction, None
    config, vocabulary, direction = read_description(folder)
    in_int8 = device == "cpu" and precision == "auto"
    quantization = "int8" if in_int8 else "float32"
    if not _has_copy(folder, quantization, verify=True):
        _late("inference.conversion").convert(folder)
    compute_type = "int8" if in_int8 else {"auto": "auto", "fp32": "float32", "bf16": "bfloat16"}[precision]
    copy = folder / CONVERTED / quantization
    engine = CTranslate2Engine(copy, vocabulary, config, device, compute_type, workers, attends=True)
    return engine, vocabulary, direction, folder


def _has_copy(folder: Path, quantization: str, verify: bool = False) -> bool:
    """Whether a model folder has the copy for CTranslate2 of its present weights; verify also reads the copy."""
    with suppress(DragomanError):
        return read_exported(folder / CONVERTED / quantization, verify).made_from == model_key(folder) != ""
    return False
