"""Raw lines as segments that a model can translate: sentences, because models are trained on single sentences.

A sentence that is too long is cut after clauses, at spaces, or else anywhere.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby, pairwise
from operator import itemgetter

import sentencex

from dragoman.config import EOS, DragomanError
from dragoman.text.languages import base_code
from dragoman.text.placeholders import mask, restore
from dragoman.text.subwords import SubwordModel

Count = Callable[[Sequence[str]], list[int]]
"""The number of subwords of each text, the end included."""

_ENDS = ".!?…‽։。！？｡।॥؟۔።፧។៕༎"
# Marks that end a clause, with a space after them, and in scripts that need none.
_PAUSES, _PAUSES_AT_ONCE = ",;:", "、，；：،؛།፣፤၊"
_CLOSING_AT_ONCE = "\"'”’»›)\\]}」』）】》〉｣"
_CLOSING = _CLOSING_AT_ONCE + "“‘«‹"  # some languages close with what others open with
# A mark that needs a space is matched only where its run begins, so that a long run is read once.
_SENTENCE_END = re.compile(rf"(?<![{_ENDS}])[{_ENDS}]+[{_CLOSING}]*\s+")
_CLAUSE_END = re.compile(
    rf"(?<![{_PAUSES}])[{_PAUSES}]+[{_CLOSING}]*\s+"
    rf"|[{_PAUSES_AT_ONCE}]+[{_CLOSING_AT_ONCE}]*\s*"
    r"|(?<!\s)\s+(?=[–—]\s)"
)
_LETTERS, _WORD = re.compile(r"[^\W\d_]+"), re.compile(r"\w")
_INITIAL = re.compile(r"(?:^|[\s.(\[«„“\"-])[^\W\d_]\.\s*$")
_JOINER, _SKIN_TONES = "\u200d", "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


@dataclass(frozen=True)
class Segment:
    """A line to translate, or a part of one."""

    line: int  # its index
    ids: list[int]  # source ids, ending with EOS
    source: str = ""  # text of a part; empty for a whole line


@dataclass(frozen=True)
class LineEncoder:
    """Turns raw lines of one language into ids, and cuts or refuses those that are too long."""

    subwords: SubwordModel
    max_length: int
    """Most subwords that the model takes, the end included."""
    language: str
    """Its code, for the rules by which text is split into sentences."""
    is_source: bool = False
    """Whether the lines are sources, which are read as the model knows them best."""
    tag: str = ""
    """What a line without a tag begins with, for a model of several target languages."""

    def read(self, line: str) -> tuple[str, list[str], bool]:
        """A line as the model reads it, its placeholders, and whether its translation is to be in capitals.

        In a source, placeholders become symbols, if the model has them; all else is spelt as the model knows it best.
        """
        if not self.is_source:
            return line, [], False
        masked, placeholders = mask(line) if self.subwords.has_symbols else (line, [])
        tag, text = self.subwords.split_tag(masked)
        text = self.subwords.readable(text.strip())
        capitals = text.isupper() and all(map(str.isupper, filter(str.isalpha, text)))
        unusual = (capitals or _is_in_title_case(text)) and not self.subwords.has_capitals
        respelt = self.subwords.respelt(text) if unusual else text
        return tag + respelt, placeholders, capitals and respelt != text

    def restorer(self, source: str) -> Callable[[str], tuple[str, list[str]]]:
        """What makes of a translation of this line, as the model writes it, the text for people, as restore does."""
        _, placeholders, capitals = self.read(source)
        return lambda text: restore(text.upper() if capitals else text, placeholders)

    def encode(self, lines: Sequence[str], names: Iterable[str]) -> list[list[int]]:
        """The ids of each raw line, with EOS; a line longer than the model takes is a DragomanError with its name."""
        found = self._encode_tagged(lines)
        for name, ids in zip(names, found, strict=True):
            if len(ids) > self.max_length:
                most = f"the model takes at most {self.max_length:,} subwords"
                raise DragomanError(f"{name} has {len(ids):,} subwords, but {most}: split it into sentences")
        return found

    def fits(self, lines: Sequence[str]) -> list[bool]:
        """Whether the model takes each raw line."""
        return [len(ids) <= self.max_length for ids in self._encode_tagged(lines)]

    def segments(self, lines: Sequence[str], longest: int, first_line: int, split: bool = True) -> Iterator[Segment]:
        """What to translate of each line that is not empty, in order: its sentences, or if not split, all as one.

        Sentences of more than longest subwords are cut into parts. Messages count lines from first_line.
        """
        pieces = []
        for i, line in enumerate(lines):
            own, text = self.subwords.split_tag(line.strip())
            tag = own or self.tag
            sentences = split_sentences(text, self.language) if split else [text]
            pieces += [(i, tag, text, sentence) for sentence in sentences]
        all_ids = self._encode([tag + sentence.strip() for _, tag, _, sentence in pieces])
        for (i, tag, text, sentence), ids in zip(pieces, all_ids, strict=True):
            if len(ids) > longest:
                yield from self._parts(i, tag, sentence, longest - bool(tag), f"source line {first_line + i:,}")
            elif len(ids) > 1 + bool(tag):
                yield Segment(i, ids, "" if sentence == text else tag + sentence)

    def _parts(self, place: int, tag: str, text: str, limit: int, name: str) -> Iterator[Segment]:
        """The parts of a long text; a tag is put before each part."""
        sentences = split_sentences(text, self.language)
        sources = [part for one in sentences for part in split_sentence(one, limit, self._count)]
        encoded = self.encode([tag + source.strip() for source in sources], [name] * len(sources))
        for source, ids in zip(sources, encoded, strict=True):
            if len(ids) > 1 + bool(tag):
                yield Segment(place, ids, tag + source)

    def _encode_tagged(self, lines: Sequence[str]) -> list[list[int]]:
        return self._encode([line if self.subwords.split_tag(line)[0] else self.tag + line for line in lines])

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        # Hardly any training sentence begins with a tab or a no-break space: a model may make anything of one.
        return [[*ids, EOS] for ids in self.subwords.encode([self.read(line.strip())[0] for line in lines])]

    def _count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self._encode(texts)]


def _is_in_title_case(text: str) -> bool:
    """Whether Most Words Begin with Capitals, as in an English Heading: all of five letters and more."""
    words = [] if text.endswith(".") else _LETTERS.findall(text)
    longer = [word for word in words[1:] if len(word) > 4]
    starts = [word[0].isupper() for word in words]
    is_cased = all(word.lower() != word.upper() for word in words)  # no Chinese or Arabic with names in it
    return is_cased and len(longer) > 1 and all(word[0].isupper() for word in longer) and 2 * sum(starts) > len(starts)


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a text in a language (a code such as en or pt-BR); together they are the text.

    sentencex knows the marks and abbreviations of most languages, and takes the rules of English for the others.
    """
    sentences: list[str] = []
    for piece in sentencex.segment(base_code(language), text):
        is_whole = sentences and _WORD.search(sentences[-1]) and not _INITIAL.search(sentences[-1])  # "M. Martin"
        if is_whole and _WORD.search(piece):
            sentences.append(piece)
        else:
            sentences[-1:] = ["".join([*sentences[-1:], piece])]
    return sentences


