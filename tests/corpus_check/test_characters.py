"""Characters: what should not be in text is found in its place, and what a script needs is not."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.corpus_check.blocks import Side
from dragoman.corpus_check.characters import find_characters
from dragoman.corpus_check.issues import Sighting

ODD = {
    "NUL": "\0",
    "tab": "\t",
    "carriage return inside": "\r",
    "exotic line break": "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029",
    "control character": "\x01\x08\x0e\x1b\x1f\x7f\x81\x8d\x8f\x90\x9d\ufdd0\ufffe\uffff\U0001ffff",
    "Windows-1252 read as Latin-1": "\x80\x82\x84\x86\x8c\x8e\x91\x9c\x9e\x9f",
    "replacement character": "\ufffd",
    "byte-order mark inside": "\ufeff",
    "private-use character": "\ue000\uf8ff\U000f0000\U0010fffd",
    "invisible character": "\xad\u200b\u2060\u200e\u200f\u202a\u202e\u2066\u200d\u200c",
}


def find(lines: list[str]) -> list[Sighting]:
    return list(find_characters(Side(lines), 1))


def kinds(lines: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for sighting in find(lines):
        found.setdefault(sighting.kind, []).append(sighting.row)
    return found


@pytest.mark.parametrize("kind", ODD)
def test_every_odd_character_is_found_in_its_place(kind: str) -> None:
    for character in ODD[kind]:
        code = f"U+{ord(character):04X} at character"
        assert find(["clean", f"ab{character}c{character}", "é", f"{'x' * 9}{character}"]) == [
            Sighting(kind, 1, 1, 2, f"{code} 3"), Sighting(kind, 3, 1, 9, f"{code} 10")
        ]  # fmt: skip


@pytest.mark.parametrize(
    "markup",
    ["&amp;", "&#39;", "&#x27;", "&quot;", "&nbsp;", "<br/>", "<br />", "<BR>", "<b>", "</b>", '<a href="x?y=1">',
     "<font color=red>", "<ph id='1'/>", "</seg>", "<h1>"],
)  # fmt: skip
def test_markup_is_found_in_its_place(markup: str) -> None:
    kind = "HTML entities or tags"
    assert find(["clean", f"ab {markup} c {markup}", "&", f"é{markup}"]) == [
        Sighting(kind, 1, 1, 3, markup), Sighting(kind, 3, 1, 1, markup)
    ]  # fmt: skip


CLEAN = [
    # A lone & or < is text.
    "R&B; AT&T; Q&A", "a & b; c", "1 < 2 > 0", "I <3 you", "<<Bonjour>>", "x <- y -> z", "< b >", "&;",
    "if a<b && c>d", "&unheard;", "<Name>", "<laughs loudly>", "http://a/?b=1&c=2", "& <", "a < b = c >",
    # Some scripts need invisible characters, and so do emoji.
    "שלום\u200f 123", "\u202bمرحبا\u202c",
    "Plain ASCII, with punctuation: {}[]~|\\^`", "Ünïcode – “quotes” « guillemets » … € №", "می‌خواهم به خانه بروم",
    "ශ්‍රී ලංකා", "क्‍ष", "این فایل PDF\u200cهاست", "ខ្ញុំ\u200bចូលចិត្ត\u200bFacebook\u200bណាស់", "ฉัน\u200bไป\u200bโรงเรียน",
    "ຂ້ອຍ\u200bໄປ", "ကျွန်တော်\u200bသွား\u200bသည်", "👩‍👩‍👧 🏳️‍🌈", "日本語、中文。한국어", "a\u00a0b\u3000c",
    # Accented letters before quotation marks are not mojibake.
    "« l'Amitié\xa0»", "“CAFÉ” et “THÉ”", "Il a dit « Â » et “Ô”", "À… là… où…", "ÑANDÚ–ÑU", "10 °C ± 2 µm ½",
    "CAFÉ© 2020", "ÅÄÖ åäö",
]  # fmt: skip


@pytest.mark.parametrize("line", CLEAN)
def test_what_belongs_in_text_is_not_found(line: str) -> None:
    assert find([line]) == []


@pytest.mark.parametrize(
    "line", ["a\u200c word", "PDF\u200c", "naïve\u200b’s", "一\u200b二", "слово\u200bслово", "x\u200d"]
)
def test_invisible_characters_that_a_script_does_not_need_are_found(line: str) -> None:
    assert [sighting.kind for sighting in find([line])] == ["invisible character"]


SENTENCES = [
    "Das Café am Straßeneck öffnet früh", "naïve façade, voilà", "“Don’t” – she said…", "Привет, как дела",
    "Καλημέρα κόσμε", "你好世界", "Zażółć gęślą jaźń", "l’été à la plage",
]  # fmt: skip


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_utf8_read_in_another_encoding_is_found(sentence: str, encoding: str) -> None:
    undefined = b"\x81\x8d\x8f\x90\x9d" if encoding == "cp1252" else b""
    broken = "".join(chr(b) if b in undefined else bytes([b]).decode(encoding) for b in sentence.encode())
    assert kinds(["fine", broken, sentence])["wrong encoding"] == [1]


@given(st.lists(st.text(st.sampled_from("aeée\u0301\u0308öo ")), max_size=8))
def test_decomposed_lines_are_those_that_change(lines: list[str]) -> None:
    apart = [row for row, line in enumerate(lines) if unicodedata.normalize("NFC", line) != line]
    found = find([*lines, "x"])
    assert [(sighting.kind, sighting.row) for sighting in found] == [("not in NFC", row) for row in apart]
    for _, row, _, place, _ in found:
        assert unicodedata.normalize("NFC", lines[row])[:place] == lines[row][:place]
