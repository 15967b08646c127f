"""What recipes would take on this machine: size, batches, memory and time.

    python benchmarks/rehearsals.py RECIPE [RECIPE ...]

Runs `dragoman reproduce --dry-run` where the text is not there, so that one of its size is imagined, and puts what it
prints into benchmarks/results/rehearsals.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from hardware import describe_hardware
from report import in_words

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "rehearsals.json"
COMMAND = "dragoman reproduce recipes/{}.yaml --dry-run"


def main() -> None:
    """Rehearse each, store, print."""
    content = json.loads(RESULTS.read_text(encoding="utf-8"))
    found, machine = content["result"], describe_hardware()
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as nothing:
            command = [sys.executable, "-m", *COMMAND.format(name).split(), "--data", nothing]
            ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        print(f"{name}\n{ended.stdout}", flush=True)
        found[name] = {"machine": in_words(machine), **dict(line.split(": ", 1) for line in ended.stdout.splitlines())}
    content["commands"] = [COMMAND.format(name) for name in found]
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
