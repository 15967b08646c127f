"""Follow a recipe, and keep what came out among the results.

    python benchmarks/recipes.py RECIPE DATA OUT [--seeds 1 2 3] [--threads N]

RECIPE is one of recipes/, DATA the folder of its text, OUT where the models go; `dragoman reproduce` does the work and
goes on where it was interrupted. Stores scores, times and all that they depend on in
benchmarks/results/recipe-NAME.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from hardware import describe_hardware

ROOT = Path(__file__).resolve().parents[1]
_OF_A_RUN = ("training pairs", "training text (SHA-256)", "kept", "steps", "minutes", "precision", "seed", "whole run")


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
    found = json.loads((options.out / "results.json").read_text(encoding="utf-8"))
    name = options.recipe.stem
    words = ["--seeds", *(str(run["model"]["seed"]) for run in found["runs"]), "--threads", str(options.threads)]
    content = {
        "command": f"python benchmarks/recipes.py recipes/{name}.yaml DATA OUT {' '.join(words)}",
        "hardware": describe_hardware(),
        "recipe": {key: found[key] for key in ("recipe", "published", "train", "evaluate")},
        "result": {
            "scores": found["scores"],
            "runs": [
                {
                    "scores": run["scores"],
                    "text": run["text"] | {"name": Path(run["text"]["name"]).name},
                    "weights": run["weights"]["sha256"],
                    "search": {key: run["settings"][key] for key in ("beam", "length_penalty", "precision")},
                }
                | {key: run["model"][key] for key in _OF_A_RUN}
                for run in found["runs"]
            ],
        },
    }
    path = ROOT / "benchmarks" / "results" / f"recipe-{name}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"stored in {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
