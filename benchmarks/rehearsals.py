"""What the paper's recipes would take on this machine: size, batches, memory and time.

    python benchmarks/rehearsals.py [RECIPE ...]

RECIPE is wmt14-en-de-base or -big; both by default. Runs `dragoman reproduce --dry-run` where the text is not there, so
that one of its size is imagined, and stores what it prints in benchmarks/results/rehearsals.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from hardware import describe_hardware

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ["wmt14-en-de-base", "wmt14-en-de-big"]


def main() -> None:
    """Rehearse each, store, print."""
    found = {}
    for name in sys.argv[1:] or RECIPES:
        with tempfile.TemporaryDirectory() as nothing:
            command = ["reproduce", f"recipes/{name}.yaml", "--dry-run", "--data", nothing]
            ended = subprocess.run(
                [sys.executable, "-m", "dragoman", *command], cwd=ROOT, check=True, capture_output=True, text=True
            )
        found[name] = ended.stdout.splitlines()
        print(f"{name}\n{ended.stdout}", flush=True)
    content = {
        "commands": [f"dragoman reproduce recipes/{name}.yaml --dry-run" for name in found],
        "hardware": describe_hardware(),
        "result": found,
    }
    path = ROOT / "benchmarks" / "results" / "rehearsals.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
