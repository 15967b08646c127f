"""Kill a training run at random moments, again and again, and compare it with one that nobody touched.

    python benchmarks/kills.py [KILLS] [SEED]

Trains a small model on the phrasebook on the CPU in fp32, saving its state all the time; sends SIGKILL at random
moments (while it starts, trains, validates, saves), starts the same command again, and so on until it has finished.
Then the losses of all steps and the weights must be, bit for bit, those of the run that nobody touched. First with one
process, then with two (torchrun; there, sometimes only one of them is killed). Stores benchmarks/results/kills.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardware import describe_hardware

from dragoman.checkpoint import read_weights
from dragoman.datasets.phrasebook import read_phrasebook
from dragoman.folder import CHECKPOINTS, METRICS_FILE, WEIGHTS_FILE, list_checkpoints
from dragoman.training.run_state import list_states

RESULT = Path(__file__).parent / "results" / "kills.json"
STEPS, PAIRS = 400, 3000
EARLY, SAVING = 0.25, 0.35  # shares of the kills that come before the run has got anywhere, and while it saves
SETTINGS = f"""
--source en --target fr --device cpu --precision fp32 --seed 7 --max-steps {STEPS} --log-every 1 --save-minutes 0.003
--text.vocab-size 500 --model.d-model 32 --model.d-ff 64 --model.num-heads 2 --model.num-encoder-layers 1
--model.num-decoder-layers 1 --model.dropout 0.1 --optimizer.batch-tokens 500 --optimizer.accumulate 2
--optimizer.warmup-steps 100 --validation.every 40 --validation.max-lines 16 --validation.patience 0
""".split()


def start(folder: Path, out: Path, processes: int) -> subprocess.Popen[bytes]:
    """Begin the run, or continue it."""
    launcher = [sys.executable, "-m"]
    if processes > 1:
        launcher += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
    command = [*launcher, "dragoman", "train", *SETTINGS, "--train", str(folder / "train"), "--valid"]
    return subprocess.Popen(
        [*command, str(folder / "valid"), "--out", str(out)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=(out.parent / "stderr").open("wb"),
    )


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill(process: subprocess.Popen[bytes], chance: random.Random) -> str:
    """End the whole run at once, or one of its processes."""
    workers = children(process.pid)
    if len(workers) > 1 and chance.random() < 0.3:
        os.kill(chance.choice(workers), signal.SIGKILL)
        process.wait(timeout=120)  # torchrun ends the others
        return "one of the processes"
    for pid in [process.pid, *workers]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    return "the whole run"


def wait_for_state(process: subprocess.Popen[bytes], out: Path) -> None:
    """Wait until the run has saved something since it was started."""
    before = list_states(out)
    while process.poll() is None and list_states(out) == before:
        time.sleep(0.002)


def wait_for_save(process: subprocess.Popen[bytes], out: Path) -> None:
    """Wait until the run is about to write its state, a checkpoint or its model."""
    places = [str(out), str(out / CHECKPOINTS)]
    while process.poll() is None and not any(n.endswith(".partial") for place in places for n in os.listdir(place)):
        pass


def outcome(out: Path) -> dict[str, Any]:
    """What a finished run left: every training loss, every validation, and the weights."""
    records = [json.loads(line) for line in (out / METRICS_FILE).read_text().split("\n") if line]
    values = [
        (record["step"], name, value)
        for record in records
        for name, value in record.items()
        if name.startswith(("train/loss", "train/grad_norm", "valid/", "health/"))
    ]
    files = {path.name: read_weights(path) for path in [out / WEIGHTS_FILE, *list_checkpoints(out)]}
    weights = {
        (file, name): hashlib.sha256(weight.numpy().tobytes()).hexdigest()
        for file, tensors in files.items()
        for name, weight in tensors.items()
    }
    return {"values": values, "weights": weights}


def survive(folder: Path, processes: int, kills: int, chance: random.Random) -> dict[str, Any]:
    """Compare a run that is killed so many times with one that is not."""
    steady, tortured = (folder / f"{name}-{processes}" / "run" for name in ("steady", "tortured"))
    for out in (steady, tortured):
        out.parent.mkdir()
    begun, process = time.monotonic(), start(folder, steady, processes)
    wait_for_state(process, steady)
    starting = time.monotonic() - begun
    if process.wait():
        raise SystemExit((steady.parent / "stderr").read_text())
    training = time.monotonic() - begun - starting
    whom: dict[str, int] = {}
    saving = early = 0
    for _ in range(kills):
        process = start(folder, tortured, processes)
        moment = chance.random()
        if moment < EARLY:
            early += 1
            time.sleep(chance.uniform(0.0, starting))
        else:
            wait_for_state(process, tortured)
            time.sleep(chance.uniform(0.0, training / kills))
        if moment > 1 - SAVING:
            wait_for_save(process, tortured)
        if process.poll() is not None:
            raise SystemExit(f"the run ended by itself, with code {process.returncode}, after {whom}")
        victim = kill(process, chance)
        whom[victim] = whom.get(victim, 0) + 1
        saving += any(tortured.rglob("*.partial"))
    if start(folder, tortured, processes).wait():
        raise SystemExit((tortured.parent / "stderr").read_text())
    expected, found = outcome(steady), outcome(tortured)
    return {
        "kills": whom,
        "of these while it was starting": early,
        "of these while a file was being written": saving,
        "losses compared": sum(name == "train/loss" for _, name, _ in expected["values"]),
        "losses, validations and gradient norms equal bit for bit": expected["values"] == found["values"],
        "weights equal bit for bit": expected["weights"] == found["weights"],
    }


def largest_difference(folder: Path) -> dict[str, float]:
    """How far the losses of one process and of two, which share the same steps, are apart in the untouched runs."""
    alone, shared = (
        [value for _, name, value in outcome(folder / f"steady-{n}" / "run")["values"] if name == "train/loss"]
        for n in (1, 2)
    )
    apart = [abs(a - b) for a, b in zip(alone, shared, strict=True)]
    return {"first 50 steps": max(apart[:50]), f"all {len(apart)} steps": max(apart)}


def main() -> None:
    """Measure, print, store."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    result = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        phrasebook = read_phrasebook()
        for part, pairs in (("train", phrasebook.train[:PAIRS]), ("valid", phrasebook.valid)):
            for language, side in (("en", 0), ("fr", 1)):
                (folder / f"{part}.{language}").write_text("".join(pair[side] + "\n" for pair in pairs))
        for processes in (1, 2):
            key = f"{processes} process{'es' * (processes > 1)}"
            result[key] = survive(folder, processes, kills, random.Random(seed))
            print(key, json.dumps(result[key], indent=1), flush=True)
        result["largest difference between the losses of one process and of two"] = largest_difference(folder)
    command = " ".join(["python benchmarks/kills.py", *sys.argv[1:]])
    RESULT.write_text(
        json.dumps({"command": command, "hardware": describe_hardware(), "result": result}, indent=1) + "\n"
    )
    print(json.dumps(result, indent=1))
    equal = [value for record in result.values() for name, value in record.items() if "equal" in name]
    sys.exit(0 if all(equal) else "the runs differ")


if __name__ == "__main__":
    main()
