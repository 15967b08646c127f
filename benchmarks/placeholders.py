"""Placeholders in translations, and what learning to copy them costs: Multi30k, English to German.

    python benchmarks/placeholders.py MULTI30K OUT [STEPS]

Trains preset small with and without `text.placeholders`, four seeds each, scores the test text as it is, and counts
the sentences of the test text, placeholders planted in them, that are translated with every placeholder exactly once.
Stores commands, hardware and figures in benchmarks/results/placeholders.json.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev

from hardware import describe_hardware

from dragoman.inference.translator import Translator
from dragoman.text.corpus import read_pairs
from dragoman.text.planting import Planter

RESULT = Path(__file__).parent / "results" / "placeholders.json"
SHARES, SEEDS = (0.02, 0.0), (1, 2, 3, 4)
TRAIN = (
    "train --source en --target de --train {data}/train --valid {data}/val --out {out}/{share}-{seed} --preset small "
    "--optimizer.batch-tokens 3072 --validation.every 500 --max-steps {steps} --optimizer.schedule linear "
    "--text.placeholders {share} --seed {seed}"
)
EVALUATE = "evaluate {out}/{share}-{seed} --test {data}/test_2016_flickr --json {out}/{share}-{seed}.json"
ALONE = ["{name}", "{0}", "{{ user.name }}", "${HOME}", "%s", "%(count)d", "%1$s", "https://example.org/a?b=1", "😀"]
AROUND = ["<b>{}</b>", '<a href="https://example.org/">{}</a>', "<em class='x'>{}</em>"]


def planted(data: str) -> list[str]:
    """The sentences of the test text with placeholders in them; a pair of tags where symbols enclose something."""
    pairs = [list(read_pairs([f"{data}/{name}"], "en", "de")) for name in ("train", "test_2016_flickr")]
    plant, choose, lines = Planter(pairs[0], 1.0, 1), random.Random(1), []
    for pair in pairs[1]:
        source = (plant(pair) or pair)[0]
        source = re.sub(r"⟦\d⟧(\S[^⟦]*)⟦\d⟧", lambda found: choose.choice(AROUND).format(found[1]), source)
        lines.append(re.sub(r"⟦\d⟧", lambda _: choose.choice(ALONE), source))
    return lines


def dragoman(words: str) -> None:
    """Run a command of Dragoman."""
    subprocess.run([sys.executable, "-m", "dragoman", *words.split()], check=True)


def main() -> None:
    """Train, score, count, store."""
    data, out, *rest = sys.argv[1:]
    steps = rest[0] if rest else "1000"
    scores: dict[float, list[float]] = {}
    whole: list[int] = []
    lines = planted(data)
    for share in SHARES:
        for seed in SEEDS:
            values = {"data": data, "out": out, "share": share, "seed": seed, "steps": steps}
            dragoman(TRAIN.format(**values))
            dragoman(EVALUATE.format(**values))
            scored = json.loads(Path(f"{out}/{share}-{seed}.json").read_text(encoding="utf-8"))
            scores.setdefault(share, []).append(scored["scores"]["bleu"])
            if share:
                found = Translator.load(f"{out}/{share}-{seed}").translate(lines)
                whole.append(sum(not one.lost for one in found))
    commands = [f"python benchmarks/placeholders.py MULTI30K OUT {steps}  # runs, for both SHAREs and four SEEDs:"]
    values = {"data": "MULTI30K", "out": "OUT", "share": "SHARE", "seed": "SEED", "steps": steps}
    commands += [f"dragoman {command.format(**values)}" for command in (TRAIN, EVALUATE)]
    result = {
        **{
            f"BLEU of the test text, share {share:g}": f"{fmean(runs):.2f} ± {stdev(runs):.2f} ({len(runs)} runs)"
            for share, runs in scores.items()
        },
        "sentences with placeholders": len(lines),
        "with each exactly once in the translation": whole,
    }
    content = {"commands": commands, "hardware": describe_hardware(), "result": result}
    print(json.dumps(content, indent=1, ensure_ascii=False))
    RESULT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
