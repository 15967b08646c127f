"""Evaluations as `evaluate --json` writes them, of systems that leave words out."""

import random
from typing import Any

from dragoman.evaluation.scores import all_scores
from dragoman.folder import TEXT_FACT

LINES = [f"The {a} {b} sees a {c}." for a in ("big", "old") for b in ("cat", "dog", "man") for c in ("bird", "fish")]
NUMBERS = {"beam": 5, "length_penalty": 1.0, "max_length": 50, "min_length": 0, "precision": "fp32"}


def evaluation(seed: int = 1, share: float = 0.2, lines: list[str] | None = None, **changes: Any) -> dict[str, Any]:
    """A system that leaves words out."""
    choose = random.Random(seed)
    references = LINES if lines is None else lines
    found = [" ".join(word for word in line.split() if choose.random() > share) for line in references]
    tokenized = changes.get("tokenized", False)
    return {
        "scores": all_scores(found, references, "en", tokenized),
        "languages": ["de", "en"],
        "text": {"name": "data/test", "lines": len(references), "sha256": "ab" * 32},
        "weights": {"folder": "models/de-en", "sha256": f"{seed:02x}" * 32},
        "settings": {**NUMBERS, "engine": "auto", "tokenized": tokenized},
        "software": "dragoman 0.1.0, torch 2.13.0, fp32 on cpu",
        "model": {"training_pairs": 29000, "steps": 4000, "seed": seed, TEXT_FACT: "cd" * 32},
        "lines": [
            {"source": line.upper(), "reference": line, "translation": t}
            for line, t in zip(references, found, strict=True)
        ],
    }
