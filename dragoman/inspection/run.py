"""A training run as its folder tells it: records, translations, text and settings."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.config import CHECK_FILE, FINE_TUNING, PRESETS, DragomanError, TrainConfig
from dragoman.folder import CONFIG_FILE, METRICS_FILE, read_records, run_settings, with_plain_keys
from dragoman.runtime.files import read_json
from dragoman.text.dataset import StoreReport
from dragoman.text.languages import has_spaces
from dragoman.training.diagnostics import Health


class Run:
    """What the folder of a run says about it. What is missing there, as in folders of older versions, is empty."""

    def __init__(self, folder: Path) -> None:
        """Read a folder. Raises DragomanError if no run has recorded anything there."""
        self.folder, self.records = folder, list(read_records(folder))
        if not self.records:
            raise DragomanError(f"{folder}: has no {METRICS_FILE} of a training run; give the --out of one")
        self.settings = _flat(run_settings(folder))
        config = read_json(folder / CONFIG_FILE)
        self.model, self.facts = config.get("model", {}), with_plain_keys(config.get("facts", {}))
        stores = {name: read_json(folder / "data" / name / "store.json") for name in ("train", "valid")}
        self.texts = {name: StoreReport(**store["report"]) for name, store in stores.items() if store}
        self.findings = read_json(folder / CHECK_FILE).get("findings", [])
        self.validations = self._validations()
        self.samples = self._samples()

    def _validations(self) -> list[dict[str, Any]]:
        """The records of each validation, put together, with its health line."""
        found: dict[int, dict[str, Any]] = {}
        for record in self.records:
            if any(name.startswith(("valid/", "health/")) for name in record):
                found[record["step"]] = found.get(record["step"], {}) | record
        for record in found.values():
            health: dict[str, Any] = {name: record.get(f"health/{name}") for name in Health.__annotations__}
            health |= {name: math.nan for name, value in health.items() if value is None}
            record["line"] = Health(**health).line().partition(": ")[2] if "health/empty" in record else ""
        return list(found.values())

    def _samples(self) -> dict[tuple[str, str], list[list[Any]]]:
        """By source and reference: the first and last step that wrote a translation, the translation and its words."""
        found: dict[tuple[str, str], list[list[Any]]] = {}
        for record in self.validations:
            for source, reference, text in record.get("samples", []):
                rows = found.setdefault((source, reference), [])
                if rows and rows[-1][2] == text:
                    rows[-1][1] = record["step"]
                else:
                    marked = _marked(text, reference, has_spaces(self.settings.get("target", "")))
                    rows.append([record["step"], record["step"], text, marked])
        return found

    def usual_settings(self) -> dict[str, Any]:
        """The settings that the preset, or fine-tuning, starts from, by dotted name."""
        usual = _flat(asdict(TrainConfig(source="a", target="b", train=[], out="c")))
        if self.settings.get("from"):  # the shape and the subwords are those of the model it starts from
            kept = ("model.", "text.vocab")
            return {name: value for name, value in usual.items() if not name.startswith(kept)} | FINE_TUNING
        return usual | PRESETS.get(self.settings.get("preset", ""), {})


def differing_settings(tables: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The settings, of tables by dotted name, that differ between them, with the value of each; but for places."""
    names = tables[-1].keys() - {"source", "target", "from", "preset", "train", "valid", "test", "out"}
    values = {name: [table.get(name, ...) for table in tables] for name in tables[-1] if name in names}
    return {name: row for name, row in values.items() if ... not in row and row.count(row[0]) < len(row)}


def _flat(settings: dict[str, Any], group: str = "") -> dict[str, Any]:
    """Nested settings by dotted name."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        dotted = group + name.rstrip("_")
        found |= _flat(value, f"{dotted}.") if isinstance(value, dict) else {dotted: value}
    return found


def _marked(translation: str, reference: str, spaced: bool) -> list[tuple[str, bool]]:
    """The words of a translation, or its characters, and whether the reference has them, as often as there."""
    expected, marked = Counter(reference.split() if spaced else reference), []
    for word in translation.split() if spaced else translation:
        marked.append((word + " " * spaced, expected[word] > 0))
        expected[word] -= 1
    return marked
