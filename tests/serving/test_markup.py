import asyncio
from html import escape

import pytest
from bs4 import BeautifulSoup
from bs4.element import NavigableString
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import DragomanError
from dragoman.inference.alignment import Alignment
from dragoman.serving.markup import translate_markup
from dragoman.serving.texts import Answer


async def upside(texts: list[str]) -> list[Answer]:
    """Words backwards and in capitals, each aligned to its own, which a model has read in small letters."""
    answers = []
    for text in texts:
        words = text.split()
        lead, trail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        turned = [word.upper() for word in words[::-1]]
        links = [(len(words) - 1 - i, i) for i in range(len(words))]
        answers.append(
            Answer(
                lead + " ".join(turned) + trail, alignment=Alignment(links, [word.lower() for word in words], turned)
            )
        )
    return answers


def turned(document: str, has_symbols: bool = True) -> str:
    (found,) = asyncio.run(translate_markup([document], upside, has_symbols))
    return found


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("plain &amp; simple", "SIMPLE &amp; PLAIN"),
        ("a <b>b c</b> d", "D <b>C B</b> A"),
        ("<a href='x' id='y'>this page</a>, please", 'PLEASE <a href="x" id="y">PAGE</a>, <a href="x">THIS</a>'),
        ("<a href='x' id='y'>a b</a> c d <i>e</i>", '<i>E</i> D C <a href="x" id="y">B A</a>'),
        ("<em>red <b>car</b></em> here", "HERE <em><b>CAR</b> RED</em>"),
        ("The <b>Red Car</b> Is <i>Here</i>", "<i>HERE</i> IS <b>CAR RED</b> THE"),
        ("one<br>two <img src=i>three", 'ONE<br><img src="i">THREE TWO'),
        ("<p> a\n  b </p><!-- c --><ul><li>c d</ul>", "<p> B A </p><!-- c --><ul><li>D C</li></ul>"),
        ("<div>a b<p>c d</p>e f</div>", "<div>B A<p>D C</p>F E</div>"),
        ('<i class="icon"></i> Home <input disabled>', '<i class="icon"></i> HOME <input disabled>'),
        ("<script>a < b</script><pre>a b</pre>c d", "<script>a < b</script><pre>a b</pre>D C"),
        ("<p translate=no>a</p><p class='x notranslate'>c", '<p translate="no">a</p><p class="x notranslate">c</p>'),
        ("<a>Open settings <img src=i></a>", '<a>SETTINGS OPEN<img src="i"></a> '),
        ("<p>Use {#1} here</p>", "<p>HERE {#1} USE</p>"),
        ("<p>İİİİ <b>güzel</b> şehir</p>", "<p>ŞEHIR <b>GÜZEL</b> İİİİ</p>"),  # small letters of İ are two
        ("", ""),
        (" <b> </b> ", " <b> </b> "),
    ],
)  # fmt: skip
def test_tags_go_where_their_words_go(document: str, expected: str) -> None:
    assert turned(document) == expected


def test_code_in_a_sentence_is_a_placeholder_or_stands_before_the_next_word() -> None:
    document = "set <code>x y</code> to <span translate=no>p q</span> now"
    expected = 'NOW <span translate="no">p q</span> TO <code>x y</code> SET'
    assert turned(document) == expected
    assert turned(document, has_symbols=False) == '<span translate="no">p q</span>NOW <code>x y</code>TO SET'


def test_what_a_translation_loses_is_not_lost() -> None:
    async def forgetful(texts: list[str]) -> list[Answer]:
        assert texts == ["the {#~0} old house"]
        return [Answer("maison", alignment=Alignment([(3, 0)], texts[0].split(), ["maison"]))]

    document = 'the <code>x</code> <a href="y">old</a> house'
    assert asyncio.run(translate_markup([document], forgetful, True)) == ['<a href="y">maison</a><code>x</code>']


def test_a_translation_without_alignment_keeps_its_text() -> None:
    async def unaligned(texts: list[str]) -> list[Answer]:
        return [Answer(text.upper()) for text in texts]

    assert asyncio.run(translate_markup(["a <b>b</b> c"], unaligned, True)) == ["A B C"]


def test_what_cannot_be_parsed_is_refused() -> None:
    with pytest.raises(DragomanError, match="parsed"):
        turned("<div>" * 20_000 + "x")


WORD = st.text("abc", min_size=1, max_size=3)
TREES = st.recursive(
    WORD | st.just(" "),
    lambda inner: st.builds(
        lambda name, parts: f"<{name}>{' '.join(parts)}</{name}>",
        st.sampled_from(["b", "i", "span", "p", "a"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=12,
)


def dressed(document: str) -> list[tuple[str, tuple[str, ...]]]:
    """Every word with the elements around it, sorted."""
    strings = [node for node in BeautifulSoup(document, "html.parser").descendants if type(node) is NavigableString]
    return sorted((w.upper(), tuple(tag.name for tag in node.parents)) for node in strings for w in str(node).split())


@given(st.lists(TREES, max_size=4).map(" ".join))
def test_every_word_keeps_the_elements_around_it(document: str) -> None:
    assert dressed(turned(document)) == dressed(document)


@given(st.text(max_size=30))
def test_any_text_is_escaped_as_it_was(text: str) -> None:
    plain = turned(escape(text))
    assert BeautifulSoup(plain, "html.parser").get_text().split() == [w.upper() for w in text.split()[::-1]]
