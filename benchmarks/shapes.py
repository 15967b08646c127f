"""How many layers of encoder and decoder: scores, and speed of translation. Multi30k, English to German.

    python benchmarks/shapes.py MULTI30K WORK [--shapes "3+3" "3+1" …] [--seeds 1 2 3] [--steps 1000]

Trains preset small with other numbers of layers, and translates the test text with each in CTranslate2's int8, as
`translate` does, in turn. WORK keeps all models: what was stopped goes on from there. Stores the scores and the speeds,
medians of several rounds, in benchmarks/results/shapes.json.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from augmentation import Work
from ensembles import sentences_per_second
from hardware import describe_hardware
from quality_report import shapes_table

RESULT = Path(__file__).parent / "results" / "shapes.json"
LAYERS = "--model.num-encoder-layers {} --model.num-decoder-layers {}"
SHAPES = {
    "3+3": "",
    "3+1": LAYERS.format(3, 1),
    "4+1": LAYERS.format(4, 1),
    "6+1-pre-norm": f"{LAYERS.format(6, 1)} --model.norm pre --model.init-gain 1",
}
TRAIN = (
    "train --source en --target de --train data/train --valid data/val --out {out} --preset small --max-steps {steps} "
    "--optimizer.schedule linear --text.placeholders 0 --seed {seed} --validation.every 250 {shape}"
)
EVALUATE = "evaluate {out} --test data/test_2016_flickr --json {out}.json"


def main() -> None:
    """Train, evaluate, time, print, store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if not (options.work / "data").exists():
        (options.work / "data").symlink_to(options.data.resolve())
    work, result = Work(options.work), dict[str, dict[str, Any]]()
    for shape in options.shapes:
        scores = {}
        for seed in options.seeds:
            out = f"{shape}-{seed}"
            words = TRAIN.format(out=out, steps=options.steps, seed=seed, shape=SHAPES[shape])
            work.run(words, made=f"{out}.json")
            work.run(EVALUATE.format(out=out), made=f"{out}.json")
            found = json.loads((work.folder / f"{out}.json").read_text(encoding="utf-8"))
            scores[str(seed)] = {name: found["scores"][name] for name in ("bleu", "chrf")}
        result[shape] = {"scores": scores}
    models = {f"{shape}-{options.seeds[0]}": shape for shape in options.shapes}
    for model, speed in sentences_per_second(work, list(models)).items():
        result[models[model]]["sentences_per_second"] = speed
    commands = [" ".join(["python benchmarks/shapes.py MULTI30K WORK", *sys.argv[3:], " # runs:"])]
    content = {"commands": commands + work.commands, "hardware": describe_hardware(), "shapes": True, "result": result}
    print(shapes_table(content))
    RESULT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
