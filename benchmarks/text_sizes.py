"""How good a translator becomes with how much text: Tatoeba, English to French, as ManyThings ships it.

    python benchmarks/text_sizes.py FRA.TXT OUT

FRA.TXT has one English sentence, a tab and one French sentence a line. Holds out test and validation text, trains with
the presets that `train` chooses on random parts of the rest, each part within the next, translates a few everyday
sentences, and stores commands, hardware, scores and translations in benchmarks/results/text-sizes.json, and a plot in
docs/figures/text-sizes.svg. A test sentence has one reference.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
from hardware import describe_hardware

from dragoman.figures import style

RESULT = Path(__file__).parent / "results" / "text-sizes.json"
PLOT = Path(__file__).parents[1] / "docs" / "figures" / "text-sizes.svg"
MINUTES = {5_000: 5, 20_000: 10, 60_000: 15, 164_000: 20}
SPLIT = "split {data} --source en --target fr --out {out}/text --pairs 1500"
TRAIN = (
    "train --source en --target fr --train {out}/{pairs}.tsv --valid {out}/text/valid --test {out}/text/test "
    "--out {out}/{pairs} --max-minutes {minutes}"
)
EVALUATE = "evaluate {out}/{pairs} --test {out}/text/test --json {out}/{pairs}.json"
TRANSLATE = "translate {out}/{pairs} {out}/everyday.en"
SENTENCES = [
    "Where is the nearest pharmacy?",
    "I would like a cup of coffee, please.",
    "What time does the train leave?",
    "She didn't want to go to school today.",
    "Could you help me carry this suitcase?",
    "I forgot my keys at home.",
]


def dragoman(words: str, **values: Any) -> str:
    """Run a command of Dragoman and return what it prints."""
    command = [sys.executable, "-m", "dragoman", *words.format(**values).split()]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure(out: Path, pairs: int, minutes: int) -> dict[str, Any]:
    """Train on a part of the text, and return facts, scores and translations."""
    dragoman(TRAIN, out=out, pairs=pairs, minutes=minutes)
    dragoman(EVALUATE, out=out, pairs=pairs)
    config = json.loads((out / str(pairs) / "config.json").read_text(encoding="utf-8"))
    scores = json.loads((out / f"{pairs}.json").read_text(encoding="utf-8"))["scores"]
    translated = dragoman(TRANSLATE, out=out, pairs=pairs).splitlines()
    return {
        **{key: config["facts"][key] for key in ("training_pairs", "precision")},
        **{key: config["facts"]["whole_run"][key] for key in ("steps", "minutes")},
        **{name: round(scores[name], 1) for name in ("bleu", "chrf")},
        "translations": [f"{s} → {t}" for s, t in zip(SENTENCES, translated, strict=True)],
    }


def draw(result: dict[str, Any]) -> None:
    """Draw BLEU by number of sentence pairs, each with its minutes."""
    with style.styled(), matplotlib.rc_context({"svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = style.new_figure(4.8, 2.8)
        ax = figure.subplots()
        pairs, scores = list(MINUTES)[: len(result)], [one["bleu"] for one in result.values()]
        ax.plot(pairs, scores, marker="o", color=style.SERIES[0][0])
        for count, one in zip(pairs, result.values(), strict=True):
            text = f"{one['bleu']:.1f}\n{one['minutes']:.0f} min"
            ax.annotate(text, (count, one["bleu"]), (6, -22), textcoords="offset points")
        ax.set(xscale="log", xlim=(3_500, 300_000), ylim=(0, 60), xlabel="sentence pairs", ylabel="BLEU")
        ax.set_xticks(pairs, [f"{count:,}" for count in pairs])
        ax.minorticks_off()
        figure.savefig(PLOT)


def main() -> None:
    """Split, train, print, store."""
    data, out = sys.argv[1], Path(sys.argv[2])
    dragoman(SPLIT, data=data, out=out)
    sides = ((out / "text" / f"train.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "fr"))
    lines = [f"{source}\t{target}\n" for source, target in zip(*sides, strict=True)]
    random.Random(1).shuffle(lines)
    (out / "everyday.en").write_text("".join(line + "\n" for line in SENTENCES), encoding="utf-8")
    result = {}
    for pairs, minutes in MINUTES.items():
        (out / f"{pairs}.tsv").write_text("".join(lines[:pairs]), encoding="utf-8")
        result[f"{pairs:,} pairs"] = measure(out, pairs, minutes)
        commands = ["python benchmarks/text_sizes.py FRA.TXT OUT  # runs, for every number of PAIRS:"]
        commands += [f"dragoman {c}" for c in (TRAIN, EVALUATE)]
        commands = [c.format(out="OUT", pairs="PAIRS", minutes="MINUTES") for c in commands]
        content = {"commands": commands, "hardware": describe_hardware(), "result": result}
        RESULT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(json.dumps(result, indent=1, ensure_ascii=False))
    draw(result)


if __name__ == "__main__":
    main()
