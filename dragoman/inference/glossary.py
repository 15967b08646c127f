"""Terms whose translation is given. Where a translation lacks one, the search goes again from the word in its place.

The place is read from the alignment. Whatever stands before it stays, the term follows, and the model writes the rest.
"""

import re
from collections.abc import Mapping

from dragoman.config import require
from dragoman.inference.alignment import Alignment
from dragoman.text.languages import LETTER, has_spaces

_ENDING, _TAIL = 2, 4  # last letters that a long term may lack, and letters that may follow, as words are inflected
_LONG = 6


class Glossary:
    """Source terms and their translations, for languages that are written with spaces between words."""

    def __init__(self, terms: Mapping[str, str], source: str, target: str) -> None:
        """Take terms of two languages, by their codes; a term also stands for itself with a capital, or in capitals.

        Raises:
            ConfigError: a language is written without spaces, or a term or its translation is empty.
        """
        for code in (source, target):
            require(has_spaces(code), f"glossaries need spaces between words, which {code} is written without")
        require(all(map(str.strip, (*terms, *terms.values()))), "a term or its translation is empty")
        plain = {term[:1].upper() + term[1:]: own for term, own in terms.items()} | dict(terms)
        self._terms = plain, {term.upper(): own for term, own in terms.items()}  # the latter for lines in capitals
        longest = (map(re.escape, sorted(own, key=len, reverse=True)) for own in self._terms)
        self._patterns = [re.compile(rf"(?<!{LETTER})(?:{'|'.join(own) or '(?!)'})(?!{LETTER})") for own in longest]

    def missing(self, source: str, translation: str) -> list[tuple[range, str]]:
        """The terms of a source whose translation is missing, each as the places of its words, and the translation.

        An inflected form of it is enough.
        """
        found, capitals = [], source.isupper()
        for match in self._patterns[capitals].finditer(source):
            before = f"{source[: match.start()]}."  # ends in a word, also after a bracket
            term, first = self._terms[capitals][match[0]], len(before.split()) - 1
            stem = term[:-_ENDING] if len(term) >= _LONG else term
            inflected = rf"(?<!{LETTER}){re.escape(stem)}{LETTER}{{0,{_TAIL}}}(?!{LETTER})"
            if not re.search(inflected, translation, re.IGNORECASE):
                found.append((range(first, first + len(match[0].split())), term))
        return found

    def beginning(self, source: str, alignment: Alignment) -> str:
        """A beginning for the translation, which ends in the first term that it lacks; empty if it has no place."""
        words, places = alignment.target, dict[int, str]()
        for own, term in self.missing(source, " ".join(words)):
            linked = [target for source, target in alignment.links if source in own]
            if linked:
                places.setdefault(max(linked, key=lambda place: len(words[place])), term)  # not its article
        if not places:
            return ""
        place, term = min(places.items())
        opening = re.match(r"\W*", words[place])
        term = term[:1].upper() + term[1:] if place == 0 else term
        return " ".join([*words[:place], (opening[0] if opening else "") + term])
