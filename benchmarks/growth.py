"""How cost grows: decoding with the length, training with the size of the text; and how soon `translate` answers.

    python benchmarks/growth.py [--quick] [decoding] [text] [start]

decoding: a model of the preset small with random weights writes exactly 16, 32, … 256 subwords for 16 sentences of 20
at once, beam 4: milliseconds for each further subword (of all 16), by the search that Dragoman runs and, for
comparison, by the same search that computes the whole prefix at every step. A total time that grows as length^1 is
linear, length^2 quadratic.
text: `dragoman train` prepares 10,000, 100,000 and 1,000,000 pairs of synthetic text and makes one step; then the same
command is run again and trains up to step 30. Seconds of the preparation and its parts, peak memory of each of the two
runs (resident, and without what is only mapped from files), and the median seconds of the steps in the middle.
start: seconds from the start of `dragoman translate` to the translation of its first line, preset small, and, measured
in a process that does the same things one after another, which parts they consist of.

Medians of several runs in turn. Stored in benchmarks/results/growth.json, where parts not named stay as they were;
--quick takes far less of everything and stores nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from hardware import describe_hardware
from preparation import write_text
from processors import ExactLength, Work, random_ids, random_model
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from torch import Tensor

from dragoman.checkpoint import ModelFolder
from dragoman.config import PAD, SearchConfig, TextConfig, model_preset
from dragoman.folder import Direction
from dragoman.inference.engine import Engine
from dragoman.inference.rules import forbid_specials
from dragoman.inference.search import SearchState, log_sums, search
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.runtime.device import use_bf16
from dragoman.text.corpus import read_pairs
from dragoman.text.subwords import Vocabulary

RESULT = Path(__file__).parent / "results" / "growth.json"
CPU = torch.device("cpu")
AIM_SECONDS = 2.0
"""From the start of `dragoman translate` to its first translation."""
PHASES = {
    "examining the training text": "examining",
    "learning subwords": "learning subwords",
    "encoding": "encoding",
    "training text:": "",
}
"""How the lines begin that tell what `dragoman train` does next, and what that is; the last ends the preparation."""
START = """
import sys, time
marks = [time.monotonic()]
import torch
marks.append(time.monotonic())
import dragoman.cli.main, dragoman.cli.translate
from dragoman.checkpoint import ModelFolder
from dragoman.config import SearchConfig
from dragoman.inference.translator import Translator
from dragoman.runtime.device import choose_device, use_bf16
marks.append(time.monotonic())
folder = ModelFolder.load(sys.argv[1])
marks.append(time.monotonic())
device = choose_device("auto")
bf16 = use_bf16("auto", device)
marks.append(time.monotonic())
Translator(folder, device, bf16).translate([sys.argv[2]], SearchConfig(max_length=1))
marks.append(time.monotonic())
print(*marks)
"""
STAGES = ("python", "importing torch", "importing dragoman", "loading the model", "choosing the precision", "line 1")


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    work: Work = Work(sentences=16)  # noqa: RUF009 (a frozen value)
    lengths: tuple[int, ...] = (16, 32, 64, 128, 256)
    longest_without_cache: int = 128
    pairs: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    steps: int = 30
    subwords: int = 8000
    learned_from: int = 20_000
    """Pairs that the vocabulary of the model to start is learned from."""
    repeats: int = 3
    starts: int = 5


QUICK = Size(
    work=Work("tiny", vocabulary=400, sentences=2, length=5),
    lengths=(4, 8),
    longest_without_cache=8,
    pairs=(600,),
    steps=6,
    subwords=500,
    learned_from=300,
    repeats=1,
    starts=1,
)


# ---- decoding


class Prefixes:
    """The state of a search that remembers nothing but what each hypothesis has written."""

    def __init__(self, model: Transformer, source: Tensor) -> None:
        """Begin with one hypothesis for each sentence of source (B, S), all of them searched to the end."""
        self.model, self.mask = model, padding_mask(source, PAD)
        self.memory = model.encode(source, self.mask)
        self.tokens = torch.empty(len(source), 0, dtype=torch.long)

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """Keep these hypotheses (N'), in this order; sentences: (B') or None."""
        self.tokens, self.memory, self.mask = (x[hypotheses] for x in (self.tokens, self.memory, self.mask))

    def step(self, last: Tensor, state: SearchState) -> tuple[Tensor, Tensor]:
        """Logits (N, V) of what follows when last (N) is written, and log_sums of them; computed from the beginning."""
        self.tokens = torch.cat((self.tokens, last[:, None]), dim=1)
        logits = self.model.decode(self.tokens, self.memory, self.mask)[:, -1]
        return logits, log_sums(logits)


def seconds_with_cache(engine: Engine, sources: list[list[int]], length: int) -> float:
    """Seconds to write exactly that many subwords for each source, as `translate` does it."""
    start = time.perf_counter()
    found = engine.search(sources, SearchConfig(beam=4, max_length=length), ExactLength(length))
    seconds = time.perf_counter() - start
    assert {len(hypotheses[0].tokens) for hypotheses in found} == {length}
    return seconds


@torch.inference_mode()
def seconds_without_cache(engine: Engine, sources: list[list[int]], length: int) -> float:
    """The same search where every step computes the whole prefixes."""
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=engine.autocast):
        state = Prefixes(engine.model, torch.tensor(sources))
        rules = [forbid_specials, ExactLength(length)]
        found = search(state.step, state, [length] * len(sources), SearchConfig(beam=4), rules)
    seconds = time.perf_counter() - start
    assert {len(hypotheses[0].tokens) for hypotheses in found} == {length}
    return seconds


def exponent(seconds: Mapping[int, float]) -> float:
    """p of the total time ~ length^p, between the shortest and the longest."""
    first, last = min(seconds), max(seconds)
    return math.log(seconds[last] / seconds[first]) / math.log(last / first)


def measure_decoding(size: Size, folder: Path) -> dict[str, Any]:
    """Milliseconds a subword at each length."""
    bf16 = use_bf16("auto", CPU)
    engine = Engine(random_model(size.work).eval(), CPU, bf16)
    sources = random_ids(size.work, size.work.sentences).tolist()
    short = [length for length in size.lengths if length <= size.longest_without_cache]
    ways: dict[str, tuple[Callable[..., float], Sequence[int]]] = {
        "with_cache": (seconds_with_cache, size.lengths),
        "without_cache": (seconds_without_cache, short),
    }
    times: dict[str, dict[int, list[float]]] = {way: {n: [] for n in lengths} for way, (_, lengths) in ways.items()}
    for turn in range(size.repeats + 1):  # in the first one kernels are compiled
        for way, (go, lengths) in ways.items():
            for length in lengths:
                seconds = go(engine, sources, length)
                if turn:
                    times[way][length].append(seconds)
    result: dict[str, Any] = {"precision": "bf16" if bf16 else "fp32", "sentences_at_once": len(sources), "beam": 4}
    for way, of_length in times.items():
        medians = {length: statistics.median(found) for length, found in of_length.items()}
        milliseconds = {str(length): round(1000 * seconds / length, 3) for length, seconds in medians.items()}
        result[f"milliseconds_a_subword_{way}"] = milliseconds
        result[f"total_time_grows_as_length_to_the_{way}"] = round(exponent(medians), 2)
    return result


# ---- text


class Watched:
    """A process whose memory is watched, and whose lines on stderr are kept with their times."""

    def __init__(self, command: Sequence[str]) -> None:
        """Run it to its end.

        Raises:
            RuntimeError: it failed.
        """
        self.lines: list[tuple[float, str]] = []
        """Seconds on time.monotonic's clock, and line."""
        self.resident_mib = self.own_mib = 0.0
        """Peaks: of all pages, and of those that are not just mapped from files."""
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        reader = threading.Thread(target=self._read, args=(process,))
        reader.start()
        while process.poll() is None:
            self._look(Path(f"/proc/{process.pid}/status"))
            time.sleep(0.02)
        reader.join()
        if process.returncode:
            raise RuntimeError("\n".join(line for _, line in self.lines))

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def _look(self, status: Path) -> None:
        # Not getrusage, which for a fresh process also counts what this one had when it was started.
        found = dict(re.findall(r"^(VmHWM|RssAnon):\s*(\d+) kB$", status.read_text(), flags=re.MULTILINE))
        self.resident_mib = max(self.resident_mib, int(found.get("VmHWM", 0)) / 1024)
        self.own_mib = max(self.own_mib, int(found.get("RssAnon", 0)) / 1024)


