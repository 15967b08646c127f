"""The verbs that run a translator line by line: translate and score."""

import json
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

from dragoman.cli.options import AugmentConfig, ScoreConfig, TranslateConfig, TranslatorConfig
from dragoman.config import DragomanError, SearchConfig, require
from dragoman.folder import model_key
from dragoman.inference.alignment import Alignment
from dragoman.inference.results import Translation
from dragoman.inference.translator import Translator
from dragoman.runtime.console import NowAndThen, Report, command, say
from dragoman.runtime.files import checksum, make_folder, read_json, refuse_to_overwrite, write_atomically, write_json
from dragoman.text.corpus import Corpus, decode_lines, read_lines, read_pairs
from dragoman.text.placeholders import SYMBOL

LINES_AT_ONCE = 2000
_SHOWN = 12  # unknown characters


def translate(config: TranslateConfig) -> int:
    """Translate a file or stdin to stdout, flushing as lines come; returns the exit code."""
    if config.file != "-" and not Path(config.file).exists():
        cure = f"to translate a sentence: echo '…' | {command('translate', config.folder)}"
        raise DragomanError(f"{config.file}: no such file; {cure}")
    translator = load(config, config.folder)
    require_one(translator, "target")
    if config.glossary:
        terms = Corpus((Path(config.glossary),), ("source", "target")).read()
        own = {term.strip(): translation.strip() for term, translation in terms}
        with naming(config.glossary):
            translator = translator.with_glossary(own)
    if config.alignments != "none":
        translator.aligning_layer(config.alignment_layer)  # refuses one that is not there
    if config.file == "-" and sys.stdin and sys.stdin.isatty():
        say("type a sentence on each line; Ctrl-D ends")
    if config.out:
        _write_shards(translator, config)
        return 0
    for outputs in _outputs(translator, config):
        for text in outputs:
            print(text)
        sys.stdout.flush()
    return 0


def _outputs(translator: Translator, config: TranslateConfig, done: int = 0) -> Iterator[Iterator[str]]:
    """What to print for each line after those that are done, some lines at a time."""
    watched = config.file != "-" and sys.stderr.isatty() and (config.out or not sys.stdout.isatty())
    report = NowAndThen(say) if watched else lambda line: None
    config = replace(config, log_probs=config.format != "text" or config.n_best > 1)
    name = "stdin" if config.file == "-" else config.file
    beginnings = islice(read_lines(Path(config.prefix)), done, None) if config.prefix else iter(())
    for lines in _incoming(config.file, done):
        begin = list(islice(beginnings, len(lines)))
        if config.prefix and len(begin) < len(lines):
            raise DragomanError(f"{config.prefix}: ends at line {done + len(begin):,}, before {name}")
        with naming(name):
            translations = translator.translate(lines, config, line_counter(report, done), done + 1, begin)
        say_lost(name, translations, done + 1)
        say_unknown(name, translator, lines, done + 1)
        yield _formatted(translator, lines, [one.candidates for one in translations], done, config)
        done += len(lines)


def _write_shards(translator: Translator, config: TranslateConfig) -> None:
    """Write the files that are missing, each complete or not at all."""
    require(config.file != "-", "--out needs a file to translate: stdin can't be read again")
    card, shards = Path(f"{config.out}.json"), (Path(f"{config.out}.{number:05}") for number in count(1))
    made_from = describe(config, [config.file, *[one for one in (config.glossary, config.prefix) if one]])
    made_from |= {name: getattr(config, name) for name in ("format", "alignments", "alignment_layer", "shard_lines")}
    make_folder(card.parent)
    before = read_card(card, made_from)
    there = [path.name for path in card.parent.iterdir() if re.fullmatch(re.escape(card.stem) + r"\.\d+", path.name)]
    names = [card.name, *there]
    refuse_to_overwrite(card.parent, names if before else (), names)
    write_json(card, {"made_from": made_from})
    shard, done = next(shards), 0
    while shard.exists():
        shard, done = next(shards), done + config.shard_lines
    texts = chain.from_iterable(_outputs(translator, config, done))
    while some := list(islice(texts, config.shard_lines)):
        write_atomically(shard, "".join(f"{text}\n" for text in some).encode())
        done += len(some)
        say(f"{shard}: translated to line {done:,}")
        shard = next(shards)


