import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TextConfig
from dragoman.inference.segmentation import LineEncoder, split_sentence, split_sentences
from dragoman.text.subwords import SubwordModel, learn_subwords

PLAIN = [
    "The cat sat on the mat.",
    "Он читает книгу, а она пишет.",
    "我喜欢喝茶。你呢？",
    "वह घर जाता है।",
    "سلام، كيف حالك؟",
]
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
MARKS = [
    "a",
    "B",
    " ",
    "  ",
    ". ",
    "! ",
    "? ",
    ", ",
    "; ",
    "\u00a0",
    "\u3000",
    "。",
    "！",
    "，",
    "я",
    "好",
    "1",
    "3.14",
    "cat",
]
MORE = ["Mat", "é", "\u0301", FAMILY, "\t", "»", '"', "…", "—"]
TEXTS = st.lists(st.sampled_from([*MARKS, *MORE])).map("".join)


@pytest.fixture(scope="module")
def subwords() -> SubwordModel:
    return learn_subwords(PLAIN * 20, TextConfig(vocab_size=340))


@pytest.fixture(scope="module")
def in_subwords(subwords: SubwordModel) -> object:
    return lambda texts: [len(ids) + 1 for ids in subwords.encode(texts)]


def in_words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) + 1 for text in texts]


def in_characters(texts: Sequence[str]) -> list[int]:
    return [len(text.strip()) + 1 for text in texts]


def pieces(line: str, limit: int) -> list[str]:
    return [piece.strip() for piece in split_sentence(line, limit, in_words)]


@given(TEXTS | st.text(), st.integers(6, 30))  # "▁", four bytes and the end are six
def test_nothing_is_lost_and_every_piece_fits(in_subwords, line: str, limit: int) -> None:  # type: ignore[no-untyped-def]
    parts = list(split_sentence(line, limit, in_subwords))
    assert "".join(parts) == line
    assert max(in_subwords([part.strip() for part in parts]), default=0) <= limit


@pytest.mark.parametrize("text", PLAIN)
def test_every_piece_fits_in_long_lines_of_every_script(in_subwords, text: str) -> None:  # type: ignore[no-untyped-def]
    for line in (text * 50, re.sub(r"\W", "", text) * 50, (text + " ") * 50):
        for limit in (8, 31, 100):
            parts = list(split_sentence(line, limit, in_subwords))
            assert "".join(parts) == line
            assert max(in_subwords(parts)) <= limit


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["Mr. Smith paid 3.14 dollars.", "Then he left (quickly!).", "Why?", "J. R. R. Tolkien wrote."]),
        ("en", ["See No. 5 and p. 12 of it.", "I am here, i.e. in May.", "Is it?!", "Yes!"]),
        ("en-GB", ['"Why?" he asked.', "“No,” she said.", "“Never!”", "He left..."]),
        ("de", ["Das ist z. B. gut.", "Hr. Dr. Meier kam am 3. Mai.", "„Komm!“", "Er ging."]),
        ("fr", ["« Viens ! » dit-il.", "« Non ! »", "Elle part.", "M. Dupont reste.", "Où vas-tu ?", "Ici."]),
        ("es", ["¿Qué tal?", "¡Muy bien!", "Gracias."]),
        ("hi", ["क्या हाल है?", "मैं ठीक हूँ।", "तुम कैसे हो?"]),
        ("ar", ["هل أنت هنا؟", "نعم، أنا هنا.", "شكرا."]),
        ("ru", ["Как дела?", "Хорошо.", "Я живу на ул. Ленина."]),
        ("mr", ["ते घरी आहेत.", "आम्ही जातो."]),
        ("ar", ["ذَهَبَ الوَلَد.", "جَاءَ."]),
        ("en", ["Cannot open file %s.", "Close 3.", "(J. Smith) left."]),
        ("he", ["שָׁלוֹם.", "מָה שְׁלוֹמְךָ?"]),
        ("xx", ["Unu.", "Du!", "Ĉu tri?"]),
    ],
)
def test_sentences_are_found_in_many_languages(language: str, sentences: list[str]) -> None:
    for code in (language, language.upper(), f"{language}_Xxxx"):
        assert [piece.strip() for piece in split_sentences("  ".join(sentences), code)] == sentences


