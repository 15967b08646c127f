"""tokenizer.json: the tokenizers library cuts and joins text as SentencePiece does."""

import gzip
import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import DragomanError, TextConfig
from dragoman.interop.reading import with_rules
from dragoman.interop.tokenizer_json import tokenizer_json
from dragoman.text.subwords import ListedModel, SubwordModel, learn_subwords
from tests.small_models import LINES, TARGETS, small_model
from tests.texts_at_hand import data_at_hand

tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers: pip install 'dragoman[web]'")

MODELS = {
    "joint": small_model().vocabulary.source,
    "separate": small_model(joint=False).vocabulary.target,
    "symbols": small_model(symbols=True).vocabulary.source,
    "rules": with_rules(small_model(symbols=True).vocabulary, Path(tempfile.gettempdir())).source,
}
STRANGE = [
    "", " ", "▁", "▁▁", " ▁ ", "a▁b", "a ▁ b", "▁a", "a▁", "▁ a", " a  b ", "\ta\tb\t", "\n", "a\r\nb\n", "\u3000a\xa0",
    "a\0b", "</s>", "a <unk> b", "<0x41>", "⟦1⟧", "the ⟦1⟧cat⟦2⟧⟦3⟧ ⟦9⟧.", "⟦0⟧ ⟦10⟧ ⟦", "漢字かな", "e\u0301", "ﬁⅣ",
    "👩‍👩‍👧🇫🇷", "\ufeffa\ufeff", "\u202eabc\u200b", "\ufffd\uffff\U0010ffff", "x" * 999, "the " * 99, "eeee", "....",
]  # fmt: skip


def load(subwords: SubwordModel) -> Any:
    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(subwords)))


LOADED = {name: load(subwords) for name, subwords in MODELS.items()}


def assert_alike(subwords: SubwordModel, tokenizer: Any, lines: list[str]) -> None:
    ours = subwords.encode(lines)
    assert [line for line, ids in zip(lines, ours, strict=True) if tokenizer.encode(line).ids != ids] == []
    joined = [tokenizer.decode(ids).replace("\n", " ").strip() for ids in ours]
    assert joined == [text.strip() for text in subwords.decode(ours)]


@pytest.mark.parametrize("name", MODELS)
def test_strange_text_has_the_same_ids(name: str) -> None:
    assert_alike(MODELS[name], LOADED[name], [*LINES, *TARGETS, *STRANGE])


@given(st.text(st.one_of(st.sampled_from("the cat▁ \t⟦1⟧"), st.characters(codec="utf-8"))), st.sampled_from([*MODELS]))
def test_any_text_has_the_same_ids(text: str, name: str) -> None:
    assert_alike(MODELS[name], LOADED[name], [text])


@pytest.mark.parametrize("settings", [{"subwords": "unigram"}, {"normalization": "nmt_nfkc"}], ids=str)
def test_a_model_that_cuts_in_another_way_is_refused(settings: dict[str, Any]) -> None:
    subwords = learn_subwords([*LINES, *TARGETS], TextConfig(vocab_size=330, **settings))
    with pytest.raises(DragomanError, match=r"--text\.subwords bpe and --text\.normalization identity, or export"):
        tokenizer_json(subwords)


def test_a_listed_vocabulary_is_refused() -> None:
    pieces = MODELS["joint"].listed
    for listed in ([*pieces[:260], *reversed(pieces[260:])], [*pieces, ">>fra<<"]):
        with pytest.raises(DragomanError, match="can't cut text as this model's SentencePiece does"):
            tokenizer_json(ListedModel(MODELS["joint"].serialized, listed=listed))


@pytest.mark.slow
def test_100_000_lines_have_the_same_ids() -> None:
    lines = []
    for language in ("en", "de", "fr"):
        path = data_at_hand(f"multi30k/raw/train.{language}.gz")
        lines += gzip.decompress(path.read_bytes()).decode().splitlines()
    with zipfile.ZipFile(data_at_hand("tatoeba/fra-eng.zip")) as archive, archive.open("fra-eng/fra.txt") as file:
        lines += [side for line in io.TextIOWrapper(file, "utf-8") for side in line.split("\t")[:2]]
    lines = list(dict.fromkeys(lines))[::3]
    assert len(lines) > 100_000
    subwords = learn_subwords(lines[::2], TextConfig())
    assert_alike(subwords, load(subwords), lines)
