"""Minutes from raw text to 33 and to 36 BLEU, for Dragoman, Hugging Face's MarianMTModel and JoeyNMT.

    python benchmarks/time_to_quality.py DATA [--toolkits dragoman marian joeynmt] [--steps 900 1300]
                                         [--targets 33 36] [--threads N] [--lines N] [--work DIR] [--results DIR]

DATA is the folder with train, val and test_2016_flickr of Multi30k (raw, .en and .de); English to German, preset small.
A toolkit makes one run for each target. Its length is fixed beforehand, because the learning rate must come down to
zero at its end; whether the target was reached is found out afterwards, with sacreBLEU at beam 4.

Dragoman is its command `dragoman train`, timed as a whole, from its start over the subwords and the validations to its
end. The peers make the same number of steps on the same batches in the same order with the same learning rates, Adam,
clipping and label smoothing, each with its own model, first weights, loss and search: MarianMTModel in a plain PyTorch
loop under bf16 autocast, JoeyNMT with its own step in fp32, the only precision it has on a CPU. Their minutes are those
of their steps, and those that Dragoman takes to prepare the text; starting up, reading batches, saving and validation
cost them nothing, which is in their favour. JoeyNMT also drops attention weights and inner activations, and has no
option against that. Translating the test text costs nobody anything; there Dragoman has its own default length penalty
(0.6), and the peers, scored in fp32, have that of --length-penalty, by their own formulas.

Everything can be stopped at any time and goes on from there: runs and their clocks are kept in WORK/quality, and one
that has finished is not made again. What Dragoman has to repeat after a kill counts as its time. `make bench` makes the
environments. Prints tables, and stores everything in benchmarks/results/time-to-quality.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from peers.decoding_contest import LENGTH_PENALTY
from peers.protocol import Message
from peers.quality_contest import BEAM, EVALUATE, OURS, PRESET, TOOLKITS, TRAIN, QualityContest, Settings
from peers.rounds import rounded
from quality_report import HEAD, cells, title
from rich import box
from rich.console import Console
from rich.table import Table
from speed import CONSOLE, ROOT, command_line, commit, store

from dragoman.config import DragomanError

STEPS, TARGETS = (900, 1300), (33.0, 36.0)
_TOLD = ("toolkits", "steps", "targets", "threads", "lines", "length_penalty")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="folder with train, val and test_2016_flickr, .en and .de")
    parser.add_argument("--toolkits", nargs="+", choices=TOOLKITS, default=list(TOOLKITS), help="who takes part")
    parser.add_argument("--steps", nargs="+", type=int, default=list(STEPS), help="lengths of the runs (900 1300)")
    parser.add_argument("--targets", nargs="+", type=float, default=list(TARGETS), help="BLEU of each length (33 36)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of each toolkit (all cores)")
    parser.add_argument("--lines", type=int, default=0, help="lines of the test text to translate (all)")
    parser.add_argument("--length-penalty", type=float, default=LENGTH_PENALTY, help="of the peers' searches (0)")
    parser.add_argument("--work", type=Path, default=ROOT / ".bench", help="folder of environments and runs (.bench)")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="where to store results")
    options = parser.parse_args(arguments)
    if len(options.steps) != len(options.targets) or min(options.steps) < 1:
        parser.error("--steps and --targets: give as many of the one as of the other, and at least one step each")
    return options


def settings_from(options: argparse.Namespace) -> Settings:
    """The options with their paths made absolute: workers may be started elsewhere."""
    return Settings(
        data=options.data.resolve(),
        work=options.work.resolve(),
        threads=options.threads,
        lines=options.lines,
        length_penalty=options.length_penalty,
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )


def compare(contest: QualityContest, toolkits: list[str], steps: int, target: float) -> Message:
    """All runs of one length: the rows by toolkit, of those that finished."""
    rows = {name: row for name in toolkits if (row := contest.run(name, steps)) is not None}
    for row in rows.values():
        row["reached"] = row["bleu"] >= target
        if OURS in rows:
            row["times_dragoman"] = rounded(row["minutes"] / rows[OURS]["minutes"])
    return {"steps": steps, "target": target, "toolkits": rows}


def show(found: Message, console: Console = CONSOLE) -> None:
    """Print the table of one length."""
    name = title(found["steps"], found["target"])
    table = Table(title=name, title_justify="left", min_width=len(name), box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(HEAD[0], no_wrap=True)
    for heading in HEAD[1:]:
        table.add_column(heading, justify="right")
    for toolkit, row in found["toolkits"].items():
        table.add_row(*cells(row, toolkit, found["target"]))
    console.print(table)


def store_all(options: argparse.Namespace, tree: str, contest: QualityContest, found: list[Message]) -> None:
    """Write the results file; tree is the commit when the runs of this call began.

    What the file has of runs of other lengths stays: a toolkit that learns slowly can have longer ones.
    """
    path = options.results / "time-to-quality.json"
    settings = {"threads": options.threads, "preset": PRESET, "beam": BEAM, "length_penalty": options.length_penalty}
    commands = [command_line("time_to_quality.py", options, parse(["DATA"]), _TOLD)]
    versions = contest.versions
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        lengths = {one["steps"] for one in found}
        kept = [one for one in before["result"]["minutes to BLEU"] if one["steps"] not in lengths]
        found = sorted([*kept, *found], key=lambda one: one["steps"])
        if kept:
            commands = list(dict.fromkeys([*before["commands"], *commands]))
            versions = before["versions"] | versions
    content = {
        "commands": commands,
        "commit": tree,
        "settings": settings | {"train": f"dragoman {TRAIN}", "evaluate": f"dragoman {EVALUATE}"},
        "result": {
            "minutes to BLEU": found,
            "test lines": contest.test_lines,
            "preparation seconds": rounded(contest.preparation_seconds),
        },
    }
    store(path, content, versions)


def main(arguments: list[str]) -> int:
    """Compare, print, store."""
    options, tree = parse(arguments), commit()
    found: list[Message] = []
    try:
        contest = QualityContest(settings_from(options))
        for steps, target in zip(options.steps, options.targets, strict=True):
            found.append(compare(contest, options.toolkits, steps, target))
            show(found[-1])
            store_all(options, tree, contest, found)
    except DragomanError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
