"""How good a translator is after a quarter of an hour: Multi30k, English to German, preset small.

    python benchmarks/multi30k.py DATA OUT [--seeds 1 2 3]

DATA is the folder with train, val and test_2016_flickr of the raw text (github.com/multi30k/dataset, task 1), .en and
.de, plain or gzipped. Trains for 15 minutes with each seed into OUT/SEED (an interrupted run continues), scores
test_2016_flickr, and stores commands, hardware and scores in benchmarks/results/multi30k-en-de-small.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from hardware import describe_hardware

from dragoman.evaluation.report import spread, spread_in_words
from dragoman.evaluation.scores import METRICS

RESULT = Path(__file__).parent / "results" / "multi30k-en-de-small.json"
TRAIN = (
    "train --source en --target de --train {data}/train --valid {data}/val --out {out} "
    "--preset small --max-minutes 15 --validation.every 500 --seed {seed}"
)
EVALUATE = "evaluate {out} --test {data}/test_2016_flickr --json {out}/test_2016_flickr.json"


def main() -> None:
    """Train, evaluate, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    options = parser.parse_args()
    runs = []
    for seed in options.seeds:
        out = options.out / str(seed)
        for command in (TRAIN, EVALUATE):
            words = command.format(data=options.data, out=out, seed=seed).split()
            subprocess.run([sys.executable, "-m", "dragoman", *words], check=True)
        runs.append(json.loads((out / "test_2016_flickr.json").read_text(encoding="utf-8")))
    names = {name: f"{METRICS[name]} on test_2016_flickr" for name in ("bleu", "chrf", "chrfpp")}
    result = {words: spread_in_words(spread(runs, name)) for name, words in names.items()}
    for run in runs:
        each = " / ".join(f"{run['scores'][name]:.2f}" for name in names)
        result[f"seed {run['model']['seed']}"] = f"{each}, {run['model']['steps']:,} steps"
    commands = [f"dragoman {command.format(data='DATA', out='OUT/SEED', seed='SEED')}" for command in (TRAIN, EVALUATE)]
    call = f"python benchmarks/multi30k.py DATA OUT --seeds {' '.join(map(str, options.seeds))}  # runs:"
    content = {"commands": [call, *commands], "hardware": describe_hardware(), "result": result}
    print(json.dumps(content, indent=1, ensure_ascii=False))
    RESULT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
