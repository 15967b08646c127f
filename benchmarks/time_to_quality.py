"""Minutes from raw text, and quality after equally many steps: Dragoman beside Hugging Face's MarianMTModel.

    python benchmarks/time_to_quality.py DATA [--steps 900] [--seeds 1 2 3] [--threads N] [--lines N] [--work DIR]
                                         [--results DIR]

DATA is the folder with train, val and test_2016_flickr of Multi30k (raw, .en and .de); English to German, preset small.
The number of steps is fixed beforehand, because the learning rate must come down to zero at the end.

Dragoman is its command `dragoman train`, timed as a whole, from its start over the subwords and the validations to its
end. MarianMTModel makes the same number of steps on the same batches in the same order with the same learning rates,
Adam, clipping and label smoothing, in a plain PyTorch loop under bf16 autocast, with its own first weights, loss and
search. Its minutes are those of its steps, and those that Dragoman takes to prepare the text; starting up, reading
batches, saving and validation cost it nothing, which is in its favour. Translating the test text costs nobody anything;
both search in fp32 with a beam of 4 and without length penalty.

Everything can be stopped at any time and goes on from there: runs and their clocks are kept in WORK/quality, and one
that has finished is not made again. What Dragoman has to repeat after a kill counts as its time. `make bench` makes the
environment. Prints a table, and stores everything in benchmarks/results/time-to-quality.json.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from peers.protocol import Message
from peers.quality_contest import BEAM, EVALUATE, LENGTH_PENALTY, PRESET, TOOLKITS, TRAIN, QualityContest, Settings
from peers.rounds import rounded
from quality_report import HEAD, cells
from rich import box
from rich.table import Table
from speed import CONSOLE, ROOT, command_line, commit, store

from dragoman.config import DragomanError

_TOLD = ("steps", "seeds", "threads", "lines")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="folder with train, val and test_2016_flickr, .en and .de")
    parser.add_argument("--steps", type=int, default=900, help="of each run (900)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="of the runs (1 2 3)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of each toolkit (all cores)")
    parser.add_argument("--lines", type=int, default=0, help="lines of the test text to translate (all)")
    parser.add_argument("--work", type=Path, default=ROOT / ".bench", help="folder of environments and runs (.bench)")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="where to store results")
    return parser.parse_args(arguments)


def settings_from(options: argparse.Namespace) -> Settings:
    """The options with their paths made absolute: workers may be started elsewhere."""
    return Settings(
        data=options.data.resolve(),
        work=options.work.resolve(),
        threads=options.threads,
        lines=options.lines,
        report=lambda line: print(line, file=sys.stderr, flush=True),
    )


def show(found: Message) -> None:
    """Print the table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(HEAD[0], no_wrap=True)
    for heading in HEAD[1:]:
        table.add_column(heading, justify="right")
    for toolkit in found:
        table.add_row(*cells(toolkit, found))
    CONSOLE.print(table)


def main(arguments: list[str]) -> int:
    """Compare, print, store."""
    options, tree = parse(arguments), commit()
    found: Message = {toolkit: {} for toolkit in TOOLKITS}
    try:
        contest = QualityContest(settings_from(options))
        for seed in options.seeds:
            for toolkit, runs in found.items():
                runs[str(seed)] = contest.run(toolkit, options.steps, seed)
    except DragomanError as error:
        print(error, file=sys.stderr)
        return 1
    show(found)
    settings = {"threads": options.threads, "preset": PRESET, "beam": BEAM, "length_penalty": LENGTH_PENALTY}
    content = {
        "command": command_line("time_to_quality.py", options, parse(["DATA"]), _TOLD),
        "commit": tree,
        "settings": settings | {"train": f"dragoman {TRAIN}", "evaluate": f"dragoman {EVALUATE}"},
        "result": {
            "steps": options.steps,
            "toolkits": found,
            "test lines": contest.test_lines,
            "preparation seconds": rounded(contest.preparation_seconds),
        },
    }
    store(options.results / "time-to-quality.json", content, contest.versions)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
