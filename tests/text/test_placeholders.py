"""Placeholders: found where people write them, put back letter by letter, and planted where both sides agree."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TextConfig
from dragoman.text.dataset import PairEncoder, build_store
from dragoman.text.placeholders import SYMBOL, SYMBOLS, mask, restore
from dragoman.text.planting import Planter, mask_pair
from dragoman.text.subwords import Vocabulary
from tests.text.small_texts import ANIMALS, VERBS, sentences

PIECES = [
    "{name}",
    "{{ x }}",
    "%s",
    "%(n)d",
    "<b>",
    "</b>",
    "%NAME",
    "$(X)",
    "a@b.org",
    "https://x.org/?q=1",
    "😀",
    "⟦3⟧",
    "word",
    " ",
    ".",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_what_is_masked_comes_back(line: str) -> None:
    masked, placeholders = mask(line)
    assert restore(masked, placeholders) == (line, [])
    assert SYMBOL.findall(masked)[: len(placeholders)] == list(SYMBOLS[: len(placeholders)])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Hello {name}, you have %d new messages.", ["{name}", "%d"]),
        ("{0} of {{ total }} for ${user}", ["{0}", "{{ total }}", "${user}"]),
        ("%(count)d files, %1$s, %.2f and %@", ["%(count)d", "%1$s", "%.2f", "%@"]),
        ('Click <a href="/x y">here</a> &amp; read.<br/>', ['<a href="/x y">', "</a> &amp;", "<br/>"]),
        ("See https://example.org/a?b=1&c=2, or www.x.de.", ["https://example.org/a?b=1&c=2", "www.x.de"]),
        ("Write to a.b+c@mail.example.org.", ["a.b+c@mail.example.org"]),
        ("Well done 👍🏽! ❤️", ["👍🏽", "❤️"]),
        ("<p><b>Title</b></p>", ["<p><b>", "</b></p>"]),
        ("%MOD1 on $(DISK), %PRODUCT_NAME", ["%MOD1", "$(DISK)", "%PRODUCT_NAME"]),
        ("%sを削除、「%NAME」は%d個。", ["%s", "%NAME", "%d"]),
        ("%sக்கு கடவுச்சொல்லை மாற்றுகிறது.", ["%s"]),
        ("詳細はhttps://x.org/a?b=1をご覧ください。メールはa@b.orgまで", ["https://x.org/a?b=1", "a@b.org"]),
        ("müller@x.de, https://x.org/wiki/Москва.", ["müller@x.de", "https://x.org/wiki/Москва"]),
        ("5 %ABV, %5 faiz, %50'ye, 50% discount, 100 % sure, 3 < 4, x > y, {open, $5, AT&T, me @ home", []),
        ("{a}.{b}.{c}.{d}.{e}.{f}.{g}.{h}.{i}.{j}", [f"{{{letter}}}" for letter in "abcdefghi"]),
    ],
)
def test_placeholders_are_found(line: str, expected: list[str]) -> None:
    assert mask(line)[1] == expected


def test_a_placeholder_that_is_missing_or_repeated_is_named() -> None:
    assert restore("⟦2⟧ und ⟦2⟧", ["{a}", "{b}"]) == ("{b} und {b}", ["{a}", "{b}"])
    assert restore("⟦1⟧ und ⟦7⟧.", ["{a}"]) == ("{a} und .", [])


def test_in_training_only_what_both_sides_have_is_masked() -> None:
    assert mask_pair(("{x} is {y}.", "{y} ist {x}.")) == ("⟦1⟧ is ⟦2⟧.", "⟦2⟧ ist ⟦1⟧.")
    assert mask_pair(("<b>yes</b> %s", "<b>ja %s %s")) == ("⟦1⟧yes</b> %s", "⟦1⟧ja %s %s")


def test_words_with_vowel_signs_are_replaced_whole() -> None:
    words = {"अस्पताल": "hospital", "विद्यार्थी": "student", "हिन्दुस्तान": "India"}
    pairs = [(f"यह {word} है", f"this is {other}") for word, other in words.items()] * 10
    sources = [copy[0] for seed in range(8) for pair in pairs[:3] if (copy := Planter(pairs, 1.0, seed)(pair))]
    whole = re.compile("|".join([*words, "यह", "है", SYMBOL.pattern, " "]))
    assert {whole.sub("", source) for source in sources} == {""}
    assert not all(any(word in source for word in words) for source in sources)


def test_symbols_are_planted_at_words_that_mean_the_same() -> None:
    pairs = [(s.replace("the", "every"), t.replace("die", "jede")) for s, t in sentences()]
    plant = Planter(pairs, 1.0, seed=1)
    words = ANIMALS | VERBS | {"every": "jede"}
    enclosed = 0
    for pair in pairs:
        copy = plant(pair)
        assert copy
        source, target = (SYMBOL.findall(side) for side in copy)
        assert source
        assert sorted(source) == sorted(target) == sorted(set(source))
        inside = [SYMBOL.split(side) for side in copy]
        for word in {w for w in words if w in pair[0]} - set(" ".join(inside[0]).split()):
            assert words[word] not in " ".join(inside[1]).split()
        enclosed += any(piece in words for piece in inside[0])
    assert enclosed > 10


def test_the_share_is_kept_and_the_seed_decides() -> None:
    pairs = sentences() * 10
    for share in (0.0, 0.1, 1.0):
        copies = [list(map(Planter(pairs, share, seed), pairs)) for seed in (1, 1, 2)]
        assert copies[0] == copies[1]
        assert (copies[0] == copies[2]) == (share == 0.0)
        assert sum(map(bool, copies[0])) == pytest.approx(share * len(pairs), abs=40)


def test_a_store_has_the_copies_beside_the_pairs(tmp_path: Path) -> None:
    pairs = [*sentences(), ("press {key} now", "drücke {key} jetzt")]
    sides = ([source for source, _ in pairs], [target for _, target in pairs])
    stores = {}
    for share in (0.0, 0.5):
        vocabulary = Vocabulary.learn(sides, TextConfig(vocab_size=400, placeholders=share))
        assert vocabulary.has_symbols == bool(share)
        plant = Planter(pairs, share, 1) if share else None
        stores[share] = build_store([(0, pairs)], PairEncoder(vocabulary, 100, plant), tmp_path / str(share))
        symbols = vocabulary.source.ids(SYMBOLS)
        with_symbols = [[i for i in range(len(stores[share])) if set(symbols) & {*stores[share][i][side].tolist()}]
                        for side in (0, 1)] if share else []  # fmt: skip
    report = stores[0.5].report
    assert len(stores[0.0]) == stores[0.0].report.pairs == report.pairs == len(pairs)
    assert len(stores[0.5]) == report.pairs + report.planted
    assert with_symbols[0] == with_symbols[1]
    assert len(with_symbols[0]) == report.planted + 1  # the pair that has a placeholder of its own
    assert f"and {report.planted} copies with placeholders" in report.describe()
