"""The verb `train`: from parallel text to a model folder. Here training meets inference."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
import yaml

from dragoman.checkpoint import (
    CHECKPOINTS,
    LONGEST_FACT,
    LONGEST_UNKNOWN,
    RUN_FILE,
    TEXT_FACT,
    WEIGHTS_FILE,
    Direction,
    ModelFolder,
    remove_run,
)
from dragoman.config import (
    SETTINGS_OF_ONE_CALL,
    ConfigError,
    DragomanError,
    ModelConfig,
    SearchConfig,
    TrainConfig,
    differences,
)
from dragoman.corpus_check.cleaning import clean_text
from dragoman.evaluation.scores import evaluate
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.runtime.console import Report, say
from dragoman.runtime.device import choose_device
from dragoman.runtime.files import make_folder, write_atomically
from dragoman.text.corpus import Pair
from dragoman.text.preprocess import PreparedText, prepare_text
from dragoman.training.distributed import Processes, joined_processes
from dragoman.training.dry_run import Rehearsal, rehearse
from dragoman.training.ownership import refuse_strangers, refuse_to_remove_text
from dragoman.training.progress import Outcome
from dragoman.training.run_state import list_states, run_lock
from dragoman.training.trainer import Trainer
from dragoman.training.validation import Validate, Validation

_FEW, _LARGE = 300_000, 20_000_000  # pairs of sentences, parameters
_NAMES = {"bleu": "BLEU", "chrf": "chrF"}
_ENDINGS = {
    "limit": "finished",
    "patience": "finished, as nothing got better for long",
    "already finished": "had already finished",
}


def train(config: TrainConfig) -> int:
    """Train a model, or say what that would take; returns the exit code."""
    if config.dry_run:
        if os.environ.get("RANK", "0") != "0":  # torchrun's first process rehearses for all
            return 0
        print("\n".join(rehearse_training(config).lines()))
        return 0
    with joined_processes() as processes:
        say = _speaker(processes)
        try:
            outcome = run_training(config, processes)
        except (KeyboardInterrupt, SystemExit):  # the latter where SIGTERM came
            say(_stopped_at_once(config))
            raise
    if outcome.reason == "interrupted":
        again = "the same command without --restart" if config.restart else "the same command again"
        say(f"stopped after step {outcome.progress.step:,}; run {again} to continue")
        return 128 + outcome.signal
    scores = ", ".join(f"{_NAMES.get(name, name)} {value:.2f}" for name, value in outcome.scores.items())
    say(f"{_ENDINGS[outcome.reason]}: the model in {config.out} has, on the validation text, {scores}")
    if advice := _advice(config, outcome):
        say(advice)
    return 128 + outcome.signal if outcome.signal else 0


def _stopped_at_once(config: TrainConfig) -> str:
    """What to say where a signal did not wait for the end of a step."""
    if not list_states(Path(config.out)):
        return "stopped before the first step; the same command begins again"
    again = "the same command without --restart" if config.restart else "the same command"
    return f"stopped; {again} continues from the last saved state"


def _advice(config: TrainConfig, outcome: Outcome) -> str:
    """What else to know at the end of a run; empty where there is nothing."""
    progress, warm_up = outcome.progress, config.optimizer.warmup_steps
    limits = progress.reached(config)
    names = " or ".join(f"--{name.replace('_', '-')}" for name in limits)
    if limits and progress.step < warm_up:
        return (
            f"the run ended after {progress.step:,} of {warm_up:,} warm-up steps, before the learning rate had reached "
            f"its peak: raise {names}, or begin again with --restart and a lower --optimizer.warmup-steps"
        )
    if outcome.reason != "already finished":
        return ""
    raised = [f"raise {names}"] if limits else []
    if progress.out_of_patience(config):
        raised.append("raise --validation.patience and give --accept-changes")
    return f"to go on, {' and '.join(raised)}"


def run_training(config: TrainConfig, processes: Processes = Processes()) -> Outcome:  # noqa: B008 (a frozen value)
    """Prepare the text, build or take up the model, train it.

    Raises:
        DragomanError: the text or the folder can't be used, another process is using it, or training failed.
    """
    parent = _load_parent(config)
    if not processes.first:
        return _run(config, processes, parent)
    refuse_strangers(config)
    make_folder(Path(config.out))
    with run_lock(Path(config.out)):
        return _run(config, processes, parent)


def _run(config: TrainConfig, processes: Processes, parent: ModelFolder | None) -> Outcome:
    out, say = Path(config.out), _speaker(processes)
    device = processes.own(choose_device(config.device))
    begun = bool(list_states(out)) and not config.restart
    if config.restart and processes.first:
        refuse_to_remove_text(config)  # what is there goes only for a run that can begin
        remove_run(out)
    if processes.first and not list_states(out) and (out / WEIGHTS_FILE).exists():
        raise DragomanError(
            f"{out}: has a model, but no state to continue from ({CHECKPOINTS} is gone or empty); choose another "
            f"--out, or begin again with --restart"
        )
    vocabulary = parent.vocabulary if parent else None
    text = processes.first_then_all(lambda: prepare_text(config, clean_text, say, vocabulary, begun))
    folder = _begin_with(config, text, None if begun else parent)  # the parent may have gone on learning since
    folder.model.to(device)
    if _is_too_large(config, folder.model.num_parameters, text.train.report.pairs) and not begun:
        say(
            f"{text.train.report.pairs:,} pairs are few for a model of {folder.model.num_parameters:,} parameters: "
            f"--preset small learns faster, and probably more"
        )
    trainer = Trainer(config, folder, text, build_validate(config, folder, text.valid_pairs, processes), processes)
    if outcome := trainer.finished():
        return outcome
    if processes.first:
        write_atomically(out / RUN_FILE, _as_yaml(config))
    return trainer.run()


def _is_too_large(config: TrainConfig, parameters: int, pairs: int) -> bool:
    """Whether a run begins with one of the paper's models and a text that is far too short for it."""
    return not config.from_ and config.preset in ("base", "big") and pairs < _FEW and parameters > _LARGE


