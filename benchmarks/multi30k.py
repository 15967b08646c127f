"""How good a translator is after a quarter of an hour: Multi30k, English to German, preset small.

    python benchmarks/multi30k.py DATA OUT

DATA is the folder with train, val and test_2016_flickr of the raw text (github.com/multi30k/dataset, task 1), .en and
.de, plain or gzipped. Trains for 15 minutes into OUT (an interrupted run continues), scores test_2016_flickr at beam 4,
and stores commands, hardware and scores in benchmarks/results/multi30k-en-de-small.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hardware import describe_hardware

RESULT = Path(__file__).parent / "results" / "multi30k-en-de-small.json"
TRAIN = (
    "train --source en --target de --train {data}/train --valid {data}/val --out {out} "
    "--preset small --model.embedding-gain 1 --max-minutes 15 --optimizer.schedule linear --validation.every 500"
)
EVALUATE = "evaluate {out} --test {data}/test_2016_flickr --beam 4 --json {out}/test_2016_flickr.json"


def main() -> None:
    """Train, evaluate, print, store."""
    data, out = sys.argv[1:]
    for command in (TRAIN, EVALUATE):
        words = command.format(data=data, out=out).split()
        subprocess.run([sys.executable, "-m", "dragoman", *words], check=True)
    evaluation = json.loads((Path(out) / "test_2016_flickr.json").read_text(encoding="utf-8"))
    facts = evaluation["model"]
    result = {
        "test_2016_flickr": evaluation["scores"],
        "beam": evaluation["settings"]["beam"],
        "length_penalty": evaluation["settings"]["length_penalty"],
    } | {key: facts[key] for key in ("steps", "minutes", "precision", "seed", "validation")}
    commands = [f"dragoman {command.format(data='DATA', out='OUT')}" for command in (TRAIN, EVALUATE)]
    content = {"commands": commands, "hardware": describe_hardware(), "result": result}
    print(json.dumps(content, indent=1))
    RESULT.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