def split_sentence(text: str, limit: int, count: Count, kind: int = 0) -> Iterator[str]:
    """Cut a sentence into consecutive pieces of at most limit subwords, the end included; together they are the text.

    It is cut after marks that end sentences (before a small letter, or what was taken for an abbreviation), then after
    clauses, at spaces, and a word that is too long anywhere, each into few pieces of similar size. A single character
    is never cut, even if it has more subwords. kind is the first of _KINDS to cut by.
    """
    if kind == len(_KINDS):
        yield text
        return
    places = [0, *_KINDS[kind](text), len(text)]
    parts = [text[start:end] for start, end in pairwise(places) if start < end]
    for too_long, run in groupby(zip(parts, count(parts), strict=True), key=lambda sized: sized[1] > limit):
        some, sizes = zip(*run, strict=True)
        if too_long:
            for part in some:
                yield from split_sentence(part, limit, count, kind + 1)
        elif kind == 0:
            yield from some
        else:
            yield from _packed(some, sizes, limit, count)


def _packed(parts: Sequence[str], sizes: Sequence[int], limit: int, count: Count) -> Iterator[str]:
    """Join parts that fit into few pieces of similar size that fit; sizes are those of the parts."""
    text = "".join(parts)
    (total,) = count([text])
    if len(parts) == 1 or total <= limit:
        yield text
        return
    number = max(2, -(-(total - 1) // max(1, limit - 1)))
    ends = list(accumulate(sizes))
    groups = [int((end - size / 2) / ends[-1] * number) for end, size in zip(ends, sizes, strict=True)]
    for _, group in groupby(zip(groups, parts, sizes, strict=True), key=itemgetter(0)):
        _, some, their_sizes = zip(*group, strict=True)
        yield from _packed(some, their_sizes, limit, count)


def _after(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    return (mark.end() for mark in pattern.finditer(text))


def _between_letters(text: str) -> Iterator[int]:
    """Every place that separates no letter from its accents and cuts no emoji."""
    for place, (before, after) in enumerate(pairwise(text), start=1):
        joined = _JOINER in (before, after) or after in _SKIN_TONES or unicodedata.category(after).startswith("M")
        if not joined:
            yield place


# From the cuts that hurt least to those that hurt most.
_KINDS: tuple[Callable[[str], Iterable[int]], ...] = (
    partial(_after, _SENTENCE_END),
    partial(_after, _CLAUSE_END),
    partial(_after, re.compile(r"\s+")),
    _between_letters,
    lambda text: range(1, len(text)),
)