def rehearse_training(config: TrainConfig) -> Rehearsal:
    """Prepare the text of a run, which keeps it for later, and find out what training would take.

    Raises:
        ConfigError: the folder holds a run, which was to be thrown away.
        DragomanError: the text or the folder can't be used, or memory is too short for a single sentence.
    """
    refuse_strangers(config)
    parent = _load_parent(config)
    begun = bool(list_states(Path(config.out)))
    if begun and config.restart:
        raise ConfigError(f"{config.out}: holds a run, which --dry-run leaves as it is: try --restart in another --out")
    make_folder(Path(config.out))
    say = _speaker(Processes())
    with run_lock(Path(config.out)):
        text = prepare_text(config, clean_text, say, parent.vocabulary if parent else None, begun)
        return rehearse(config, _sized(config.model, text), text.train, choose_device(config.device), say)


def _sized(model: ModelConfig, text: PreparedText) -> ModelConfig:
    """The shape of a model for the subwords of a text."""
    vocabulary = text.vocabulary
    return replace(model, source_vocab_size=len(vocabulary.source), target_vocab_size=len(vocabulary.target))


def _begin_with(config: TrainConfig, text: PreparedText, parent: ModelFolder | None) -> ModelFolder:
    """The model before its first step: random weights, or those of the model to fine-tune."""
    torch.manual_seed(config.seed)
    report, store = text.train.report, text.train
    model = Transformer(_sized(config.model, text))
    facts = {"training pairs": report.pairs, TEXT_FACT: report.fingerprint, "seed": config.seed}
    longest = int(max(store.source_lengths.max(), store.target_lengths.max()))
    if parent is not None:
        model.load_state_dict(parent.model.state_dict())
        seen = parent.direction.facts.get(LONGEST_FACT)
        longest = max(longest, seen if isinstance(seen, int) else LONGEST_UNKNOWN)
        facts["fine-tuned from"] = {"folder": Path(config.from_).resolve().name, **parent.direction.facts}
    facts[LONGEST_FACT] = longest
    return ModelFolder(model, text.vocabulary, Direction(config.source, config.target, facts))


def _load_parent(config: TrainConfig) -> ModelFolder | None:
    """The model to fine-tune, if there is to be one.

    Raises:
        DragomanError: it can't be read, or can't become the model that is asked for.
    """
    if not config.from_:
        return None
    parent = ModelFolder.load(config.from_)
    direction = parent.direction
    if (direction.source, direction.target) != (config.source, config.target):
        raise DragomanError(
            f"{config.from_}: translates {direction.source} to {direction.target}, not {config.source} to "
            f"{config.target}; fine-tuning keeps the languages"
        )
    own = _without_sizes(parent.model.config)
    if changes := differences(own, _without_sizes(config.model)):
        raise DragomanError(
            f"{config.from_}: fine-tuning keeps the model's shape ({'; '.join(changes)}): leave these settings out"
        )
    return parent


def _without_sizes(model: ModelConfig) -> dict[str, object]:
    return {name: value for name, value in model.shape().items() if not name.endswith("vocab_size")}


def _as_yaml(config: TrainConfig) -> bytes:
    """The resolved settings, in the form that --config reads; not what was meant for one call."""
    settings = {name.rstrip("_"): value for name, value in asdict(config).items()}
    for once in SETTINGS_OF_ONE_CALL:
        del settings[once]
    for found_out in ("source_vocab_size", "target_vocab_size"):
        del settings["model"][found_out]
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    if yaml.safe_load(text) != settings:  # a few rare characters come back only if they are escaped
        text = yaml.safe_dump(settings, sort_keys=False)
    return text.encode()


def build_validate(
    config: TrainConfig,
    folder: ModelFolder,
    pairs: Sequence[Pair],
    processes: Processes = Processes(),  # noqa: B008 (a frozen value)
) -> Validate:
    """A function that translates the validation pairs, each process some of them, and scores the translations."""
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    reference_ids = folder.vocabulary.target.encode(references)
    search = SearchConfig(beam=config.validation.beam)

    def validate(model: Transformer, bf16: bool) -> Validation:
        translator = Translator(replace(folder, model=model), next(model.parameters()).device, bf16)
        own = [(t.text, t.subwords) for t in translator.translate(processes.share(sources), search)]
        translations = processes.collect(own)
        texts = [text for text, _ in translations]
        scores = evaluate(texts, references, config.target)
        return Validation(
            {"bleu": scores.bleu, "chrf": scores.chrf},
            {"bleu": scores.bleu_signature, "chrf": scores.chrf_signature},
            sources,
            references,
            texts,
            reference_ids,
            [subwords for _, subwords in translations],
        )

    return validate


def _speaker(processes: Processes) -> Report:
    """Prints lines for people, from one process."""
    return say if processes.first else lambda line: None
