"""What back-translation brings: few pairs of everyday sentences, and many sentences in the target language alone.

    python benchmarks/augmentation.py FRA.TXT WORK [--directions en-fr fr-en] [--seeds 1 2 3] [--pairs 20000]
                                      [--extra 120000] [--steps 6000] [--dropout 0.3] [--more-steps 6000]
                                      [--more-dropout 0.1] [--preset tiny] [--batch-tokens 2048] [--weight 3]
                                      [--tag "<BT>"] [--bound] [--control]

FRA.TXT is Tatoeba as ManyThings ships it. One model learns from so many random pairs in --steps; the next one, in
--more-steps and with --more-dropout, from these pairs, read --weight times in a pass, and from the extra sentences of
the target language, translated by the model that learned from the same pairs in the other direction. --bound: another
learns from all pairs, and --control: another from the pairs alone, both like the second. WORK keeps all models: what
was stopped goes on from there, and other --pairs, --extra, --steps, --dropout or --preset need another WORK. Stores the
scores on the test text in benchmarks/results/augmentation-PAIRS.json, beside those of other seeds, directions, steps
and dropout with the same settings.
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

RESULTS = Path(__file__).parent / "results"
SETTINGS = ("pairs", "extra", "preset", "batch_tokens", "weight", "tag")
TRAIN = (
    "train --source {source} --target {target} --train {texts} --valid data/valid --test data/test --out {out} "
    "--preset {preset} --optimizer.batch-tokens {batch_tokens} --text.placeholders 0 --max-steps {steps} "
    "--optimizer.schedule linear --validation.every 500 --validation.max-lines 500 --seed {seed} "
    "--model.dropout {dropout}"
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
    settings = {"preset": options.preset, "batch_tokens": options.batch_tokens, "seed": seed}
    there, back = f"{source}-{target}", f"{target}-{source}"
    languages, reverse = {"source": source, "target": target}, {"source": target, "target": source}
    few, more = (settings | {"steps": steps, "dropout": dropout} for steps, dropout in options.learning)
    first, then = (f", {steps:,} steps, dropout {dropout}" for steps, dropout in options.learning)
    alone = work.score(f"few-{there}-{seed}", texts="few", **few, **languages)
    found = {f"pairs alone{first}": {there: alone}}
    found[f"pairs alone{first}"][back] = work.score(f"few-{back}-{seed}", texts="few", **few, **reverse)
    text = f"back-{there}-{seed}{'-untagged' * (not options.tag)}"
    augment = AUGMENT.format(reverse=f"few-{back}-{seed}", target=target, out=text)
    work.run(augment, "--tag", options.tag, made=f"{text}.{source}")
    kinds = [("with back-translation", f"{text}-model-{options.weight}", f"few {text} --weights {options.weight} 1")]
    kinds += [("pairs alone", f"few-{there}-{seed}", "few")] * options.control
    kinds += [("all pairs", f"all-{there}-{seed}", "all")] * options.bound
    for kind, model, texts in kinds:
        model = f"{model}-{more['steps']}-{more['dropout']}"
        found.setdefault(kind + then, {})[there] = work.score(model, texts=texts, **more, **languages)
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
    parser.add_argument("--steps", type=int, default=6000, help="from the pairs alone")
    parser.add_argument("--more-steps", type=int, default=6000, help="from more text")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--more-dropout", type=float, default=0.1, help="with more text")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--weight", type=int, default=3, help="times that the pairs are read beside the extra text")
    parser.add_argument("--tag", default="<BT>")
    parser.add_argument("--bound", action="store_true", help="also models of all pairs")
    parser.add_argument("--control", action="store_true", help="also models of the pairs alone, in --more-steps")
    options = parser.parse_args()
    options.learning = (options.steps, options.dropout), (options.more_steps, options.more_dropout)
    work = Work(options.work)
    gather(work, options.table, options.pairs, options.extra)
    settings = {name: getattr(options, name) for name in SETTINGS}
    results = RESULTS / f"augmentation-{options.pairs}.json"
    before = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
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
        "note": "The reverse model learned from the same pairs.",
        "result": result,
    }
    print(directions_table(content))
    results.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
