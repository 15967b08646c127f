"""One translation from the inside, as a record.

Shapes: S source subwords, T target steps (both count the `</s>`), H heads.
"""

import base64
import html
import io
import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from dragoman.inference.alignment import Array, Links
from dragoman.inspection.page import render, visible
from dragoman.runtime.files import write_atomically, write_json
from dragoman.text.languages import has_spaces


@dataclass(frozen=True)
class Candidate:
    """One of the finished translations of the search; it keeps as many as its beam is wide."""

    text: str
    pieces: list[str]
    """Its subwords and `</s>`."""
    log_prob: float
    """Natural logarithm of its probability, the end included."""
    score: float
    """log_prob divided by the length penalty."""


@dataclass(frozen=True)
class Prediction:
    """What the model expected at one step."""

    piece: str
    """The subword that the translation has here."""
    probability: float
    rank: int
    """Its place in the vocabulary, by probability; the likeliest is 1."""
    likeliest: list[tuple[str, float]]
    """The most probable subwords and their probabilities, best first."""


@dataclass(frozen=True)
class BeamNode:
    """One subword in the tree of the hypotheses that the search explored."""

    parent: int
    """Its place in the list of nodes; -1 for what begins a translation."""
    depth: int
    """Number of the step, from 0."""
    piece: str
    log_prob: float
    """Of everything up to here."""
    candidate: int
    """The translation that ends here; -1 if none does."""


@dataclass(frozen=True, repr=False, eq=False)
class Inspection:
    """A translation, opened. In a notebook it shows itself as a page.

    Attention rows are the decoder's (or encoder's) queries, columns what they look at. Row t of the decoder's maps
    belongs to the step that has just read `inputs[t]` and predicts `outputs[t]`.
    """

    languages: tuple[str, str]
    """Codes of the source and the target language."""
    facts: dict[str, Any]
    """Number of parameters and settings of the model, and under "search" those of the search, for display."""
    source: str
    target: str
    """The translation that is looked at; what the model wrote, or what was asked for."""
    source_pieces: list[str]
    """What the encoder reads (S): subwords as SentencePiece writes them, and `</s>`."""
    inputs: list[str]
    """What the decoder reads (T): `<s>`, then the translation."""
    outputs: list[str]
    """What the decoder is to predict (T): the translation, then `</s>`."""
    predictions: list[Prediction]
    """One for each step (T)."""
    log_prob: float
    """Natural logarithm of the probability of the translation that is looked at."""
    score: float
    """log_prob divided by the length penalty."""
    candidates: list[Candidate]
    """The best translations that the search found, best first."""
    chosen: int
    """The candidate that is looked at; -1 if it is none of them."""
    tree: list[BeamNode]
    """The hypotheses that the search explored; parents come before children."""
    maps: dict[str, Array]
    """Attention weights by block, "encoder.0.self_attention", …: (H, S, S), (H, T, T) or (H, T, S)."""
    source_words: list[int]
    """The word that each source subword belongs to (S); -1 for `</s>`. Without spaces each is a word."""
    target_words: list[int]
    """The same for each output (T)."""
    words: tuple[list[str], list[str]]
    """The words of the source and of the target; without spaces, the subwords."""
    alignment: Links
    """Pairs (source word, target word)."""
    alignment_layer: int
    """The decoder layer, from 0, that the alignment was read from."""

    def labels(self, pieces: Sequence[str], side: int = 1) -> list[str]:
        """Readable labels of subwords of the source (side 0) or the target (1)."""
        return readable(pieces, has_spaces(self.languages[side]))

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values and safe to show: control characters made visible, weights in base64, NaN as null.

        A weight w is stored as the 16-bit integer round(65,535 w), little-endian, in the order (H, T, S).
        """
        shown = asdict(replace(self, maps={}))
        for name, weights in self.maps.items():
            data = np.rint(weights * 65_535).astype("<u2").tobytes()
            shown["maps"][name] = {"shape": weights.shape, "data": base64.b64encode(data).decode("ascii")}
        shown["source_labels"] = self.labels(self.source_pieces, 0)
        shown["input_labels"], shown["output_labels"] = self.labels(self.inputs), self.labels(self.outputs)
        for entry in shown["candidates"]:
            entry["labels"] = self.labels(entry["pieces"])
        for entry in [*shown["predictions"], *shown["tree"]]:
            entry["label"] = self.labels([entry["piece"]])[0]
        for entry in shown["predictions"]:
            entry["likeliest"] = [(self.labels([piece])[0], chance) for piece, chance in entry["likeliest"]]
        return cast(dict[str, Any], _as_json(shown, visible))

    def to_html(self) -> str:
        """One self-contained page: no network, opens from disk."""
        return render("page.html", {"record": self.to_dict()})

    def save_npz(self, path: Path) -> None:
        """Write the arrays: every map under its name, subwords, probabilities and ranks, the words and their links."""
        names = ("source_pieces", "inputs", "outputs", "source_words", "target_words", "alignment_layer")
        arrays: dict[str, Any] = {name: getattr(self, name) for name in names}
        arrays["probabilities"] = [step.probability for step in self.predictions]
        arrays["ranks"] = [step.rank for step in self.predictions]
        arrays["alignment"] = np.array(self.alignment, dtype=np.int64).reshape(-1, 2)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **(arrays | self.maps))
        write_atomically(path, buffer.getvalue())

    def save_json(self, path: Path) -> None:
        """Write everything except the attention weights as JSON, under the names of this class; NaN becomes null."""
        record = _as_json(asdict(replace(self, maps={})))
        del record["maps"]
        write_json(path, record)

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 800px; border: 0" title="translation"></iframe>'

    def __repr__(self) -> str:
        """Short: notebooks keep it beside the page."""
        return f"<Inspection {self.source!r} → {self.target!r}>"


def readable(pieces: Sequence[str], spaced: bool = True) -> list[str]:
    """Labels for people: "▁" dropped before a word, "·" put before letters that continue one, bytes as ⟨E2⟩.

    Where words are not spaced, nothing says which letters continue one.
    """
    labels = []
    for piece in pieces:
        if piece in ("<s>", "</s>"):
            labels.append(piece)
        elif piece == "▁":
            labels.append("␣")
        else:
            if piece.startswith("<0x") and piece.endswith(">"):
                piece = f"⟨{piece[3:-1]}⟩"
            continues = spaced and not piece.startswith("▁") and piece[0].isalnum()
            label = visible("·" + piece if continues else piece.removeprefix("▁"))
            # A vowel sign or an accent without its letter stands on a dotted circle.
            labels.append("◌" + label if unicodedata.category(label[0]).startswith("M") else label)
    return labels


def _as_json(value: Any, write: Callable[[str], str] = str) -> Any:
    """The value with every string in it as written, and null for NaN and the infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _as_json(inner, write) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(inner, write) for inner in value]
    if isinstance(value, str):
        return write(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
