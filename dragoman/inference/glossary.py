"""Terms whose translation is given. Where a translation lacks one, the search goes again from the word in its place.

The place is read from the alignment. Whatever stands before it stays, the term follows, and the model writes the rest.
"""

import re
from collections.abc import Mapping

from dragoman.config import require
from dragoman.inference.alignment import Alignment
from dragoman.text.languages import has_spaces

_ENDING = 2  # letters by which a longer term may differ, as inflected words do
_LONG = 6


class Glossary:
    """Source terms and their translations, for languages that are written with spaces between words."""

    def __init__(self, terms: Mapping[str, str], source: str, target: str) -> None:
        """Take terms of two languages, by their codes; a term also stands for itself with a capital.

        Raises:
            ConfigError: a language is written without spaces, or a term or its translation is empty.
        """
        spaced = has_spaces(source) and has_spaces(target)
        require(spaced, f"glossaries need spaces between words, which {source} or {target} is written without")
        require(all(map(str.strip, (*terms, *terms.values()))), "a term or its translation is empty")
        self._terms = {term[:1].upper() + term[1:]: own for term, own in terms.items()} | dict(terms)
        longest_first = sorted(self._terms, key=len, reverse=True)
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first)) or '(?!)'})(?!\w)")

    def missing(self, source: str, translation: str) -> list[tuple[range, str]]:
        """The terms of a source whose translation is missing, each as the places of its words, and the translation.

        A word that begins with the term is enough, of a long term all but two letters: words are inflected.
        """
        found = []
        for match in self._pattern.finditer(source):
            term, first = self._terms[match[0]], len(source[: match.start()].split())
            stem = term[:-_ENDING] if len(term) >= _LONG else term
            if not re.search(rf"(?<!\w){re.escape(stem)}", translation, re.IGNORECASE):
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
