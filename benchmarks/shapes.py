"""Small models that train for equally long, or longer: scores, and speed of translation.

    python benchmarks/shapes.py {multi30k,tatoeba} DATA WORK [--shapes small=2000 fast=6000 …] [--seeds 1 2]

Trains each kind for its number of steps, and translates the test text with each in CTranslate2's int8, as `translate`
does, in turn; `train --dry-run`, in turn as well, says how long the steps take. WORK keeps all models: what was stopped
goes on from there. Stores scores and speeds, medians of several rounds, in benchmarks/results/shapes-TEXT.json.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from augmentation import Work
from ensembles import sentences_per_second
from hardware import describe_hardware
from quality_report import shapes_table

RESULTS = Path(__file__).parent / "results"
SHAPES = {
    "small": "--preset small",
    "small-3072": "--preset small --optimizer.batch-tokens 3072 --validation.every 500",
    "3+1-3072": "--preset small --optimizer.batch-tokens 3072 --validation.every 500 --model.num-decoder-layers 1",
    "fast": "--preset fast",
    "fast-long": "--preset fast",
    "fast-3072": "--preset fast --optimizer.batch-tokens 3072 --validation.every 500",
}
TEXTS = {
    "multi30k": ("en", "de", "train", "val", "test_2016_flickr"),
    "tatoeba": ("en", "fr", "tatoeba-en-fr-train", "tatoeba-en-fr-valid", "tatoeba-en-fr-test"),
}
TRAIN = (
    "train --source {source} --target {target} --train data/{train} --valid data/{valid} --out {out} {shape} "
    "--max-steps {steps} --optimizer.schedule linear --seed {seed}"
)
EVALUATE = "evaluate {out} --test data/{test} --json {out}.json"
ROUNDS = 3


def minutes(work: Work, commands: dict[str, str]) -> dict[str, float]:
    """How long each shape trains, by the dry runs of its command."""
    found: dict[str, list[float]] = {shape: [] for shape in commands}
    for _ in range(ROUNDS):
        for shape, command in commands.items():
            words = [sys.executable, "-m", "dragoman", *command.split(), "--dry-run"]
            said = subprocess.run(words, check=True, cwd=work.folder, capture_output=True, text=True).stdout
            (seconds,) = re.findall(r"^speed: ([\d.]+) seconds per step", said, re.M)
            (steps,) = re.findall(r"--max-steps (\d+)", command)
            found[shape].append(int(steps) * float(seconds) / 60)
    return {shape: round(median(all_rounds), 1) for shape, all_rounds in found.items()}


def main() -> None:
    """Train, evaluate, time, print, store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("text", choices=TEXTS)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--shapes", nargs="+", default=["small=2000", "fast=6000"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if not (options.work / "data").exists():
        (options.work / "data").symlink_to(options.data.resolve())
    work, result, training = Work(options.work), dict[str, dict[str, Any]](), dict[str, str]()
    texts = dict(zip(("source", "target", "train", "valid", "test"), TEXTS[options.text], strict=True))
    for shape, steps in (given.split("=") for given in options.shapes):
        scores = {}
        for seed in options.seeds:
            out = f"{shape}-{seed}"
            words = TRAIN.format(out=out, steps=steps, seed=seed, shape=SHAPES[shape], **texts)
            training.setdefault(shape, words.replace(out, f"{out}-dry"))
            work.run(words, made=f"{out}.json")
            work.run(EVALUATE.format(out=out, **texts), made=f"{out}.json")
            found = json.loads((work.folder / f"{out}.json").read_text(encoding="utf-8"))
            scores[str(seed)] = {name: found["scores"][name] for name in ("bleu", "chrf")}
        result[shape] = {"scores": scores, "steps": int(steps), "settings": SHAPES[shape]}
    source, shapes = f"data/{texts['test']}.{texts['source']}", {f"{one}-{options.seeds[0]}": one for one in result}
    for model, speed in sentences_per_second(work, list(shapes), source).items():
        result[shapes[model]]["sentences_per_second"] = speed
    for shape, took in minutes(work, training).items():
        result[shape]["minutes"] = took
    commands = [" ".join(["python benchmarks/shapes.py", options.text, "DATA WORK", *sys.argv[4:], " # runs:"])]
    content = {"commands": commands + work.commands, "hardware": describe_hardware(), "shapes": True, "result": result}
    print(shapes_table(content))
    path = RESULTS / f"shapes-{options.text}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
