"""Settings for small texts: one or two changes at a time, judged on the validation text alone.

    python benchmarks/ablation.py DATA [--only NAME ...] [--steps N] [--seed N] [--at-once N] [--work DIR]

DATA is the folder with train and val of Multi30k (raw, .en and .de); English to German, preset small. Each variant is
trained for the same number of steps and scored on val at beam 5; the test text is not used. Some runs are made at the
same time, with one thread each. Interrupted runs resume; minutes are of processor time. For some variants the search's
length penalty is also varied. Prints the table, and stores all finished results in benchmarks/results/ablation.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from hardware import describe_hardware

ROOT = Path(__file__).resolve().parents[1]
BASE = (
    "--preset small --optimizer.batch-tokens 3072 --optimizer.schedule linear --validation.every 500 "
    "--validation.patience 0"
)
VARIANTS = {
    "unchanged": "",
    "R-Drop 1": "--optimizer.r-drop 1",
    "R-Drop 1, dropout 0.25": "--optimizer.r-drop 1 --model.dropout 0.25",
    "R-Drop 5": "--optimizer.r-drop 5",
    "4,000 subwords": "--text.vocab-size 4000",
    "12,000 subwords": "--text.vocab-size 12000",
    "subword dropout 0.1": "--text.subword-dropout 0.1",
    "dropout 0.1": "--model.dropout 0.1",
    "dropout 0.25": "--model.dropout 0.25",
    "attention dropout 0.1": "--model.attention-dropout 0.1",
    "activation dropout 0.1": "--model.activation-dropout 0.1",
    "pre-norm": "--model.norm pre --model.init-gain 1",
    "init gain 1": "--model.init-gain 1",
    "moving average 0.999": "--optimizer.ema-decay 0.999",
    "no average of checkpoints": "--validation.keep-last 1",
    "learning rate halved": "--optimizer.peak-lr 0.001",
    "learning rate doubled": "--optimizer.peak-lr 0.004",
    "batches of 1,536": "--optimizer.batch-tokens 1536 --validation.every 1000",
    "batches of 6,144": "--optimizer.batch-tokens 6144",
    "shape of tiny": "--model.d-model 128 --model.d-ff 256 --model.num-encoder-layers 4 --model.num-decoder-layers 4",
    "width 384": "--model.d-model 384 --model.d-ff 1536 --model.num-heads 6",
    "encoder of 6 layers": "--model.num-encoder-layers 6",
    "encoder of 6 layers, pre-norm": "--model.num-encoder-layers 6 --model.norm pre --model.init-gain 1",
    "embedding gain 0.5": "--model.embedding-gain 0.5",
    "embedding gain 1": "--model.embedding-gain 1",
    "embedding gain 1, R-Drop 1": "--model.embedding-gain 1 --optimizer.r-drop 1",
    "embedding gain 1, 4,000 subwords": "--model.embedding-gain 1 --text.vocab-size 4000",
    "embedding gain 1, dropout 0.1": "--model.embedding-gain 1 --model.dropout 0.1",
    "embedding gain 1, dropout 0.25": "--model.embedding-gain 1 --model.dropout 0.25",
    "embedding gain 1, pre-norm": "--model.embedding-gain 1 --model.norm pre --model.init-gain 1",
}
SEARCHED = ("unchanged", "R-Drop 1", "R-Drop 1, dropout 0.25")
PENALTIES = (0, 0.3, 1, 1.5, 2)  # beside the usual 0.6
SEARCHES = {f"{name}, length penalty {alpha}": (name, alpha) for name in SEARCHED for alpha in PENALTIES}
_SPENT = "seconds.txt"  # of processor time, a line for each time that a run was begun or went on
RESULT = ROOT / "benchmarks" / "results" / "ablation.json"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, default=ROOT / ".bench" / "ablation", help="where the runs go")
    return parser.parse_args(arguments)


class Ablation:
    """Runs of variants, each in a folder of its own."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Take the options of the command line."""
        self.options, self.rows = options, dict[str, Any]()

    def train(self, name: str) -> None:
        """Train and score a variant, or do what is left of that."""
        options, out = self.options, self._folder(name)
        out.mkdir(parents=True, exist_ok=True)
        texts = f"--source en --target de --train {options.data}/train --valid {options.data}/val"
        limits = f"--max-steps {options.steps} --seed {options.seed} --out {out}"
        self._run(f"train {texts} {BASE} {VARIANTS[name]} {limits}", out)
        self.rows[name] = self._score(out, name, "") | {"options": VARIANTS[name]}

    def search(self, name: str) -> None:
        """Score a variant that is trained in another way."""
        variant, alpha = SEARCHES[name]
        options = f"{VARIANTS[variant]} --length-penalty {alpha}".strip()
        self.rows[name] = self._score(self._folder(variant), name, f"--length-penalty {alpha}") | {"options": options}

    def _folder(self, name: str) -> Path:
        return self.options.work / f"{_slug(name)}-{self.options.steps}-{self.options.seed}"

    def _score(self, out: Path, name: str, search: str) -> dict[str, Any]:
        scores = out / f"scores-{_slug(name)}.json"
        if not scores.is_file():
            self._run(f"evaluate {out} --test {self.options.data}/val --beam 5 {search} --json {scores}", out)
        found = json.loads(scores.read_text(encoding="utf-8"))
        print(f"{name}: BLEU {found['scores']['bleu']:.2f}", file=sys.stderr, flush=True)
        kept = {key: found["scores"][key] for key in ("bleu", "chrfpp")}
        kept |= {"signature": found["scores"]["bleu_signature"], "loss": found["model"]["validation"]["loss"]}
        minutes = sum(map(float, (out / _SPENT).read_text(encoding="utf-8").split())) / 60
        return kept | {"minutes": round(minutes, 1), "precision": found["model"]["precision"]}

    def _run(self, command: str, out: Path) -> None:
        """Run a verb; how long training took is added up, even where it ends before its time."""
        with (out / "log.txt").open("a", encoding="utf-8") as log:
            words = [sys.executable, "-m", "dragoman", *command.split()]
            verb = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})
            _, status, usage = os.wait4(verb.pid, 0)
        if command.startswith("train "):
            with (out / _SPENT).open("a", encoding="utf-8") as spent:
                print(f"{usage.ru_utime + usage.ru_stime:.0f}", file=spent)
        if code := os.waitstatus_to_exitcode(status):
            raise subprocess.CalledProcessError(code, words)


