"""Damage texts, settings, model folders, checkpoints and runs in more than ten thousand ways, and see how commands end.

    python benchmarks/fuzz.py [SHARE] [SEED] [--no-record]

Every case must end in one clear sentence (exit code 1 or 2) or in a correct result; never in a traceback, a hang, or
something half-written. Then lets every single call to the disk fail, for each command in turn. SHARE (1) is the part of
the cases to try. Stores benchmarks/results/fuzz.json unless told not to; the exit code says whether all went well.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hardware import describe_hardware

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.fuzz import test_faults as faults  # noqa: E402
from tests.fuzz.cases import KINDS, explore, prepared  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "fuzz.json"


def damage(share: float, seed: int) -> dict[str, dict[str, Any]]:
    """Try the cases of each kind; how many ended how, and what went wrong."""
    results: dict[str, dict[str, Any]] = {}
    for name, kind in KINDS.items():
        started = time.monotonic()
        try:
            results[name] = dict(sorted(explore(kind.case, max(1, round(kind.many * share)), seed).items()))
        except Exception as error:
            case = getattr(error, "__notes__", [])
            results[name] = {"wrong": "\n".join([f"{type(error).__name__}: {error}"[:3000], *case])}
        print(f"{name}: {results[name]} in {time.monotonic() - started:.0f} s", flush=True)
    return results


def disturb(share: float) -> dict[str, dict[str, Any]]:
    """Let each call to the disk fail, once and perhaps from then on; how many were tried, and what went wrong."""
    results: dict[str, dict[str, Any]] = {}
    monkeypatch = pytest.MonkeyPatch()
    for name in faults.COMMANDS:
        wanted, counts = faults.undisturbed(name, monkeypatch)
        tried: Counter[str] = Counter()
        wrong = []
        for kind in faults.FAILURES:
            for number in range(1, counts[kind] + 1, max(1, round(1 / share))):
                for lasting in (False, True) if kind in faults.LASTING else (False,):
                    tried[kind] += 1
                    try:
                        faults.disturb(name, kind, number, lasting, wanted, monkeypatch)
                    except AssertionError as error:
                        wrong.append(f"{kind} {number}{' and on' * lasting}: {error}"[:1000])
        results[name] = {"tried": tried.total(), **({"wrong": wrong} if wrong else {})}
        print(f"{name}: {dict(tried)} {wrong or ''}", flush=True)
    return results


def main() -> None:
    """Try, print, store."""
    numbers = [word for word in sys.argv[1:] if word != "--no-record"]
    share = float(numbers[0]) if numbers else 1.0
    seed = int(numbers[1]) if len(numbers) > 1 else 1
    started = time.monotonic()
    with prepared():
        damaged, disturbed = damage(share, seed), disturb(share)
    wrong = [name for part in (damaged, disturbed) for name, record in part.items() if "wrong" in record]
    counts = [{n: c for n, c in record.items() if n != "wrong"} for record in damaged.values()]
    result = {
        "cases": sum(sum(record.values()) for record in counts),
        "wrong": wrong or "none",
        "damaged": damaged,
        "calls to the disk that failed": disturbed,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }
    if "--no-record" not in sys.argv:
        command = " ".join(["python benchmarks/fuzz.py", *numbers])
        record = {"command": command, "hardware": describe_hardware(), "result": result}
        RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    sys.exit("something went wrong" if wrong else 0)


if __name__ == "__main__":
    main()
