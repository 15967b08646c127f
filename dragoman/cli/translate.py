"""The verbs that work with a trained model: translate, evaluate, score, average."""

from __future__ import annotations

import json
import os
import queue
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice, repeat
from pathlib import Path
from typing import Any, BinaryIO

import torch
import yaml

from dragoman.checkpoint import (
    AVERAGE_FACT,
    CHECKPOINTS,
    OF_ONE_MODEL,
    RUN_FACT,
    RUN_FILE,
    Direction,
    ModelFolder,
    average_weights,
    learned_checkpoints,
    put_weights,
    refuse_folder_for_average,
)
from dragoman.cli.options import AverageConfig, EvaluateConfig, ScoreConfig, TranslateConfig
from dragoman.config import ConfigError, DragomanError
from dragoman.corpus_check.issues import Tally
from dragoman.corpus_check.survey import survey_text
from dragoman.evaluation.report import as_table, describe_evaluation
from dragoman.evaluation.scores import METRICS, all_scores, looks_raw, looks_tokenized
from dragoman.exported import not_for_reports
from dragoman.inference.alignment import Alignment
from dragoman.inference.ctranslate2 import choose_engine, load_exported
from dragoman.inference.results import Translation
from dragoman.inference.translator import Translator
from dragoman.runtime.console import NowAndThen, Report, say
from dragoman.runtime.device import choose_device, use_bf16
from dragoman.runtime.files import checksum, prepare_reports, write_atomically
from dragoman.text.corpus import Corpus, decode_lines, locate, read_lines, read_pairs

_LINES_AT_ONCE = 2000


def translate(config: TranslateConfig) -> int:
    """Translate a file or stdin to stdout, flushing as lines come; returns the exit code."""
    if config.file != "-" and not Path(config.file).exists():
        raise DragomanError(
            f"{config.file}: no such file; to translate a sentence: "
            f"echo '…' | dragoman translate {shlex.quote(config.folder)}"
        )
    translator = _translator(config)
    if config.alignments != "none":
        translator.aligning_layer(config.alignment_layer)
    if config.file == "-" and sys.stdin and sys.stdin.isatty():
        say(f"type a sentence on each line; {'Ctrl-Z and Enter end' if sys.platform == 'win32' else 'Ctrl-D ends'}")
    watched = config.file != "-" and sys.stderr.isatty() and not sys.stdout.isatty()
    report = NowAndThen(say) if watched else lambda line: None
    done = 0
    for lines in _incoming(config.file):
        name = "stdin" if config.file == "-" else config.file
        with _naming(name):
            translations = translator.translate(lines, config, _counting(report, len(lines), done), done + 1)
        _say_what_was_cut(name, translations, done + 1)
        shown = [translation.candidates for translation in translations]
        alignments = _alignments(translator, lines, shown, config)
        for candidates in shown:
            print(_format(done, candidates, [next(alignments) for _ in candidates], config))
            done += 1
        sys.stdout.flush()
    return 0


def _translator(config: TranslateConfig | EvaluateConfig) -> Translator:
    device = choose_device(config.device)
    if choose_engine(Path(config.folder), config.engine) == "ctranslate2":
        return Translator.using(*load_exported(Path(config.folder), device, config.workers))
    workers = (config.workers or torch.get_num_threads()) if device.type == "cpu" else 1
    return Translator(ModelFolder.load(config.folder), device, use_bf16(config.precision, device), workers)


def _say_what_was_cut(name: str, translations: Sequence[Translation], first_line: int) -> None:
    for number, translation in enumerate(translations, start=first_line):
        if translation.left_out:
            say(
                f"{name}, line {number:,}: too long for the model; its last {translation.left_out:,} characters are "
                f"not translated (--long split translates all)"
            )


def _alignments(
    translator: Translator, lines: Sequence[str], shown: Sequence[Sequence[Translation]], config: TranslateConfig
) -> Iterator[Alignment | None]:
    """The alignment of every candidate in turn; None for each where none is asked for."""
    if config.alignments == "none":
        return repeat(None)
    sources = [line for line, candidates in zip(lines, shown, strict=True) for _ in candidates]
    translations = [translation for candidates in shown for translation in candidates]
    return iter(translator.align(sources, translations, config.alignment_layer, config.alignments))