def _slug(name: str) -> str:
    return name.replace(",", "").replace(" ", "-")


def store(ablation: Ablation) -> None:
    """Write what is known by now, with what was known before of runs of this kind, in the order of the lists."""
    options = ablation.options
    settings = {"train": BASE, "at once": options.at_once}
    before = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
    rows: dict[str, list[Any]] = before["result"] if before.get("ablation") == settings else {}
    run, machine = {"steps": options.steps, "seed": options.seed}, describe_hardware()
    machines = before["hardware"] if rows else []
    for name, row in ablation.rows.items():
        others = [other for other in rows.get(name, []) if not run.items() <= other.items()]
        row = run | row | {"processor": machine["processor"]}
        rows[name] = sorted([*others, row], key=lambda row: (row["steps"], row["seed"]))
    content = {
        "command": f"python benchmarks/ablation.py DATA --steps STEPS --seed SEED --at-once {options.at_once}",
        "hardware": machines if machine in machines else [*machines, machine],
        "ablation": settings,
        "result": {name: rows[name] for name in (*VARIANTS, *SEARCHES) if name in rows},
    }
    RESULT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def is_ablation(record: dict[str, Any]) -> bool:
    """Whether a results file is that of an ablation."""
    return "ablation" in record


def ablation_table(record: dict[str, Any]) -> str:
    """A row for each run, in Markdown."""
    settings, rows = record["ablation"], record["result"]
    head = ["variant", "steps", "seed", "validation BLEU", "chrF2++", "loss", "minutes", "processor", "options"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    signature = ""
    for name, runs in rows.items():
        for row in runs:
            figures = f"{row['bleu']:.2f} | {row['chrfpp']:.2f} | {row['loss']:.3f}"
            minutes = f"{row['minutes']:.0f}" if name in VARIANTS and row["minutes"] else ""
            options = row["options"] and f"`{row['options']}`"
            run = f"{row['steps']:,} | {row['seed']}"
            lines.append(f"| {name} | {run} | {figures} | {minutes} | {row['processor']} | {options} |")
            signature = row["signature"]
    common = (
        f"`{settings['train']}`; beam 5; BLEU {signature}. {settings['at once']} runs at a time, with one thread each. "
        f"Minutes are of processor time, and left out if the run was interrupted. The loss is in nats per subword and "
        f"can't be compared between different subwords."
    )
    if any(len({row["seed"] for row in runs}) > 1 for runs in rows.values()):
        common += " Rows that differ only in the seed show the effect of chance."
    else:
        common += " With one seed for each, it is unknown how much of a difference is chance."
    return f"{common}\n\n" + "\n".join(lines)


def main() -> None:
    """Train all, score all, store, print."""
    options = parse(sys.argv[1:])
    ablation = Ablation(options)
    with ThreadPoolExecutor(options.at_once) as pool:
        runs = {pool.submit(ablation.train, name): name for name in options.only}
        for run in as_completed(runs):
            if error := run.exception():
                print(f"{runs[run]}: {error}", file=sys.stderr, flush=True)
            store(ablation)
    for name, (variant, _) in SEARCHES.items():
        if variant in ablation.rows:
            ablation.search(name)
    store(ablation)
    print(ablation_table(json.loads(RESULT.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
