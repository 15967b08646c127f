"""Characters: everything unwelcome is found where it stands, and no script's own way of writing is."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.corpus_check.blocks import Side
from dragoman.corpus_check.characters import (
    composed_lines,
    find_characters,
    find_decomposed,
    find_markup,
    find_mojibake,
    folding,
)
from dragoman.corpus_check.reasons import (
    BOM_INSIDE,
    CARRIAGE_RETURN,
    CONTROL,
    INVISIBLE,
    LINE_BREAK,
    NUL,
    PRIVATE_USE,
    READ_AS_LATIN1,
    REPLACEMENT,
    TAB,
    Reason,
)

UNWELCOME: list[tuple[Reason, str]] = [
    (NUL, "\0"),
    (TAB, "\t"),
    (CARRIAGE_RETURN, "\r"),
    (LINE_BREAK, "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
    (CONTROL, "\x01\x08\x0e\x1b\x1f\x7f\x81\x8d\x8f\x90\x9d\ufdd0\ufffe\uffff\U0001ffff"),
    (READ_AS_LATIN1, "\x80\x82\x84\x86\x8c\x8e\x91\x9c\x9e\x9f"),
    (REPLACEMENT, "\ufffd"),
    (BOM_INSIDE, "\ufeff"),
    (PRIVATE_USE, "\ue000\uf8ff\U000f0000\U0010fffd"),
    (INVISIBLE, "\xad\u200b\u2060\u200e\u200f\u202a\u202e\u2066\u200d\u200c"),
]


@pytest.mark.parametrize(("reason", "character"), [(r, c) for r, characters in UNWELCOME for c in characters])
def test_every_unwelcome_character_is_found_in_its_place(reason: Reason, character: str) -> None:
    side = Side(["clean", f"ab{character}c{character}", "é", f"{'x' * 9}{character}"])
    (sighting,) = find_characters(side, 1, False)
    assert (sighting.reason, sighting.side, sighting.rows.tolist()) == (reason, 1, [1, 3])
    assert list(sighting.places) == [2, 9]
    assert list(sighting.remarks) == [f"U+{ord(character):04X} at character {place}" for place in (3, 10)]


def test_windows_text_that_was_read_as_latin1_is_told_from_utf8_that_was() -> None:
    windows = "“L’été passe…”".encode("cp1252").decode("latin-1")
    ellipsis = "Et puis…".encode("cp1252").decode("latin-1")
    utf8 = "“L’été…”".encode().decode("latin-1")
    found = {s.reason: s.rows.tolist() for s in find_characters(Side(["clean", windows, ellipsis]), 0, False)}
    assert found == {READ_AS_LATIN1: [1, 2]}
    assert READ_AS_LATIN1 not in {s.reason for s in find_characters(Side(["clean", utf8]), 0, False)}
    found = {s.reason: s.rows.tolist() for s in find_characters(Side([utf8, windows]), 0, False)}
    assert found[READ_AS_LATIN1] == [1]


@pytest.mark.parametrize(
    "markup",
    ["&amp;", "&#39;", "&#x27;", "&quot;", "&nbsp;", "<br/>", "<br />", "<BR>", "<b>", "</b>", '<a href="x?y=1">',
     "<font color=red>", "<ph id='1'/>", "</seg>", "<h1>"],
)  # fmt: skip
def test_markup_is_found_in_its_place(markup: str) -> None:
    (sighting,) = find_markup(Side(["clean", f"ab {markup} c {markup}", "&", f"é{markup}"]), 1)
    assert (sighting.reason.name, sighting.side, sighting.rows.tolist()) == ("HTML entities or tags", 1, [1, 3])
    assert list(sighting.places) == [3, 1]
    assert set(sighting.remarks) == {markup}


@pytest.mark.parametrize(
    "line",
    ["R&B; AT&T; Q&A", "a & b; c", "1 < 2 > 0", "I <3 you", "<<Bonjour>>", "x <- y -> z", "< b >", "&;",
     "if a<b && c>d", "&unheard;", "<Name>", "<laughs loudly>", "http://a/?b=1&c=2", "& <", "a < b = c >"],
)  # fmt: skip
def test_a_lone_sign_is_text(line: str) -> None:
    assert list(find_markup(Side([line, "clean"]), 0)) == []


WELCOME = [
    "Plain ASCII, with punctuation: {}[]~|\\^`",
    "Ünïcode – “quotes” « guillemets » … € №",
    "می‌خواهم به خانه بروم",  # ZWNJ
    "ශ්‍රී ලංකා",  # ZWJ
    "क्‍ष",
    "این فایل PDF\u200cهاست",
    "ខ្ញុំ\u200bចូលចិត្ត\u200bFacebook\u200bណាស់",
    "ฉัน\u200bไป\u200bโรงเรียน",
    "ຂ້ອຍ\u200bໄປ",
    "ကျွန်တော်\u200bသွား\u200bသည်",
    "👩‍👩‍👧 🏳️‍🌈",
    "日本語、中文。한국어",
    "a\u00a0b\u3000c",
]


@pytest.mark.parametrize("line", WELCOME)
def test_what_scripts_need_is_welcome(line: str) -> None:
    side = Side([line])
    assert list(find_characters(side, 0, False)) == []
    assert list(find_mojibake(side, 0)) == []


@pytest.mark.parametrize(
    "line", ["a\u200c word", "PDF\u200c", "naïve\u200b’s", "一\u200b二", "слово\u200bслово", "x\u200d"]
)
def test_what_scripts_do_not_need_is_not_welcome(line: str) -> None:
    (sighting,) = find_characters(Side([line]), 0, True)
    assert sighting.reason == INVISIBLE


def test_direction_marks_are_at_home_in_scripts_from_right_to_left() -> None:
    side = Side(["שלום\u200f 123", "\u202bمرحبا\u202c"])
    assert list(find_characters(side, 0, True)) == []
    assert [s.rows.tolist() for s in find_characters(side, 0, False)] == [[0, 1]]


SENTENCES = [
    "Das Café am Straßeneck öffnet früh",
    "naïve façade, voilà",
    "“Don’t” – she said…",
    "Привет, как дела",
    "Καλημέρα κόσμε",
    "你好世界",
    "Zażółć gęślą jaźń",
    "l’été à la plage",
]


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_utf8_that_was_read_as_something_else_is_found(sentence: str, encoding: str) -> None:
    data = sentence.encode()
    broken = "".join(
        bytes([byte]).decode(encoding) if encoding == "latin-1" or byte not in b"\x81\x8d\x8f\x90\x9d" else chr(byte)
        for byte in data
    )
    (sighting,) = find_mojibake(Side(["fine", broken, sentence]), 0)
    assert sighting.rows.tolist() == [1]


@pytest.mark.parametrize(
    "line",
    [
        *SENTENCES,
        "« l'Amitié\xa0»",
        "“CAFÉ” et “THÉ”",
        "Il a dit «Â» et “Ô”",
        "IRMÃ” “MAÇÔ",
        "À… là… où…",
        "ÑANDÚ–ÑU",
        "É«Â»",
        "10 °C ± 2 µm ½",
        "CAFÉ© 2020",
        "ÅÄÖ åäö",
    ],
)
def test_accents_before_quotation_marks_are_no_such_thing(line: str) -> None:
    assert list(find_mojibake(Side([line]), 0)) == []


@given(st.lists(st.text(st.sampled_from("aeée\u0301\u0308öo ")), max_size=8))
def test_decomposed_lines_are_those_that_change(lines: list[str]) -> None:
    side = Side([*lines, "x"])
    apart = [row for row, line in enumerate(lines) if unicodedata.normalize("NFC", line) != line]
    found = list(find_decomposed(side, 1))
    assert [row for sighting in found for row in sighting.rows.tolist()] == apart
    for sighting in found:
        for row, place in zip(sighting.rows.tolist(), sighting.places, strict=True):
            assert unicodedata.normalize("NFC", lines[row])[:place] == lines[row][:place]
    whole = [n for n, line in enumerate(lines) if n not in apart and unicodedata.normalize("NFD", line) != line]
    assert composed_lines(side) == len(whole)


@given(st.text())
def test_folding_keeps_letters_in_lower_case_and_drops_the_rest(text: str) -> None:
    for character in text:
        folded = int(folding()[ord(character)])
        category = unicodedata.category(character)
        if character != "\n" and (category == "Nd" or category[0] in "PSZC") and ord(character) < 0x20000:
            assert folded == 0
        elif category[0] == "L":
            assert folded in (ord(character), ord(character.casefold()[:1]))
            if len(character.lower()) == 1 and character.isupper() and len(character.casefold()) == 1:
                assert chr(folded) == character.casefold()
