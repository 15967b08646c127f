import base64
import html
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import DragomanError
from dragoman.inspection.record import Inspection, readable, visible

from .records import an_inspection

HOSTILE = "a<script>alert('x')</script>\" & \u202eevil\u2066\u200f\x07\u2028"


def example(**changes: object) -> Inspection:
    return an_inspection(["▁a", "▁b"], ["▁c"], **changes)


def test_labels_are_readable() -> None:
    pieces = ["▁the", "dog", ",", "'s", "▁", "<0xE2>", "<s>", "</s>", "▁<b>", "字", "▁\u202e", "א", "ि"]
    expected = ["the", "·dog", ",", "'s", "␣", "⟨E2⟩", "<s>", "</s>", "<b>", "·字", "⟨U+202E⟩", "·א", "◌ि"]
    assert readable(pieces) == expected


def test_nothing_continues_a_word_where_words_are_not_spaced() -> None:
    record = example(languages=("zh", "en"))
    assert record.labels(["▁", "动", "物"], 0) == ["␣", "动", "物"]
    assert record.labels(["▁animal", "s"], 1) == record.labels(["▁animal", "s"]) == ["animal", "·s"]


@given(st.text())
def test_what_is_shown_cannot_turn_or_break_the_line(text: str) -> None:
    shown = visible(text)
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u2028\u2029\n\r\x00\x1b"
    )


def test_everything_is_json_and_the_weights_survive() -> None:
    record = example(source=HOSTILE, facts={"note": HOSTILE})
    data = json.loads(json.dumps(record.to_dict()))
    assert "\u202e" not in json.dumps(data, ensure_ascii=False)
    assert data["source"].startswith("a<script>")  # escaping is the page's task
    packed = data["maps"]["decoder.0.cross_attention"]
    weights = np.frombuffer(base64.b64decode(packed["data"]), "<u2").reshape(packed["shape"]) / 65_535
    assert np.abs(weights - record.maps["decoder.0.cross_attention"]).max() <= 0.5 / 65_535 + 1e-7
    assert np.abs(weights.sum(axis=-1) - 1.0).max() < 3 / 65_535
    assert data["source_labels"] == ["a", "b", "</s>"]
    assert data["candidates"][0]["labels"] == data["output_labels"] == ["c", "</s>"]
    assert data["predictions"][0]["likeliest"] == [["c", 0.5], ["·x", 0.2]]
    assert [node["label"] for node in data["tree"]] == ["c", "</s>"]


def test_arrays_can_be_read_back(tmp_path: Path) -> None:
    record = example()
    record.save_npz(tmp_path / "arrays.npz")
    with np.load(tmp_path / "arrays.npz", allow_pickle=False) as arrays:
        assert np.array_equal(arrays["decoder.0.cross_attention"], record.maps["decoder.0.cross_attention"])
        assert arrays["source_pieces"].tolist() == record.source_pieces
        assert arrays["outputs"].tolist() == record.outputs
        assert arrays["probabilities"].tolist() == [0.5, 0.5]
        assert arrays["alignment"].tolist() == [[0, 0]]
    with pytest.raises(DragomanError, match=r"could not be saved"):
        record.save_npz(tmp_path / "missing" / "arrays.npz")


def test_a_notebook_shows_the_page_in_a_frame_of_its_own() -> None:
    record = example(source=HOSTILE)
    shown = record._repr_html_()
    assert shown.startswith('<iframe srcdoc="')
    attribute = shown.split('srcdoc="')[1].split('"')[0]
    assert html.unescape(attribute) == record.to_html()
    assert len(repr(record)) < len(HOSTILE) + 80