def _format(
    number: int,
    candidates: Sequence[Translation],
    alignments: Sequence[Alignment | None],
    config: TranslateConfig,
) -> str:
    if config.format == "json":
        best, *others = (
            _as_json(candidate, alignment) for candidate, alignment in zip(candidates, alignments, strict=True)
        )
        return json.dumps(best | ({"alternatives": others} if config.n_best > 1 else {}), ensure_ascii=False)
    lines = [candidate.text for candidate in candidates]
    if config.format == "moses" or config.n_best > 1:
        lines = [f"{number} ||| {c.text} ||| {c.log_prob:.4f} ||| {c.score:.4f}" for c in candidates]
    return "\n".join(
        line if alignment is None else f"{line} ||| {alignment.pharaoh()}"
        for line, alignment in zip(lines, alignments, strict=True)
    )


def _as_json(candidate: Translation, alignment: Alignment | None) -> dict[str, Any]:
    values: dict[str, Any] = {key: getattr(candidate, key) for key in ("text", "log_prob", "score")}
    if len(candidate.parts) > 1:
        values["parts"] = len(candidate.parts)
    if candidate.left_out:
        values["left_out"] = candidate.left_out
    if alignment is None:
        return values
    return values | {
        "alignment": alignment.links,
        "source_tokens": alignment.source,
        "target_tokens": alignment.target,
    }


def _incoming(file: str) -> Iterator[list[str]]:
    """Lists of lines as they arrive. Of stdin all that wait, without waiting for more; of a file as many as fit, so
    that its batches, and with them the rounding, are the same every time.
    """
    waiting: queue.Queue[str | Exception | None] = queue.Queue(maxsize=2 * _LINES_AT_ONCE)

    def read() -> None:
        try:
            for line in decode_lines(_open_stdin(), "stdin") if file == "-" else read_lines(Path(file)):
                waiting.put(line)
            waiting.put(None)
        except OSError as error:
            waiting.put(DragomanError(f"{'stdin' if file == '-' else file}: {error.strerror or error}"))
        except Exception as error:
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    item: str | Exception | None = ""
    while item is not None:
        item = waiting.get()
        lines: list[str] = []
        while isinstance(item, str):
            lines.append(item)
            if len(lines) == _LINES_AT_ONCE or (file == "-" and waiting.empty()):
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


def evaluate(config: EvaluateConfig) -> int:
    """Translate a test text and print its scores; returns the exit code."""
    translator = _translator(config)
    direction = translator.direction
    corpora = [locate(text, direction.source, direction.target) for text in config.test]
    read = [*(path for corpus in corpora for path in corpus.paths), *not_for_reports(Path(config.folder))]
    prepare_reports({"--json": config.json, "--markdown": config.markdown}, read)
    pairs = list(read_pairs(config.test, direction.source, direction.target))
    if not pairs:
        raise DragomanError(f"{', '.join(config.test)}: empty; there is nothing to evaluate")
    _warn_about_text(config, direction, corpora)
    with _naming(", ".join(config.test)):
        progress = _counting(NowAndThen(say), len(pairs), 0, len(pairs))
        found = translator.translate([source for source, _ in pairs], config, progress)
    _say_what_was_cut(", ".join(config.test), found, 1)
    translations, references = [translation.text for translation in found], [target for _, target in pairs]
    if config.tokenized and looks_raw(references):
        say(f"{', '.join(config.test)}: does not look tokenised; its BLEU compares with nothing published")
    if not config.tokenized and looks_tokenized(references):
        say(
            f"{', '.join(config.test)}: looks tokenised; sacreBLEU wants raw text (with --tokenized the tokens are "
            f"scored as they are)"
        )
    scores = all_scores(translations, references, direction.target, config.tokenized)
    evaluation = describe_evaluation(
        asdict(config), direction, pairs, translations, scores, translator.engine.computing
    )
    if config.json:
        write_atomically(Path(config.json), json.dumps(evaluation, ensure_ascii=False, indent=1).encode())
    if config.markdown:
        write_atomically(Path(config.markdown), as_table(evaluation).encode())
    for name in METRICS:  # last: whoever reads them may be gone
        if name in scores:
            print(f"{METRICS[name]} {scores[name]:.2f}  {scores[f'{name}_signature']}")
    return 0