def describe(config: TranslateConfig | AugmentConfig, texts: Sequence[str]) -> dict[str, Any]:
    """What translations of these files depend on."""
    search = {name: getattr(config, name) for name in asdict(SearchConfig()) if name != "log_probs"}
    own = {name: getattr(config, name) for name in ("source", "target", "engine", "precision")}
    models = {folder: model_key(Path(folder)) for folder in (config.folder, *config.ensemble)}
    return {"models": models, "texts": {text: checksum(Path(text)) for text in texts}, **search, **own}


def read_card(path: Path, made_from: dict[str, Any]) -> dict[str, Any]:
    """What an earlier call wrote about its results, if it was one; refuses results of something else."""
    found = read_json(path)
    if found.get("made_from", made_from) != made_from:
        raise DragomanError(f"{path}: of another text, model or settings; choose another --out")
    return found if "made_from" in found else {}


def load(config: TranslatorConfig, folder: str) -> Translator:
    """The translator that a verb's options ask for."""
    options = (config.device, config.engine, config.precision, config.workers, config.ensemble)
    translator = Translator.load(folder, *options)
    chosen = translator.toward(config.source, config.target)
    if not set(chosen.direction.pairs) <= set(translator.direction.pairs):
        source, target = chosen.direction.source, chosen.direction.target
        say(f"warning: {folder}: never saw pairs of {source} and {target}; translate by way of a third language")
    return chosen


def require_one(translator: Translator, *sides: Literal["source", "target"]) -> None:
    """Refuse to go on with a model that has several languages on one of these sides if none was chosen."""
    for side in sides:
        codes = getattr(translator.direction, side).split(",")
        require(len(codes) == 1, f"the model has several {side} languages: choose {' or '.join(codes)} with --{side}")


def say_lost(name: str, translations: Sequence[Translation], first_line: int) -> None:
    """Name the lines whose placeholders and terms did not all come through."""
    for number, one in enumerate(translations, start=first_line):
        if one.lost:
            say(f"{name}, line {number:,}: missing or repeated in the translation: {', '.join(one.lost)}")


def say_unknown(name: str, translator: Translator, lines: Sequence[str], first_line: int) -> None:
    """Name lines with characters that the training text hardly had, such as those of another script."""
    plain = [SYMBOL.sub(" ", translator.source.read(line)[0]) for line in lines]
    unknown = translator.vocabulary.source.unknown_characters(plain)
    concerned = [f"{number:,}" for number, found in enumerate(unknown, start=first_line) if found]
    if concerned:
        characters = list(dict.fromkeys("".join(unknown)))
        shown = " ".join(characters[:_SHOWN]) + " …" * (len(characters) > _SHOWN)
        more = f" and {len(concerned) - 1:,} more" if concerned[1:] else ""
        say(f"{name}, line {concerned[0]}{more}: check the translation, because the training text hardly had {shown}")


def line_counter(report: Report, done: int, total: int | None = None) -> Callable[[int], None]:
    """Function that reports how many lines are done, given how many more are."""
    of = "" if total is None else f" of {total:,}"

    def add(more: int) -> None:
        nonlocal done
        done += more
        report(f"{done:,}{of} lines translated")

    return add


@contextmanager
def naming(text: str) -> Iterator[None]:
    """Put the name of the text in front of what is wrong with it."""
    try:
        yield
    except DragomanError as error:
        raise type(error)(f"{text}: {error}") from None


# ---- what comes in


