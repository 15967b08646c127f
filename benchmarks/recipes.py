"""Follow a recipe, and keep what came out among the results.

    python benchmarks/recipes.py RECIPE DATA OUT [--seeds 1 2 3] [--threads N]

RECIPE is one of recipes/, DATA the folder of its text, OUT where the models go; `dragoman reproduce` does the work and
goes on where it was interrupted. Stores scores, times and all that they depend on in
benchmarks/results/recipe-NAME.json, beside other seeds' of the same system that are there already.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hardware import describe_hardware

from dragoman.evaluation.report import spread
from dragoman.folder import CHANGES_FACT, RUN_FACT, SETTINGS_FACT, TEXT_FACT

ROOT = Path(__file__).resolve().parents[1]
_OF_A_RUN = ("training_pairs", "training_text_sha256", "kept", "steps", "minutes", "precision", "seed", "whole_run")


def main(arguments: list[str]) -> int:
    """Reproduce, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", nargs="+", default=[], help="instead of the recipe's")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    command = ["reproduce", str(options.recipe), "--data", str(options.data), "--out", str(options.out)]
    command += ["--seeds", *options.seeds] if options.seeds else []
    threads = {"OMP_NUM_THREADS": str(options.threads)}
    ended = subprocess.run([sys.executable, "-m", "dragoman", *command], env=os.environ | threads, check=False)
    if ended.returncode:
        return ended.returncode
    name = options.recipe.stem
    path = ROOT / "benchmarks" / "results" / f"recipe-{name}.json"
    command = f"python benchmarks/recipes.py recipes/{name}.yaml DATA OUT"
    content = record(json.loads((options.out / "results.json").read_text(encoding="utf-8")), command)
    if path.is_file():
        content = with_earlier(content, json.loads(path.read_text(encoding="utf-8")))
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"stored in {path}", file=sys.stderr)
    return 0


def record(found: dict[str, Any], command: str) -> dict[str, Any]:
    """What is kept of the results that reproduce wrote; the command wants the threads and the seed of each run."""
    runs = [
        {
            "scores": run["scores"],
            "text": run["text"] | {"name": Path(run["text"]["name"]).name},
            "weights": run["weights"]["sha256"],
            "search": {key: run["settings"][key] for key in ("beam", "length_penalty", "precision")},
        }
        | {key: run["model"][key] for key in _OF_A_RUN}
        for run in found["runs"]
    ]
    for run in runs:
        threads = "".join(f" --threads {number}" for number in re.findall(r"(\d+) threads?$", run[RUN_FACT]["on"]))
        run["command"] = f"{command}{threads} --seeds {run['seed']}"
    return {
        "commands": [run["command"] for run in runs],
        "hardware": [describe_hardware()],
        "recipe": {key: found[key] for key in ("recipe", "published", "train", "evaluate")},
        "result": {"scores": found["scores"], "runs": runs},
    }


def with_earlier(new: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The new runs and those of other seeds that were stored before, whose models may be on another machine by now.

    Runs of other settings, of another text, or scored in another way are left out.
    """
    runs = {run["seed"]: run for run in new["result"]["runs"]}
    kind = _kind(next(iter(runs.values())))
    earlier = [run for run in before["result"]["runs"] if run["seed"] not in runs and _kind(run) == kind]
    runs |= {run["seed"]: run for run in earlier}
    everything = [runs[seed] for seed in sorted(runs)]
    machines = [*before["hardware"], *new["hardware"]] if earlier else new["hardware"]
    return new | {
        "commands": [run["command"] for run in everything],
        "hardware": [machine for number, machine in enumerate(machines) if machine not in machines[:number]],
        "result": {"scores": {name: spread(everything, name) for name in new["result"]["scores"]}, "runs": everything},
    }


def _kind(run: dict[str, Any]) -> list[Any]:
    """What is the same for all runs of one system."""
    signatures = sorted((name, value) for name, value in run["scores"].items() if isinstance(value, str))
    own = [run[name] for name in ("text", "search", TEXT_FACT, "precision")]
    whole = run[RUN_FACT]
    return [*own, signatures, whole["steps"], whole[SETTINGS_FACT], whole.get(CHANGES_FACT)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