def phases(lines: Sequence[tuple[float, str]]) -> dict[str, float]:
    """Seconds of the parts of the preparation, and of all of it, by what a run said."""
    marks = [(at, name) for at, line in lines for beginning, name in PHASES.items() if line.startswith(beginning)]
    parts = {name: end - at for (at, name), (end, _) in pairwise(marks)}
    return {name: round(seconds, 2) for name, seconds in (parts | {"all": marks[-1][0] - marks[0][0]}).items()}


def step_seconds(run: Path) -> float:
    """The median time between two steps in the middle of what a run recorded last."""
    newest = max((run / "tensorboard").iterdir(), key=lambda path: path.stat().st_mtime)
    events = EventFileLoader(str(newest)).Load()
    times = [event.wall_time for event in events if any(value.tag == "train/loss" for value in event.summary.value)]
    middle = times[len(times) // 4 : -(len(times) // 4)]
    return statistics.median(after - before for before, after in pairwise(middle))


def measure_text(size: Size, folder: Path) -> dict[str, Any]:
    """Preparation, memory and speed for each number of pairs."""
    valid = folder / "valid"
    valid.mkdir()
    write_text(valid, 50)
    result: dict[str, Any] = {"preset": "tiny", "steps": size.steps}
    for pairs in size.pairs:
        place = folder / f"text-{pairs}"
        place.mkdir()
        write_text(place, pairs)
        command = [sys.executable, "-m", "dragoman", "train", "--source", "xx", "--target", "yy", "--preset", "tiny"]
        command += ["--train", str(place / "train"), "--valid", str(valid / "train"), "--out", str(place / "run")]
        command += ["--log-every", "1", "--validation.max-lines", "8", "--text.vocab-size", str(size.subwords)]
        prepared = Watched([*command, "--max-steps", "1"])
        trained = Watched([*command, "--max-steps", str(size.steps)])
        seconds = phases(prepared.lines)
        result[f"{pairs:,} pairs"] = {
            "preparation_seconds": seconds,
            "preparation_microseconds_a_pair": round(1e6 * seconds["all"] / pairs, 1),
            "peak_resident_mib_with_preparation": round(prepared.resident_mib),
            "peak_resident_mib_training": round(trained.resident_mib),
            "peak_own_mib_training": round(trained.own_mib),
            "seconds_a_step": round(step_seconds(place / "run"), 4),
        }
        print(f"{pairs:,} pairs: {json.dumps(result[f'{pairs:,} pairs'])}", file=sys.stderr, flush=True)
    return result


# ---- start


def make_model(size: Size, folder: Path) -> tuple[Path, str]:
    """A model folder of the preset small with random weights, and a line to translate."""
    text = folder / "words"
    text.mkdir()
    write_text(text, size.learned_from)
    pairs = list(read_pairs([str(text / "train")], "xx", "yy"))
    vocabulary = Vocabulary.learn(([s for s, _ in pairs], [t for _, t in pairs]), TextConfig(vocab_size=size.subwords))
    subwords = len(vocabulary.source)
    torch.manual_seed(1)
    config = replace(model_preset("small"), source_vocab_size=subwords, target_vocab_size=subwords)
    ModelFolder(Transformer(config), vocabulary, Direction("xx", "yy")).save(folder / "model")
    return folder / "model", " ".join(pairs[0][0].split(" ")[:12])


def seconds_to_first_line(model: Path, line: str) -> float:
    """Seconds from the start of the command to its first line. Random weights don't end: its length is limited."""
    command = [sys.executable, "-m", "dragoman", "translate", str(model), "--max-length", "1"]
    start = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        seconds = time.monotonic() - start
        process.stdin.close()
        if not answer or process.wait():
            raise RuntimeError("dragoman translate failed")
    return seconds


def stages(model: Path, line: str) -> list[float]:
    """Seconds of each of STAGES."""
    begun = time.monotonic()
    output = subprocess.run([sys.executable, "-c", START, str(model), line], capture_output=True, text=True, check=True)
    marks = [begun, *map(float, output.stdout.split())]
    return [after - before for before, after in pairwise(marks)]


def measure_start(size: Size, folder: Path) -> dict[str, Any]:
    """Seconds to the first translation, and of its parts; files are in the system's cache."""
    model, line = make_model(size, folder)
    totals, parts = [], []
    for turn in range(size.starts + 1):  # the first one fills the cache
        total, of_stages = seconds_to_first_line(model, line), stages(model, line)
        if turn:
            totals.append(total)
            parts.append(of_stages)
    median = statistics.median(totals)
    split = {name: round(statistics.median(of), 3) for name, *of in zip(STAGES, *parts, strict=True)}
    return {
        "seconds_to_first_translation": round(median, 3),
        "aim_seconds": AIM_SECONDS,
        "aim_met": median < AIM_SECONDS,
        "seconds_of": split,
    }


PARTS: dict[str, Callable[[Size, Path], dict[str, Any]]] = {
    "decoding": measure_decoding,
    "text": measure_text,
    "start": measure_start,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="far less of everything, nothing stored")
    options = parser.parse_args(arguments)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: choose among {', '.join(PARTS)}")
    result = json.loads(RESULT.read_text())["result"] if RESULT.is_file() and not options.quick else {}
    result["threads"] = torch.get_num_threads()
    for part in options.parts or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            result[part] = PARTS[part](QUICK if options.quick else Size(), Path(folder))
    print(json.dumps(result, indent=1))
    if not options.quick:
        command = "python benchmarks/growth.py"
        content = {"command": command, "hardware": describe_hardware(), "result": result}
        RESULT.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
