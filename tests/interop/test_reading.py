"""Exported subword models read a text as Dragoman reads it before it encodes it."""

from pathlib import Path

import pytest

from dragoman.config import TextConfig
from dragoman.interop.reading import rules_of, with_rules
from dragoman.text.subwords import ALIKE, ListedModel, SubwordModel, Vocabulary, learn_subwords

TRAINED = ['"It\'s a well-known fox," he said: schön.', "The fish is full, I'm told; it's so soft..."]
TYPED = [
    "The fox’s ‘fish‘ — “soft” - it´s", "so\u00adft\u200b,\u00a0I\u202ftold", "ﬁsh… ｆｕｌｌ", "scho\u0308n",
    "10² Катя", " a  b ", "", *TRAINED, *(f"a {character} b" for character in "".join(ALIKE)),
]  # fmt: skip


def learned(quotes: str = "'\"-", **settings: str) -> SubwordModel:
    lines = [line.translate(str.maketrans("'\"-", quotes)) for line in TRAINED * 20]
    return learn_subwords(lines, TextConfig(vocab_size=310, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("quotes", ["'\"-", "’”–"])
@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("listed", [True, False])
def test_what_is_typed_has_the_ids_of_what_is_read(quotes: str, joint: bool, listed: bool, tmp_path: Path) -> None:
    source = learned(quotes)
    if listed:
        source = ListedModel(source.serialized, listed=[*source.listed[:4], *reversed(source.listed[4:])])
    before = Vocabulary(source, source if joint else learned())
    after = with_rules(before, tmp_path)
    assert after.source.encode(TYPED) == source.encode([source.readable(line) for line in TYPED])
    assert (after.joint, after.source.listed, after.target.listed) == (joint, source.listed, before.target.listed)
    assert after.source.decode(source.encode(TRAINED)) == source.decode(source.encode(TRAINED))


def test_rules_say_what_becomes_what(tmp_path: Path) -> None:
    vocabulary = Vocabulary(learned(), learned())
    assert rules_of(vocabulary.source) == {}
    rules = rules_of(with_rules(vocabulary, tmp_path).source)
    assert {"’": "'", "\u00a0": " ", "\u00ad": "", "ﬁ": "fi", "o\u0308": "ö"}.items() <= rules.items()
    assert not {"ö", "'", "e\u0301", "²"} & rules.keys()


def test_a_model_with_a_normalisation_of_its_own_keeps_it(tmp_path: Path) -> None:
    vocabulary = Vocabulary(learned(normalization="nmt_nfkc"), learned())
    assert with_rules(vocabulary, tmp_path) is vocabulary
