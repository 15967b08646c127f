"""The verb `train`: from parallel text to a model folder. The only place where training meets inference."""

import os
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from statistics import fmean

import torch
import yaml

from dragoman.checkpoint import ModelFolder
from dragoman.config import PRESETS, ConfigError, DragomanError, ModelConfig, SearchConfig, TrainConfig, differences
from dragoman.corpus_check.cleaning import clean_text
from dragoman.evaluation.scores import evaluate
from dragoman.folder import (
    LONGEST_FACT,
    PAIRS_FACT,
    REPORT_FILE,
    RUN_FILE,
    TEXT_FACT,
    WEIGHTS_FILE,
    Direction,
    refuse_folder_for_run,
    remove_run,
    run_settings,
)
from dragoman.inference.translator import Translator
from dragoman.inspection.run_page import write_report
from dragoman.model.transformer import Transformer
from dragoman.runtime.console import Report, command, say
from dragoman.runtime.device import choose_device
from dragoman.runtime.files import write_atomically
from dragoman.text.corpus import Pair, locate_all, read_pairs
from dragoman.text.preprocess import PreparedText, locate_texts, prepare_text
from dragoman.training.distributed import Processes, process_group
from dragoman.training.dry_run import dry_run
from dragoman.training.run_state import Outcome, list_states, run_lock
from dragoman.training.trainer import Trainer
from dragoman.training.validation import Validate, Validation

# Presets by number of pairs: on 29,000, `small` beat the shape of `tiny` (docs/results.md); less was not measured. On
# two CPU cores `base` takes weeks.
_PAIRS_FOR_SMALL, _PAIRS_FOR_BASE = 10_000, 1_000_000
_VOCABULARY_SIZES = ("source_vocab_size", "target_vocab_size")  # which the text decides


def choose_preset(config: TrainConfig) -> str:
    """The preset for a run that names none: that of the run it continues or fine-tunes, or one for text and machine."""
    resumes = bool(list_states(Path(config.out))) and not config.restart
    if resumes or config.from_:
        preset = str(run_settings(Path(config.out if resumes else config.from_)).get("preset"))
        return preset if preset in PRESETS else "base"
    device = choose_device(config.device).type
    pairs = sum(1 for _ in islice(read_pairs(config.train, config.source, config.target), _PAIRS_FOR_BASE))
    is_much = pairs == _PAIRS_FOR_BASE
    preset = "tiny" if pairs < _PAIRS_FOR_SMALL else "base" if is_much and device == "cuda" else "small"
    if os.environ.get("RANK", "0") == "0":
        limits = f"tiny below {_PAIRS_FOR_SMALL:,}, base from {_PAIRS_FOR_BASE:,} on cuda"
        found = f"{pairs:,} pairs{' or more' * is_much} on {device}"
        say(f"preset {preset}, chosen for {found} ({limits}); --preset chooses another")
    return preset


def train(config: TrainConfig) -> int:
    """Train a model, or report what that would take; returns the exit code."""
    if config.dry_run:
        if os.environ.get("RANK", "0") == "0":  # torchrun's first process does the dry run for all
            print("\n".join(dry_run_training(config)))
        return 0
    again = "the same command without --restart" if config.restart else "the same command"
    with process_group() as processes:
        try:
            outcome = run_training(config, processes)
        except (KeyboardInterrupt, SystemExit):  # the latter after SIGTERM
            processes.say(f"stopped; {again} resumes from the last saved state, or starts again")
            raise
    if outcome.reason == "interrupted":
        processes.say(f"stopped after step {outcome.progress.step:,}; {again} resumes the run")
    else:
        for line in _summary(config, outcome):
            processes.say(line)
    return 128 + outcome.signal if outcome.signal else 0


def _summary(config: TrainConfig, outcome: Outcome) -> list[str]:
    """How a run ended, and how it can continue."""
    ending = {
        "limit": "finished",
        "patience": f"stopped early: no improvement in {config.validation.patience} validations",
        "already finished": "had already finished",
    }[outcome.reason]
    named = {name.replace("bleu", "BLEU").replace("chrf", "chrF"): value for name, value in outcome.scores.items()}
    scores = ", ".join(f"{name} {value:.2f}" for name, value in named.items())
    lines = [f"{ending}; the model in {config.out} has on the validation text: {scores}"]
    if (page := Path(config.out, REPORT_FILE)).is_file():
        lines.append(f"open {page} in a browser to see how it learned")
    if outcome.reason == "already finished":
        progress = outcome.progress
        to_raise = [f"--{name.replace('_', '-')}" for name, part in progress.parts(config).items() if part >= 1.0]
        to_raise += ["--validation.patience"] if progress.out_of_patience(config) else []
        lines.append(f"to continue, raise {' and '.join(to_raise)}")
    one = ("--target", config.target.split(",")[0]) if "," in config.target else ()
    following = [command("translate", config.out, *one)]
    following += [command("evaluate", config.out, "--test", *config.test)] if config.test else []
    return [*lines, "next:", *(f"  {line}" for line in following)]


