"""A translator from everyday sentences: Tatoeba, English to French, as ManyThings ships it.

    python benchmarks/tatoeba.py FRA.TXT OUT [MINUTES]

FRA.TXT has one English sentence, a tab and one French sentence a line; an English sentence may recur with other
translations. Training holds some distinct English sentences out for validation by itself. Trains into OUT for so many
minutes (10), translates ten everyday sentences, and stores commands, hardware, scores and translations in
benchmarks/results/tatoeba-en-fr-small.json. The scores are of the validation text: one reference each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hardware import describe_hardware

RESULT = Path(__file__).parent / "results" / "tatoeba-en-fr-small.json"
TRAIN = (
    "train --source en --target fr --train {data} --out {out} "
    "--preset small --model.embedding-gain 1 --model.init-gain 1 --max-minutes {minutes} "
    "--optimizer.schedule linear --validation.every 1000"
)
TRANSLATE = "translate {out} {out}/everyday.en"
SENTENCES = [
    "Where is the nearest pharmacy?",
    "I would like a cup of coffee, please.",
    "My brother is taller than me.",
    "What time does the train leave?",
    "She didn't want to go to school today.",
    "Could you help me carry this suitcase?",
    "It has been raining since yesterday.",
    "I forgot my keys at home.",
    "How much does this shirt cost?",
    "We are going to visit our grandparents next week.",
]


def main() -> None:
    """Train, translate, print, store."""
    data, out, *rest = sys.argv[1:]
    minutes = rest[0] if rest else "10"
    words = TRAIN.format(data=data, out=out, minutes=minutes).split()
    subprocess.run([sys.executable, "-m", "dragoman", *words], check=True)
    (Path(out) / "everyday.en").write_text("".join(line + "\n" for line in SENTENCES), encoding="utf-8")
    words = TRANSLATE.format(out=out).split()
    translated = subprocess.run([sys.executable, "-m", "dragoman", *words], check=True, capture_output=True, text=True)
    facts = json.loads((Path(out) / "config.json").read_text(encoding="utf-8"))["facts"]
    result = {key: facts[key] for key in ("training_pairs", "steps", "minutes", "precision", "seed", "validation")}
    result["translations"] = [f"{s} → {t}" for s, t in zip(SENTENCES, translated.stdout.splitlines(), strict=True)]
    commands = [f"python benchmarks/tatoeba.py FRA.TXT OUT {minutes}  # runs:"]
    commands += [f"dragoman {c.format(data='FRA.TXT', out='OUT', minutes=minutes)}" for c in (TRAIN, TRANSLATE)]
    content = {"commands": commands, "hardware": describe_hardware(), "result": result}
    print(json.dumps(content, indent=1, ensure_ascii=False))
    RESULT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
