"""What fine-tuning brings, English to French: everyday sentences first (Tatoeba), then a few captions (Multi30k).

    python benchmarks/fine_tuning.py FRA.TXT MULTI30K OUT [STEPS]

FRA.TXT is Tatoeba as ManyThings ships it; MULTI30K holds train, val and test_2016_flickr, .en.gz and .fr.gz. Trains
the small preset on Tatoeba (2,000 steps), fine-tunes it on the first 2,000 captions (an eighth of that), and evaluates
both on test_2016_flickr and on what was held out of Tatoeba. Stores benchmarks/results/fine-tuning-en-fr.json.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

from hardware import describe_hardware

RESULT = Path(__file__).parent / "results" / "fine-tuning-en-fr.json"
CAPTIONS = 2000
GENERAL = (
    "train --source en --target fr --train fra.txt --out general --preset small "
    "--model.embedding-gain 1 --model.init-gain 1 --optimizer.batch-tokens 3072 --max-steps {steps} "
    "--optimizer.schedule linear --validation.every 1000 --validation.max-lines 500"
)
TUNED = (
    "train --source en --target fr --train captions --valid val --test test_2016_flickr --out tuned --from general "
    "--max-steps {eighth} --optimizer.batch-tokens 3072 --validation.max-lines 500"
)
EVALUATE = "evaluate {model} --test {text} --json {model}.{text}.json"
EVALUATED = [(model, text) for text in ("test_2016_flickr", "everyday") for model in ("general", "tuned")]


def gather(data: str, captions: str, out: Path) -> None:
    """Put the texts where the commands look for them."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "fra.txt").write_bytes(Path(data).read_bytes())
    for language in ("en", "fr"):
        lines = {}
        for name in ("train", "val", "test_2016_flickr"):
            with gzip.open(f"{captions}/{name}.{language}.gz", "rt", encoding="utf-8") as file:
                lines[name] = file.read().split("\n")
        lines["captions"] = [*lines.pop("train")[:CAPTIONS], ""]
        for name, content in lines.items():
            (out / f"{name}.{language}").write_text("\n".join(content), encoding="utf-8")


def run(command: str, out: Path) -> None:
    """Run one of Dragoman's verbs."""
    print(f"dragoman {command}", flush=True)
    subprocess.run([sys.executable, "-m", "dragoman", *command.split()], check=True, cwd=out)


def main() -> None:
    """Train, fine-tune, evaluate, print, store."""
    data, captions, place, *rest = sys.argv[1:]
    out, steps = Path(place), int(rest[0]) if rest else 2000
    gather(data, captions, out)
    training = [command.format(steps=steps, eighth=steps // 8) for command in (GENERAL, TUNED)]
    for command in training:
        run(command, out)
    for language in ("en", "fr"):
        held_out = (out / "general" / f"heldout.{language}").read_bytes()
        (out / f"everyday.{language}").write_bytes(held_out)
    evaluating = [EVALUATE.format(model=model, text=text) for model, text in EVALUATED]
    result = {}
    for command, (model, text) in zip(evaluating, EVALUATED, strict=True):
        run(command, out)
        result[f"{model}, {text}"] = json.loads((out / f"{model}.{text}.json").read_text(encoding="utf-8"))["scores"]
    commands = [f"python benchmarks/fine_tuning.py FRA.TXT MULTI30K OUT {steps}  # runs:"]
    commands += [f"dragoman {command}" for command in (*training, *evaluating)]
    content = {"commands": commands, "hardware": describe_hardware(), "result": result}
    print(json.dumps(content, indent=1))
    RESULT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