def _incoming(file: str, done: int) -> Iterator[list[str]]:
    """Lists of lines after those that are done: of stdin, all that wait; of a file, as many as fit, so that its batches
    are always the same."""
    waiting: queue.Queue[str | Exception | None] = queue.Queue(maxsize=2 * LINES_AT_ONCE)

    def read() -> None:
        try:
            lines = decode_lines(_open_stdin(), "stdin") if file == "-" else read_lines(Path(file))
            for line in islice(lines, done, None):
                waiting.put(line)
            waiting.put(None)
        except OSError as error:
            waiting.put(DragomanError(f"stdin: {error.strerror or error}"))  # read_lines names a file itself
        except Exception as error:
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    item: str | Exception | None = ""
    while item is not None:
        item = waiting.get()
        lines: list[str] = []
        while isinstance(item, str):
            lines.append(item)
            if len(lines) == LINES_AT_ONCE or (file == "-" and waiting.empty()):
                break
            item = waiting.get()
        if lines:
            yield lines
        if isinstance(item, Exception):
            raise item


def _open_stdin() -> BinaryIO:
    if sys.stdin is None:
        raise DragomanError("stdin is closed: name a file, or pipe the text in")
    try:
        # A file object of our own: at exit Python waits for sys.stdin's lock, which the reading thread may hold.
        return os.fdopen(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # not a real file
        return sys.stdin.buffer


# ---- what goes out


def _formatted(
    translator: Translator, lines: list[str], found: list[list[Translation]], first: int, config: TranslateConfig
) -> Iterator[str]:
    """What to print for each line: its candidates, with their alignments where they are wanted."""
    alignments: Iterator[Alignment | None] = iter(())
    if config.alignments != "none":
        sources = [line for line, candidates in zip(lines, found, strict=True) for _ in candidates]
        flat = [candidate for candidates in found for candidate in candidates]
        alignments = iter(translator.align(sources, flat, config.alignment_layer, config.alignments))
    for number, candidates in enumerate(found, start=first):
        yield _format(number, candidates, [next(alignments, None) for _ in candidates], config)


def _format(number: int, found: list[Translation], links: list[Alignment | None], config: TranslateConfig) -> str:
    if config.format == "json":
        best, *others = map(_as_json, found, links)
        return json.dumps(best | ({"alternatives": others} if config.n_best > 1 else {}), ensure_ascii=False)
    lines = [candidate.text for candidate in found]
    if config.format == "moses" or config.n_best > 1:
        lines = [f"{number} ||| {c.text} ||| {c.log_prob:.4f} ||| {c.score:.4f}" for c in found]
    aligned = zip(lines, links, strict=True)
    return "\n".join(line if one is None else f"{line} ||| {one.pharaoh()}" for line, one in aligned)


def _as_json(candidate: Translation, alignment: Alignment | None) -> dict[str, Any]:
    values: dict[str, Any] = {key: getattr(candidate, key) for key in ("text", "log_prob", "score")}
    if len(candidate.parts) > 1:
        values["parts"] = len(candidate.parts)
    if candidate.lost:
        values["lost"] = candidate.lost
    if alignment:
        values |= {"alignment": alignment.links, "source_tokens": alignment.source, "target_tokens": alignment.target}
    return values


# ---- the other verbs


def score(config: ScoreConfig) -> int:
    """Print log-probability, score and number of subwords for each pair; returns the exit code."""
    translator = Translator.load(config.folder, config.device, precision="fp32").toward(config.source, config.target)
    require_one(translator, "source", "target")
    direction = translator.direction
    pairs = read_pairs(config.test, direction.source, direction.target)
    done = 0
    while chunk := list(islice(pairs, LINES_AT_ONCE)):
        with naming(", ".join(config.test)):
            results = translator.score(chunk, first_line=done + 1)
        done += len(chunk)
        for result in results:
            print(f"{result.log_prob:.4f}\t{result.score(config.length_penalty):.4f}\t{result.num_tokens}")
    return 0