def _warn_about_text(config: EvaluateConfig, direction: Direction, corpora: Sequence[Corpus]) -> None:
    """Say where a text is the wrong way round, or one that the model has learned from or was chosen by."""
    swapped = survey_text(corpora, (direction.source, direction.target), lambda done, pairs: None)
    for text, is_swapped in zip(config.test, swapped.report(Tally("test", 0)), strict=True):
        if is_swapped:
            say(
                f"warning: {text}: seems to be the wrong way round, {direction.target} to {direction.source}; the "
                f"model translates {direction.source} to {direction.target}"
            )
    seen = _files_of_the_run(Path(config.folder))
    for text, corpus in zip(config.test, corpora, strict=True):
        if all(checksum(path) in seen for path in corpus.paths):
            say(f"warning: {text}: the model was trained or chosen with this text; its scores say little about others")


def _files_of_the_run(folder: Path) -> set[str]:
    """SHA-256 of the files that a run trained on and was validated with, as far as its folder still knows them."""
    try:
        settings = yaml.safe_load((folder / RUN_FILE).read_text(encoding="utf-8"))
        key = json.loads((folder / "data" / "key.json").read_text(encoding="utf-8"))
        held_back = [locate(text, settings["source"], settings["target"]).paths for text in settings["test"]]
        number = sum(map(len, held_back))
        held_out = map(checksum, folder.glob("heldout.*"))  # without a validation text, the model was chosen by these
        return {file[3] for file in key["files"][: len(key["files"]) - number]} | {*held_out}
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, yaml.YAMLError, DragomanError):
        return set()  # not the folder of a run, or its text is elsewhere by now


def score(config: ScoreConfig) -> int:
    """Print log-probability, score and number of subwords for each pair; returns the exit code."""
    translator = Translator.load(config.folder, choose_device(config.device))
    direction = translator.direction
    pairs = read_pairs(config.test, direction.source, direction.target)
    done = 0
    while chunk := list(islice(pairs, _LINES_AT_ONCE)):
        with _naming(", ".join(config.test)):
            results = translator.score(chunk, first_line=done + 1)
        done += len(chunk)
        for result in results:
            print(f"{result.log_prob:.4f}\t{result.score(config.length_penalty):.4f}\t{result.num_tokens}")
    return 0


def average(config: AverageConfig) -> int:
    """Average the last checkpoints of a run into a new model folder; returns the exit code."""
    folder = Path(config.folder)
    checkpoints = learned_checkpoints(folder)[-config.last :]
    if not checkpoints:
        raise DragomanError(
            f"{folder / CHECKPOINTS}: no checkpoints; give the --out of a training run that has validated its model"
        )
    refuse_folder_for_average(Path(config.out))
    loaded = ModelFolder.load(folder)
    put_weights(loaded.model, average_weights(checkpoints), checkpoints[-1])
    names = ", ".join(path.stem for path in checkpoints)
    known = {name: fact for name, fact in loaded.direction.facts.items() if name not in OF_ONE_MODEL}
    run = {RUN_FACT: loaded.direction.facts[RUN_FACT]} if RUN_FACT in loaded.direction.facts else {}
    direction = replace(loaded.direction, facts=known | run | {AVERAGE_FACT: names})
    replace(loaded, direction=direction).save(Path(config.out))
    say(f"averaged {names} into {config.out}")
    return 0


def _counting(report: Report, lines: int, before: int, total: int | None = None) -> Callable[[int], None]:
    """Reports how many lines are done, given those of each batch.

    Args:
        report: takes a line for people.
        lines: that are being translated.
        before: that were done before.
        total: where it is known.
    """
    done, of = 0, "" if total is None else f" of {total:,}"

    def tell(more: int) -> None:
        nonlocal done
        done = min(done + more, lines)  # parts of long lines count, too
        report(f"{before + done:,}{of} lines translated")

    return tell


@contextmanager
def _naming(text: str) -> Iterator[None]:
    """Say of an error in which text it is."""
    try:
        yield
    except ConfigError:
        raise  # nothing is wrong with the text
    except DragomanError as error:
        raise DragomanError(f"{text}: {error}") from None