def test_sentences_without_spaces_between_them() -> None:
    text = "他说：“你好。”我走了！真的？「はい。」と言った。"
    assert split_sentences(text, "zh") == ["他说：“你好。”", "我走了！", "真的？", "「はい。」", "と言った。"]


@given(TEXTS | st.text(), st.sampled_from(["en", "de", "fr", "ja", "xx"]))
def test_sentences_are_the_text_and_each_has_a_word(line: str, language: str) -> None:
    sentences = split_sentences(line, language)
    assert "".join(sentences) == line
    assert all(re.search(r"\w", sentence) for sentence in sentences[1:])


def test_a_long_sentence_is_cut_first_where_sentences_may_end() -> None:
    assert pieces("the cat sat. the dog ran. mr. smith saw them here.", 6) == [
        "the cat sat.",
        "the dog ran.",
        "mr.",
        "smith saw them here.",
    ]


def test_clauses_come_before_spaces_and_spaces_before_the_rest() -> None:
    assert pieces("a b c, d e f; g h i", 6) == ["a b c,", "d e f;", "g h i"]
    assert pieces("one – two three four", 5) == ["one", "– two three four"]
    assert pieces("a b c, d e f", 5) == ["a b c,", "d e f"]
    assert pieces("a b c d e f", 5) == ["a b c", "d e f"]
    assert list(split_sentence("abcdef", 5, in_characters)) == ["abc", "def"]
    assert list(split_sentence("我喝茶，你喝水", 6, in_characters)) == ["我喝茶，", "你喝水"]
    assert pieces("at 12:30 for 1,000 of it", 6) == ["at 12:30 for", "1,000 of it"]  # no cuts inside numbers


def test_clauses_and_words_are_packed_evenly() -> None:
    assert pieces("a, b, c, d, e, f,", 5) == ["a, b, c,", "d, e, f,"]
    lengths = [len(piece.split()) for piece in pieces("w " * 100, 41)]
    assert lengths == [33, 34, 33]


@pytest.mark.parametrize("grapheme", ["e\u0301", "o\u0302\u0323", FAMILY, "\U0001f44d\U0001f3fd", "कि"])
@pytest.mark.parametrize("limit", [7, 8, 9, 11])
def test_letters_keep_their_accents_and_families_stay_together(grapheme: str, limit: int) -> None:
    for piece in split_sentence(grapheme * 40, limit, in_characters):
        assert len(piece) % len(grapheme) == 0


def test_one_character_is_never_cut() -> None:
    assert list(split_sentence("ab", 2, lambda texts: [9 * len(text) + 1 for text in texts])) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("How to Install the Program on Your Phone", "How to install the program on your phone"),
        ("Install Program That Works on Phone!", "Install program that works on phone!"),
        ("Anna Says That the Phone Works", "Anna says that the phone works"),
        ("Install the Program Your Phone Has.", "Install the Program Your Phone Has."),  # a sentence
        ("Anna never Likes the Program", "Anna never Likes the Program"),
        ("How to Work", "How to Work"),  # too little to judge by
        ("安装 Program 到您的 Phone 您的 Install", "安装 Program 到您的 Phone 您的 Install"),
        ("you can have it if you do not like the Green House", "you can have it if you do not like the Green House"),
    ],
)
def test_a_heading_in_title_case_is_read_as_the_words_are_known_best(line: str, read: str) -> None:
    text = ["how to install the program on your phone", "you have what Anna says that works with it", "A N I P T S W H"]
    subwords = learn_subwords(text * 20, TextConfig(vocab_size=400))
    assert LineEncoder(subwords, 64, "en", is_source=True).read(line) == (read, [], False)
