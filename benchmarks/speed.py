"""How fast Dragoman trains and translates, side by side with its peers.

    python benchmarks/speed.py DATA [--only training|decoding] [--sizes tiny small base] [--precisions fp32 bf16 int8]
                               [--repeats N] [--peers marian joeynmt …] [--model DIR]

DATA is the folder with train, val and test_2016_flickr of Multi30k (raw, .en and .de). Every competitor is a process of
its own that loads its model and waits; they are measured one at a time, round after round, so that whatever else
happens on the machine happens to all of them. All have the same threads, the same batches, and models of the same
shape; for decoding they have the same weights, and what they write is compared. `make bench` makes the environments
(.bench/peers, which runs this file, and .bench/joeynmt); a peer that is missing is left out. Prints tables, and stores
everything in benchmarks/results/speed-training.json and speed-decoding.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hardware import describe_hardware
from peers.decoding_contest import LENGTH_PENALTY, MODES, TEST, TRAIN, compare_decoding
from peers.protocol import Message
from peers.settings import PEERS, PRECISIONS, SIZES, Settings
from peers.text import BATCH_TOKENS, VOCABULARY
from peers.training_contest import compare_training
from rich import box
from rich.console import Console
from rich.table import Table

from dragoman.config import DragomanError

ROOT = Path(__file__).resolve().parents[1]
OWN_PACKAGES = ("numpy", "sacrebleu", "sentencepiece")
"""Those of this process whose versions are worth knowing, beside what the workers tell of theirs."""
_TRAIN = TRAIN.format(data="DATA", out="MODEL", vocabulary=VOCABULARY)
SETTINGS: dict[str, dict[str, Any]] = {
    "training": {"vocabulary": VOCABULARY, "batch_tokens": BATCH_TOKENS},
    "decoding": {"test": TEST, "length_penalty": LENGTH_PENALTY, "train": f"dragoman {_TRAIN}"},
}
"""What the results files say beside the options."""
_TOLD = ("only", "sizes", "precisions", "repeats", "peers", "threads", "batches", "lines", "model")
CONSOLE = Console(width=80, highlight=False, markup=False)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="folder with train, val and test_2016_flickr, .en and .de")
    parser.add_argument("--only", choices=("training", "decoding"), help="compare only this")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES, help="presets to train")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--repeats", type=int, default=5, help="rounds (5)")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS, help="with whom to compare")
    parser.add_argument("--model", type=Path, help="model folder to decode with (.bench/model, trained if missing)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of each competitor (all cores)")
    parser.add_argument("--batches", type=int, default=0, help="training batches of a measurement (by size)")
    parser.add_argument("--lines", type=int, default=0, help="lines of the test text to translate (all)")
    parser.add_argument("--work", type=Path, default=ROOT / ".bench", help="folder of environments and logs (.bench)")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="where to store results")
    return parser.parse_args(arguments)


def settings_from(options: argparse.Namespace) -> Settings:
    """The options with their paths made absolute: workers may be started elsewhere."""
    return Settings(
        data=options.data.resolve(),
        work=options.work.resolve(),
        model=(options.model or options.work / "model").resolve(),
        threads=options.threads,
        repeats=options.repeats,
        batches=options.batches,
        lines=options.lines,
        sizes=tuple(options.sizes),
        precisions=tuple(options.precisions),
        peers=tuple(options.peers),
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )


def commit() -> str:
    """The working tree's commit; + where it has changes beside."""

    def git(*words: str) -> str:
        found = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        return found.stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + "+" * bool(git("status", "--porcelain"))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def command_line(script: str, options: argparse.Namespace, usual: argparse.Namespace, told: Sequence[str]) -> str:
    """What to type for these options; of those named in told, the ones that are not as usual are spelt out."""
    words = [f"python benchmarks/{script} DATA"]
    for key in told:
        if (value := getattr(options, key)) != getattr(usual, key):
            values = value if isinstance(value, list) else [value]
            words.append(" ".join([f"--{key.replace('_', '-')}", *map(str, values)]))
    return " ".join(words)


def store(path: Path, content: dict[str, Any], versions: dict[str, str]) -> None:
    """Write a results file: content, and the hardware and the versions that it was measured with."""
    known = versions | {name: version(name) for name in OWN_PACKAGES}
    content = {"hardware": describe_hardware(), "versions": dict(sorted(known.items()))} | content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"stored in {path}", file=sys.stderr)


def _store(name: str, options: argparse.Namespace, tree: str, result: dict[str, Any], versions: dict[str, str]) -> None:
    content = {
        "command": command_line("speed.py", options, parse(["DATA"]), _TOLD),
        "commit": tree,  # that of the moment when the measurements began
        "settings": {"threads": options.threads, "repeats": options.repeats} | SETTINGS[name],
        "result": result,
    }
    store(options.results / f"speed-{name}.json", content, versions)


def table(title: str, unit: str, rows: dict[str, Message], more: dict[str, str]) -> Table:
    """One comparison, 80 columns wide.

    Args:
        title: above it.
        unit: of the medians.
        rows: by competitor.
        more: keys of the rows to show after the speeds, with their headings.
    """
    found = Table(
        title=title,
        title_justify="left",
        min_width=len(title),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    found.add_column("", no_wrap=True)
    for heading in (unit, "min–max", *more.values()):
        found.add_column(heading, justify="right", no_wrap=True)
    for name, row in rows.items():
        cells = [_number(row["median"]), f"{_number(row['min'])}–{_number(row['max'])}"]
        for key in more:
            form = "{:.1%}" if key == "equal_lines" else "{:.2f}"
            cells.append(form.format(row[key]) if key in row else "")
        found.add_row(name, *cells)
    return found


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def show_training(result: dict[str, Any]) -> None:
    """Print the tables of the training comparison."""
    for size, by_precision in result.items():
        for precision, found in by_precision.items():
            title = f"Training {size} in {precision}, target tokens a second"
            rows = found["target_tokens_per_second"]
            CONSOLE.print(table(title, "tokens/s", rows, {"ratio": "ratio"}))
            if share := found["dragoman_share_of_machine"]:
                rates = ", ".join(f"{name} {_number(rate['median'])}" for name, rate in found["machine_gflops"].items())
                CONSOLE.print(f"Dragoman computes at {share['median']:.1%} of the machine's rate ({rates} GFLOP/s).\n")


def show_decoding(result: dict[str, Any]) -> None:
    """Print the tables of the decoding comparison."""
    more = {"ratio_fp32": "×fp32", "ratio_int8": "×int8", "bleu": "BLEU", "equal_lines": "equal"}
    for mode, asked in MODES.items():
        unit = "ms" if asked["each"] else "lines/s"
        what = "milliseconds a sentence" if asked["each"] else "sentences a second"
        CONSOLE.print(table(f"Decoding, {mode}, {what}", unit, result[mode], more))
    CONSOLE.print("×fp32, ×int8: how many times as fast Dragoman is. equal: lines as Dragoman's fp32.")


def main(arguments: list[str]) -> int:
    """Compare, print, store."""
    options, tree = parse(arguments), commit()
    settings = settings_from(options)
    try:
        if options.only != "decoding":
            result, versions = compare_training(settings)
            show_training(result)
            _store("training", options, tree, result, versions)
        if options.only != "training":
            result, versions = compare_decoding(settings)
            show_decoding(result)
            _store("decoding", options, tree, result, versions)
    except DragomanError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
