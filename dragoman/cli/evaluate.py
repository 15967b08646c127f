"""The verbs that score translations: evaluate and compare."""

from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from dragoman.cli.options import CompareConfig, EvaluateConfig
from dragoman.cli.translate import line_counter, load, naming, say_lost
from dragoman.config import DragomanError, require
from dragoman.evaluation.report import as_table, compare_evaluations, comparison_table, describe_evaluation
from dragoman.evaluation.scores import METRICS, all_scores, looks_raw, looks_tokenized
from dragoman.folder import REPORT_FILE, files_of_model, run_settings
from dragoman.inference.translator import Translator
from dragoman.inspection.run import Run
from dragoman.inspection.run_page import render_runs
from dragoman.runtime.console import NowAndThen, say
from dragoman.runtime.files import prepare_reports, write_atomically, write_json
from dragoman.text.corpus import locate_all, read_pairs


def evaluate(config: EvaluateConfig) -> int:
    """Translate a test text and print its scores, for each direction that both have; returns the exit code."""
    translator, found = load(config, config.folder), []
    whole = translator.direction
    there = [*dict.fromkeys(corpus.languages for corpus in locate_all(config.test, whole.source, whole.target))]
    pairs = [pair for pair in whole.pairs if pair in there] or there
    one = len(pairs) == 1
    require(one or not (config.json or config.markdown), "--json and --markdown need --source and --target")
    settings = run_settings(Path(config.folder))
    for text in {*config.test} & {*settings.get("train", ()), *settings.get("valid", ())}:
        say(f"warning: {text}: the model was trained or chosen with this text; its scores say little about others")
    for source, target in pairs:
        if not one:
            print(f"{source} → {target}")
        found.append(_evaluate(replace(config, log_probs=False), translator.toward(source, target)))
    for metric in [name for name in METRICS if not one and name in found[0]]:
        print(f"mean {METRICS[metric]} {fmean(scores[metric] for scores in found):.2f}")
    return 0


def _evaluate(config: EvaluateConfig, translator: Translator) -> dict[str, Any]:
    """Translate a test text in one direction and print its scores."""
    direction = translator.direction
    corpora = locate_all(config.test, direction.source, direction.target)
    read = [*(path for corpus in corpora for path in corpus.paths), *files_of_model(Path(config.folder))]
    prepare_reports({"--json": config.json, "--markdown": config.markdown}, read)
    pairs, name = list(read_pairs(config.test, direction.source, direction.target)), ", ".join(config.test)
    if not pairs:
        raise DragomanError(f"{name}: empty; there is nothing to evaluate")
    with naming(name):
        progress = line_counter(NowAndThen(say), 0, len(pairs))
        found = translator.translate([source for source, _ in pairs], config, progress)
    say_lost(name, found, 1)
    translations, references = [translation.text for translation in found], [target for _, target in pairs]
    if config.tokenized and looks_raw(references):
        say(f"{name}: does not look tokenised; its BLEU compares with nothing published")
    if not config.tokenized and looks_tokenized(references):
        say(f"{name}: looks tokenised; sacreBLEU expects raw text (--tokenized scores the tokens as they are)")
    say(f"translated by {translator.engine.computing}")
    scores = all_scores(translations, references, direction.target, config.tokenized)
    result = describe_evaluation(asdict(config), direction, pairs, translations, scores, translator.engine.computing)
    if config.json:
        write_json(Path(config.json), result)
    if config.markdown:
        write_atomically(Path(config.markdown), as_table(result).encode())
    for metric in METRICS:  # last: whoever reads them may be gone
        if metric in scores:
            print(f"{METRICS[metric]} {scores[metric]:.2f}  {scores[f'{metric}_signature']}")
    return scores


def compare(config: CompareConfig) -> int:
    """Print a table of scores and differences, or write a page about runs; returns the exit code."""
    if config.runs:
        folders = [Path(folder) for folder in config.runs]
        read = [file for folder in folders for file in files_of_model(folder) if file.name != REPORT_FILE]
        prepare_reports({"--out": config.out}, read)
        try:
            page = render_runs([Run(folder) for folder in folders], opened=len(folders) == 1)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DragomanError(f"{' or '.join(config.runs)}: the run's records are damaged ({error})") from None
        write_atomically(Path(config.out), page.encode(errors="replace"))
        say(f"wrote {config.out}")
        return 0
    prepare_reports({"--json": config.json}, map(Path, [*config.system, *config.baseline]))
    comparison = compare_evaluations(config.system, config.baseline)
    if config.json:
        write_json(Path(config.json), comparison)
    print(comparison_table(comparison["result"]), end="")  # last: whoever reads it may be gone
    return 0