def run_training(config: TrainConfig, processes: Processes = Processes()) -> Outcome:  # noqa: B008 (a frozen value)
    """Prepare the text, build the model or resume the run, and train."""
    out = Path(config.out)
    resumes = bool(list_states(out)) and not config.restart
    parent = None if resumes else _load_parent(config)  # which may have trained on since, or be gone
    if processes.first:
        refuse_folder_for_run(config)
    with run_lock(out) if processes.first else nullcontext():
        device = processes.device(choose_device(config.device))
        if processes.first:
            if config.restart:  # only now, so that a run that can't start removes nothing
                remove_run(out, locate_texts(config))
            if not resumes and (out / WEIGHTS_FILE).exists():
                raise DragomanError(f"{out}: a model without a saved state; choose another --out, or pass --restart")
            if not (out / RUN_FILE).exists():  # which marks the folder as a run's from its beginning
                write_atomically(out / RUN_FILE, _as_yaml(config))
        vocabulary = parent.vocabulary if parent else None
        text = processes.first_then_all(lambda: prepare_text(config, clean_text, processes.say, vocabulary, resumes))
        folder = _initial_model(config, text, parent)
        folder.model.to(device)
        validate = build_validate(config, folder, text.valid_pairs, processes)
        write_page = partial(_write_page, out, cache(say))
        trainer = Trainer(config, folder, text, validate, processes, write_page)
        if processes.first and not trainer.finished:
            write_atomically(out / RUN_FILE, _as_yaml(config))
        outcome = trainer.run()
        has_page = outcome.reason == "already finished" and (out / REPORT_FILE).is_file()
        if processes.first and outcome.reason != "interrupted" and not has_page:
            write_page(ended=True)
        return outcome


def _write_page(folder: Path, report: Report, ended: bool = False) -> None:
    """Write the page of a run, or report why it could not be written."""
    try:
        write_report(folder, ended)
    except Exception as error:  # whatever it is, a page is not worth a night of training
        report(f"warning: {folder / REPORT_FILE} is not up to date ({error}); training continues")


def dry_run_training(config: TrainConfig) -> list[str]:
    """Prepare the text of a run, which keeps it for later, and describe in lines what training would take."""
    out, parent = Path(config.out), _load_parent(config)
    refuse_folder_for_run(config)
    resumes = bool(list_states(out))
    if resumes and config.restart:
        raise ConfigError(f"{out}: contains a run, which --dry-run does not remove: try --restart in another --out")
    with run_lock(out):
        if not (out / RUN_FILE).exists():
            write_atomically(out / RUN_FILE, _as_yaml(config))
        text = prepare_text(config, clean_text, say, parent.vocabulary if parent else None, resumes)
        return dry_run(config, _with_sizes(config.model, text), text.train, choose_device(config.device), say)


def _with_sizes(model: ModelConfig, text: PreparedText) -> ModelConfig:
    vocabulary = text.vocabulary
    return replace(model, source_vocab_size=len(vocabulary.source), target_vocab_size=len(vocabulary.target))


def _initial_model(config: TrainConfig, text: PreparedText, parent: ModelFolder | None) -> ModelFolder:
    """The model before its first step: random weights, or those of the model to fine-tune."""
    torch.manual_seed(config.seed)
    report, store = text.train.report, text.train
    model = Transformer(_with_sizes(config.model, text))
    facts = {"training_pairs": report.pairs, TEXT_FACT: report.fingerprint, "seed": config.seed}
    longest = max(int(side.max()) for side in store.lengths)
    if parent is not None:
        model.load_state_dict(parent.model.state_dict())
        longest = max(longest, parent.direction.longest)
        facts["fine_tuned_from"] = {"folder": Path(config.from_).resolve().name, **parent.direction.facts}
    facts[LONGEST_FACT] = longest
    if "," in config.source + config.target:
        seen = [corpus.languages for corpus in locate_all(config.train, config.source, config.target)]
        seen += parent.direction.pairs if parent else []
        facts[PAIRS_FACT] = " ".join(dict.fromkeys(map(">".join, seen)))
    return ModelFolder(model, text.vocabulary, Direction(config.source, config.target, facts))


def _load_parent(config: TrainConfig) -> ModelFolder | None:
    if not config.from_:
        return None
    parent = ModelFolder.load(config.from_)
    own = parent.direction
    if (own.source, own.target) != (config.source, config.target):
        raise DragomanError(f"{config.from_}: translates {own.source} to {own.target}; fine-tuning keeps the languages")
    if changes := differences(parent.model.config.shape(), config.model.shape(), _VOCABULARY_SIZES):
        settings = "; ".join(changes)
        raise DragomanError(f"{config.from_}: fine-tuning keeps its shape ({settings}): leave these settings out")
    return parent


def _as_yaml(config: TrainConfig) -> bytes:
    """The resolved settings, in the form that --config reads; not what was meant for one call."""
    settings = config.lasting()
    for name in _VOCABULARY_SIZES:
        del settings["model"][name]
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    if yaml.safe_load(text) != settings:  # a few rare characters come back only if they are escaped
        text = yaml.safe_dump(settings, sort_keys=False)
    return text.encode()


def build_validate(
    config: TrainConfig, folder: ModelFolder, pairs: dict[tuple[str, str], list[Pair]], processes: Processes
) -> Validate:
    """A function that translates the validation pairs, each process some of them, and scores the translations.

    The scores of several directions are their means.
    """
    sources = [source for own in pairs.values() for source, _ in own]
    search = SearchConfig(beam=config.validation.beam, sentences="keep")

    def validate(model: Transformer, bf16: bool) -> Validation:
        translator = Translator(replace(folder, model=model), next(model.parameters()).device, bf16)
        own = [(t.text, t.subwords) for t in translator.translate(processes.shard(sources), search)]
        translations = processes.all_gather(own)
        texts = iter(translations)
        found = {
            direction: evaluate([next(texts)[0] for _ in own], [target for _, target in own], direction[1])
            for direction, own in pairs.items()
        }
        each = list(found.values())
        scores = {name: fmean(one[name] for one in each) for name in ("bleu", "chrf")}
        if len(each) > 1:
            scores |= {f"bleu {source}-{target}": one["bleu"] for (source, target), one in found.items()}
        return Validation(scores, {name: each[0][f"{name}_signature"] for name in ("bleu", "chrf")}, translations)

    return validate
