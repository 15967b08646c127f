"""`dragoman demo`: the whole path on the phrasebook that the package ships, in a few minutes on a laptop."""

from dataclasses import replace
from pathlib import Path

from dragoman.cli.options import DemoConfig
from dragoman.config import OptimizerConfig, TextConfig, TrainConfig, ValidationConfig, model_preset
from dragoman.datasets.phrasebook import write_phrasebook
from dragoman.evaluation.scores import evaluate
from dragoman.inference.translator import Translator
from dragoman.runtime.console import command, say
from dragoman.text.corpus import read_pairs
from dragoman.train import run_training

_PARTS = {
    "test": "new combinations of the phrases in the training text",
    "everyday": "everyday sentences written only for testing",
}


def demo(config: DemoConfig) -> int:
    """Write the phrasebook, train on it, score unseen sentences, translate some; returns the exit code."""
    phrasebook, model = Path(config.out, "phrasebook"), Path(config.out, "en-fr")
    if not (phrasebook / "everyday.fr").is_file():  # the last file to be written
        write_phrasebook(phrasebook)
    training = demo_training(phrasebook, model)
    outcome = run_training(training)
    if outcome.reason == "interrupted":
        say(f"stopped after step {outcome.progress.step:,}; the same command resumes the run")
        return 128 + outcome.signal
    if outcome.progress.step < training.max_steps:
        steps = f"{outcome.progress.step:,} of {training.max_steps:,} steps"
        say(f"the time was enough for {steps}; a faster machine, or an idle one, translates better")
    translator = Translator.load(model, "auto")
    for part, what in _PARTS.items():
        pairs = list(read_pairs([str(phrasebook / part)], "en", "fr"))
        translations = list(translator.translate([source for source, _ in pairs]))
        scores = evaluate([translation.text for translation in translations], [target for _, target in pairs], "fr")
        print(f"BLEU {scores['bleu']:.1f} on {len(pairs):,} {what}")
    print(f"({scores['bleu_signature']}). Some of the latter:\n")
    for (source, _), translation in zip(pairs[:8], translations, strict=False):
        print(f"  {source}\n    → {translation.text}")
    print(f"\nYour turn:\n\n  echo 'Where is the station?' | {command('translate', model)}")
    return 0


def demo_training(phrasebook: Path, model: Path) -> TrainConfig:
    """The training run of the demo; reads well as an example of a run set up in Python."""
    tiny = model_preset("tiny")
    return TrainConfig(
        source="en",
        target="fr",
        train=[str(phrasebook / "train")],
        valid=[str(phrasebook / "valid")],
        out=str(model),
        preset="tiny",
        max_steps=3300,
        max_minutes=4.4,
        model=replace(tiny, d_model=192, d_ff=768, num_encoder_layers=2, num_decoder_layers=2, dropout=0.0),
        text=TextConfig(vocab_size=8000, placeholders=0.0),
        optimizer=OptimizerConfig(schedule="linear", peak_lr=3e-3, warmup_steps=150, batch_tokens=1024),
        validation=ValidationConfig(every=600, max_lines=250, keep_last=1, metric="loss"),
    )
