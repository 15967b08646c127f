"""One model of several directions against a model for each: Multi30k in English, German and French.

    python benchmarks/directions.py MULTI30K WORK [--steps 1000] [--preset small] [--batch-tokens 3072] [--seeds 1 2 3]
                                    [--pivot-only]

MULTI30K has train, val and test_2016_flickr in .en, .de and .fr. Each single model takes so many steps, and the models
of several directions as many for each of theirs, so that the training time is the same. One of them learns all six
directions; another one only those from and into English, so that German to French and back are new to it (zero-shot).
--pivot-only leaves out the former, and the single models of German and French. WORK keeps all models: what was stopped
goes on from there. Stores the scores on the test text in benchmarks/results/directions.json.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from augmentation import Work
from hardware import describe_hardware
from quality_report import directions_table

RESULTS = Path(__file__).parent / "results" / "directions.json"
LANGUAGES = ("en", "de", "fr")
PIVOT = [("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en")]
TRAIN = (
    "train --source {source} --target {target} --train {texts} --valid {data}/val --out {out} --preset {preset} "
    "--optimizer.batch-tokens {batch_tokens} --text.placeholders 0 --max-steps {steps} --optimizer.schedule linear "
    "--validation.every 500 --validation.max-lines 500 --seed {seed}"
)
NOTE = (
    "Each model makes {steps:,} steps for each direction that it learns, so six models of one direction take as long "
    "as one model of six. The model that learns from and into English has never seen a pair of German and French; by "
    "way of English, it translates its own translations."
)
EVALUATE = "evaluate {model} --test {text} --source {source} --target {target} --json {out}"
INTO_ENGLISH = (
    "translate {model} {data}/test_2016_flickr.{source} --source {source} --target en --precision fp32 --out {out}"
)


def measure(work: Work, seed: int, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The scores of each kind of model in each direction."""
    every = [(one, other) for one in LANGUAGES for other in LANGUAGES if one != other]
    shared = {"data": options.data, "preset": options.preset, "batch_tokens": options.batch_tokens, "seed": seed}
    found: dict[str, dict[str, Any]] = {"a model for each": {}}
    for source, target in PIVOT if options.pivot_only else every:
        out, text = f"{source}-{target}-{seed}", f"{options.data}/train"
        languages = {"source": source, "target": target}
        work.run(TRAIN.format(texts=text, out=out, steps=options.steps, **languages, **shared), made=f"{out}.json")
        found["a model for each"] |= evaluate(work, out, [(source, target)], f"{out}.json", options.data)
    several = ",".join(LANGUAGES)
    kinds = {"from and into English": ("en-de en-fr", PIVOT), "all six": (f"{options.data}/train", every)}
    for name, (texts, learned) in list(kinds.items())[: 1 if options.pivot_only else 2]:
        out, steps = f"{len(learned)}-directions-{seed}", options.steps * len(learned)
        languages = {"source": several, "target": several}
        work.run(TRAIN.format(texts=texts, out=out, steps=steps, **languages, **shared), made=f"{out}-fr-de.json")
        found[f"one model, {name}"] = evaluate(work, out, every, f"{out}-{{}}-{{}}.json", options.data)
        if learned == PIVOT:
            found["the same model, by way of English"] = by_way_of_english(work, out, options.data)
    return found


def evaluate(work: Work, model: str, pairs: list[tuple[str, str]], file: str, data: Path) -> dict[str, Any]:
    """The scores of a model by direction."""
    return {
        f"{source}-{target}": score(
            work, model, f"{data}/test_2016_flickr", source, target, file.format(source, target)
        )
        for source, target in pairs
    }


def by_way_of_english(work: Work, model: str, data: Path) -> dict[str, Any]:
    """The scores of a model that translates what it wrote in English, between the other languages."""
    found = {}
    for source, target in (("de", "fr"), ("fr", "de")):
        english, out = f"{model}-{source}-in-english", f"{model}-{source}-en-{target}.json"
        work.run(INTO_ENGLISH.format(model=model, data=data, source=source, out=english), made=f"{english}.00001")
        text = f"{english}.00001,{data}/test_2016_flickr.{target}"
        found[f"{source}-{target}"] = score(work, model, text, "en", target, out)
    return found


def score(work: Work, model: str, text: str, source: str, target: str, out: str) -> dict[str, float]:
    """The scores of a model on a text."""
    work.run(EVALUATE.format(model=model, text=text, source=source, target=target, out=out), made=out)
    found = json.loads((work.folder / out).read_text(encoding="utf-8"))["scores"]
    return {name: found[name] for name in ("bleu", "chrf")}


def main() -> None:
    """Train, evaluate, print, store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--steps", type=int, default=1000, help="for each direction")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--batch-tokens", type=int, default=3072)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--pivot-only", action="store_true")
    options = parser.parse_args()
    options.data = options.data.resolve()
    work = Work(options.work)
    work.folder.mkdir(parents=True, exist_ok=True)
    for other in ("de", "fr"):
        for language in ("en", other):
            content = (options.data / f"train.{language}").read_bytes()
            (work.folder / f"en-{other}.{language}").write_bytes(content)
    result: dict[str, dict[str, dict[str, Any]]] = {}
    for seed in options.seeds:
        for kind, by_direction in measure(work, seed, options).items():
            for direction, scores in by_direction.items():
                result.setdefault(kind, {}).setdefault(direction, {})[str(seed)] = scores
    data = str(options.data)
    content = {
        "commands": [
            " ".join(["python benchmarks/directions.py MULTI30K WORK", *sys.argv[3:], " # runs:"]),
            *(command.replace(data, "MULTI30K") for command in dict.fromkeys(work.commands)),
        ],
        "settings": {name: value for name, value in vars(options).items() if name not in ("data", "work")},
        "hardware": describe_hardware(),
        "note": NOTE.format(steps=options.steps),
        "result": result,
    }
    print(directions_table(content))
    RESULTS.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
