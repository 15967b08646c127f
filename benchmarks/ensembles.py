"""What several models gain, and what a small one learns from them: Multi30k, English to German.

    python benchmarks/ensembles.py MULTI30K WORK [--preset small] [--seeds 1 2 3] [--train='--max-minutes 15']
                                   [--student='--max-steps 6000'] [--student-seeds 1 2] [--alone]

Trains a preset with each seed and these options, and scores each model and their ensemble. With --student, the ensemble
translates the source side of the training text; preset fast, which has a third of the weights of small, learns with
these options from the text and these translations, and with --alone another model from the text alone; and the speeds
of teacher and student in CTranslate2's int8 are measured, in turn. WORK keeps all models: what was stopped goes on from
there. Stores all in benchmarks/results/ensembles-PRESET.json, or with a student in distillation-PRESET.json.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

from augmentation import Work
from hardware import describe_hardware

from dragoman.evaluation.report import spread, spread_in_words
from dragoman.inference.translator import Translator

RESULTS = Path(__file__).parent / "results"
TRAIN = (
    "train --source en --target de --train {texts} --valid data/val --out {out} --preset {preset} {options} "
    "--validation.every 500 --seed {seed}"
)
EVALUATE = "evaluate {model} --test data/test_2016_flickr --json {out}.json"
AUGMENT = "augment {model} --text data/train.en --out taught --forward --tag= --beam 1"
ROUNDS = 5


def score(work: Work, model: str, out: str, *more: str) -> dict[str, Any]:
    """The evaluation of a model, or an ensemble, on the test text."""
    work.run(EVALUATE.format(model=model, out=out), *more, made=f"{out}.json")
    return json.loads((work.folder / f"{out}.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def bleu(*runs: dict[str, Any]) -> str:
    """BLEU of one run, or of several in the mean."""
    return spread_in_words(spread(runs, "bleu"))


def sentences_per_second(work: Work, models: list[str], text: str = "data/test_2016_flickr.en") -> dict[str, float]:
    """Speed of each model on a test text with a beam of 4, medians of several rounds in turn."""
    lines = (work.folder / text).read_text(encoding="utf-8").splitlines()
    translators = {model: Translator.load(work.folder / model) for model in models}
    seconds: dict[str, list[float]] = {model: [] for model in models}
    for _ in range(1 + ROUNDS):
        for model, translator in translators.items():
            start = time.perf_counter()
            translator.translate(lines)
            seconds[model].append(time.perf_counter() - start)
    return {model: round(len(lines) / median(times[1:]), 1) for model, times in seconds.items()}


def main() -> None:
    """Train, translate, evaluate, print, store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--preset", choices=("small", "fast"), default="small")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--train", default="--max-minutes 15")
    parser.add_argument("--student", default="")
    parser.add_argument("--student-seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--alone", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if not (options.work / "data").exists():
        (options.work / "data").symlink_to(options.data.resolve())
    work, singles = Work(options.work), list[dict[str, Any]]()
    for seed in options.seeds:
        settings = {"texts": "data/train", "preset": options.preset, "options": options.train, "seed": seed}
        work.run(TRAIN.format(out=f"single-{seed}", **settings), made=f"single-{seed}.json")
        singles.append(score(work, f"single-{seed}", f"single-{seed}"))
    first, *others = (f"single-{seed}" for seed in options.seeds)
    together = score(work, first, "ensemble", "--ensemble", *others)
    result: dict[str, Any] = {"BLEU of single models": bleu(*singles), "BLEU of their ensemble": bleu(together)}
    if options.student:
        work.run(AUGMENT.format(model=first), "--ensemble", *others, made="taught.de")
        for name, texts in (("student", "data/train taught"), ("alone", "data/train"))[: 1 + options.alone]:
            runs = []
            for seed in options.student_seeds:
                out, settings = f"{name}-{seed}", {"preset": "fast", "options": options.student, "seed": seed}
                work.run(TRAIN.format(out=out, texts=texts, **settings))
                runs.append(score(work, out, out))
            result[f"BLEU of the small model, {name}"] = bleu(*runs)
        for model, speed in sentences_per_second(work, [first, f"student-{options.student_seeds[0]}"]).items():
            result[f"sentences per second, {model}, int8, beam 4"] = speed
    given = f"--preset {options.preset} --seeds {' '.join(map(str, options.seeds))} --train='{options.train}'"
    if options.student:
        given += f" --student='{options.student}' --student-seeds {' '.join(map(str, options.student_seeds))}"
        given += " --alone" * options.alone
    commands = [f"python benchmarks/ensembles.py MULTI30K WORK {given}  # runs:", *dict.fromkeys(work.commands)]
    content = {"commands": commands, "hardware": describe_hardware(), "result": result}
    print(json.dumps(content, indent=1, ensure_ascii=False))
    kind = "distillation" if options.student else "ensembles"
    result_file = RESULTS / f"{kind}-{options.preset}.json"
    result_file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
