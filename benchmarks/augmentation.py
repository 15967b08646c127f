"""What back-translation brings: few pairs of everyday sentences, and many sentences in the target language alone.

    python benchmarks/augmentation.py FRA.TXT WORK [--directions en-fr fr-en] [--seeds 1 2 3] [--pairs 20000]
                                      [--extra 120000] [--steps 3000] [--preset tiny] [--batch-tokens 2048]
                                      [--weight 3] [--tag "<BT>"]

FRA.TXT is Tatoeba as ManyThings ships it. All models make so many steps. One learns from so many random pairs; the next
one from these pairs, read --weight times in a pass, and from the extra sentences of the target language, translated by
the model that learned from the same pairs in the other direction; the last one from all pairs. WORK keeps all models:
what was stopped goes on from there. Stores the scores on the test text in benchmarks/results/augmentation.json, beside
those of other seeds and directions with the same settings.
"""

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from hardware import describe_hardware
from quality_report import directions_table

RESULTS = Path(__file__).parent / "results" / "augmentation.json"
SETTINGS = ("pairs", "extra", "steps", "preset", "batch_tokens", "weight", "tag")
TRAIN = (
    "train --source {source} --target {target} --train {texts} --valid data/valid --test data/test --out {out} "
    "--preset {preset} --optimizer.batch-tokens {batch_tokens} --text.placeholders 0 --max-steps {steps} "
    "--optimizer.schedule linear --validation.every 500 --validation.max-lines 500 --seed {seed}"
)
AUGMENT = "augment {reverse} --text mono.{target} --out {out}"
EVALUATE = "evaluate {model} --test data/test --json {model}.json"


class Work:
    """The folder of all models, and the commands that were run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.commands = folder, list[str]()

    def run(self, command: str, *more: str, made: str = "") -> None:
        """Run one of Dragoman's verbs, unless what it makes is there."""
        words = [*command.split(), *more]
        self.commands.append(" ".join(["dragoman", *words]))
        if not made or not (self.folder / made).exists():
            print(self.commands[-1], flush=True)
            subprocess.run([sys.executable, "-m", "dragoman", *words], check=True, cwd=self.folder)

    def score(self, model: str, **settings: Any) -> dict[str, Any]:
        """Train and evaluate a model."""
        self.run(TRAIN.format(out=model, **settings), made=f"{model}.json")
        self.run(EVALUATE.format(model=model), made=f"{model}.json")
        found = json.loads((self.folder / f"{model}.json").read_text(encoding="utf-8"))
        print(model, found["scores"]["bleu"], flush=True)
        return {name: found["scores"][name] for name in ("bleu", "chrf")}


def gather(work: Work, table: Path, pairs: int, extra: int) -> None:
    """Divide the text: validation and test text, pairs, and sentences of which one side is used."""
    if not (work.folder / "mono.fr").exists():
        work.folder.mkdir(parents=True, exist_ok=True)
        (work.folder / "fra.txt").write_bytes(table.read_bytes())
        work.run("split fra.txt --source en --target fr --out data", made="data/test.fr")
        sides = [(work.folder / f"data/train.{language}").read_text(encoding="utf-8").split("\n")[:-1]
                 for language in ("en", "fr")]  # fmt: skip
        chosen = random.Random(0).sample(list(zip(*sides, strict=True)), pairs + extra)
        for side, language in enumerate(("en", "fr")):
            lines = [f"{pair[side]}\n" for pair in chosen]
            for name, some in (("few", lines[:pairs]), ("all", lines)):
                (work.folder / f"{name}.{language}").write_text("".join(some), encoding="utf-8")
            (work.folder / f"mono.{language}").write_text("".join(lines[pairs:]), encoding="utf-8")


def measure(work: Work, source: str, target: str, seed: int, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The scores of all kinds of model of one seed, by direction."""
    settings = {name: getattr(options, name) for name in ("preset", "batch_tokens", "steps")} | {"seed": seed}
    there, back = f"{source}-{target}", f"{target}-{source}"
    languages, reverse = {"source": source, "target": target}, {"source": target, "target": source}
    found = {"pairs alone": {there: work.score(f"few-{there}-{seed}", texts="few", **languages, **settings)}}
    found["pairs alone"][back] = work.score(f"few-{back}-{seed}", texts="few", **reverse, **settings)
    text = f"back-{there}-{seed}{'-untagged' * (not options.tag)}"
    augment = AUGMENT.format(reverse=f"few-{back}-{seed}", target=target, out=text)
    work.run(augment, "--tag", options.tag, made=f"{text}.{source}")
    texts, model = f"few {text} --weights {options.weight} 1", f"{text}-model-{options.weight}"
    found["with back-translation"] = {there: work.score(model, texts=texts, **languages, **settings)}
    if not options.no_bound:
        found["all pairs"] = {there: work.score(f"all-{there}-{seed}", texts="all", **languages, **settings)}
    return found


def main() -> None:
    """Train, translate, evaluate, print, store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--directions", nargs="+", default=["en-fr", "fr-en"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--extra", type=int, default=120_000)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--weight", type=int, default=3, help="times that the pairs are read beside the extra text")
    parser.add_argument("--tag", default="<BT>")
    parser.add_argument("--no-bound", action="store_true", help="leave out the models of all pairs")
    options = parser.parse_args()
    work = Work(options.work)
    gather(work, options.table, options.pairs, options.extra)
    settings = {name: getattr(options, name) for name in SETTINGS}
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    before = before if before.get("settings") == settings else {"result": {}, "hardware": [], "commands": []}
    result, machine = before["result"], describe_hardware()
    for direction in options.directions:
        for seed in options.seeds:
            for kind, by_direction in measure(work, *direction.split("-"), seed, options).items():
                for scored, scores in by_direction.items():
                    result.setdefault(kind, {}).setdefault(scored, {})[str(seed)] = scores
    command = " ".join(["python benchmarks/augmentation.py FRA.TXT WORK", *sys.argv[3:], " # runs:"])
    content = {
        "commands": list(dict.fromkeys([*before["commands"], command, *work.commands])),
        "settings": settings,
        "hardware": [*(other for other in before["hardware"] if other != machine), machine],
        "note": f"All models make {options.steps:,} steps, whatever text they learn from.",
        "result": result,
    }
    print(directions_table(content))
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
