"""The phrasebook is what its tool generates, and reads like a handbook of French says."""

import gzip
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from dragoman.config import DragomanError
from dragoman.datasets.phrasebook import PHRASEBOOK_FILE, write_phrasebook
from tests.texts_at_hand import phrasebook
from tools.phrasebook.__main__ import as_table
from tools.phrasebook.corpus import HELD_OUT, generate_phrasebook
from tools.phrasebook.everyday import FOLDER, Line, expand, read_lines
from tools.phrasebook.frames import frames, generate_grammar, sentences
from tools.phrasebook.variations import addressed, as_typed, bare

BOOK, GRAMMAR = phrasebook(), generate_grammar()
PAIRS = GRAMMAR.train + GRAMMAR.valid + GRAMMAR.test
FRENCH = [french for _, french in PAIRS]
WRITTEN = [line for path in sorted(FOLDER.glob("*.tsv")) for line in read_lines(path)]

MONTHS = "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre"
VOWEL = r"(?!haricot|Hollande|huit|onze)[aeiouhâàéèêîôœAEIOUHÉÈÊŒ]"


# ------------------------------------------------------------------------------------------------ corpus and split


def test_the_tool_still_writes_what_is_shipped() -> None:
    assert as_table(generate_phrasebook()) == gzip.decompress(PHRASEBOOK_FILE.read_bytes())


def test_the_parts_share_no_sentence() -> None:
    parts = BOOK._asdict()
    assert all(len({english for english, _ in pairs}) == len(pairs) for pairs in parts.values())
    for side in (0, 1):
        sides = [{pair[side] for pair in pairs} for pairs in parts.values()]
        assert len(set().union(*sides)) == sum(map(len, sides))


def test_sentences_that_are_held_out_for_testing_are_nowhere_else_in_any_form() -> None:
    assert len(BOOK.everyday) == 200
    assert BOOK.everyday == [(line.english, line.french) for line in read_lines(HELD_OUT)]
    held = {bare(side) for pair in BOOK.everyday for side in pair}
    assert not held & {bare(side) for pair in BOOK.train + BOOK.valid + BOOK.test for side in pair}


def test_training_shows_thousands_of_words_often_enough() -> None:
    assert len(WRITTEN) >= 14_000
    words = Counter(word for _, french in BOOK.train for word in re.findall(r"\w+", french.lower()))
    assert sum(count >= 10 for count in words.values()) >= 3000


def test_a_line_expands_to_its_alternatives_in_step() -> None:
    line = Line("{1:I|You} [see|can see] {2:a dog|two cats} now.", "Maintenant, {2:un chien|deux chats} {1:A|B}.", "")
    found = set(expand(line, 9, random.Random(1)))
    assert {sentence.french for sentence in found} == {
        f"Maintenant, {what} {who}." for what in ("un chien", "deux chats") for who in "AB"
    }
    for sentence in found:
        assert ("I " in sentence.english) == (" A." in sentence.french)
        assert ("dog" in sentence.english) == ("chien" in sentence.french)
        assert re.search("(see|can see) ", sentence.english)
    assert len(list(expand(line, 3, random.Random(1)))) == 3


def test_a_name_decides_between_tu_and_vous() -> None:
    line, rng = Line("Where do you live?", "Où habitez-vous ?", "Où habites-tu ?"), random.Random(1)
    found = {pair for _ in range(50) for pair in addressed(line, rng)}
    assert {("Where do you live?", "Où habitez-vous ?"), ("Where do you live, Paul?", "Où habites-tu, Paul ?")} <= found
    assert ("Excuse me, where do you live?", "Excusez-moi, où habitez-vous ?") in found
    for english, french in found:
        polite = re.search("sir|madam|doctor|M(r|rs) |^(Excuse|Sorry|Hello|Please|Tell|By|Good)", english)
        assert ("habites-tu" in french) == ("," in english and not polite)
        assert bare(english) == bare(as_typed(english, rng)) == "where do you live"


def test_training_shows_the_fillers_of_held_out_sentences_in_their_frame_but_never_together() -> None:
    key_of = {sentence.english: sentence.key for frame in frames() for sentence in sentences(frame, 1)}
    train = {key_of[english] for english, _ in GRAMMAR.train}
    held = {key_of[english] for english, _ in GRAMMAR.valid + GRAMMAR.test}
    assert not train & held
    assert {key[0] for key in train} == {english for english, _ in frames()}
    for position in (1, 2):
        shown = {(key[0], key[position]) for key in train if len(key) > position}
        assert {(key[0], key[position]) for key in held if len(key) > position} <= shown
    assert len({key[0] for key in held}) > 0.9 * len(frames())


def test_written_files(tmp_path: Path) -> None:
    write_phrasebook(tmp_path / "new" / "folder")
    for name, pairs in BOOK._asdict().items():
        for side, language in enumerate(("en", "fr")):
            data = (tmp_path / "new" / "folder" / f"{name}.{language}").read_bytes()
            assert data.decode("utf-8") == "".join(f"{pair[side]}\n" for pair in pairs)
    (tmp_path / "new" / "folder" / "valid.en").unlink()  # as after an interruption
    write_phrasebook(tmp_path / "new" / "folder")
    (tmp_path / "new" / "folder" / "train.fr").write_text("mine")
    with pytest.raises(DragomanError, match=r"folder: already contains train\.fr, which would be lost"):
        write_phrasebook(tmp_path / "new" / "folder")


# ---- French, by the handbook

FORBIDDEN = [
    # french typography
    r"[^ ][?!]",
    r" [.,]|  |^ | $|[’«»\u00a0\u202f]",
    r"\b(?:soeur|coeur|oeuf)",
    r"^[a-zàâéèêîôûçœ]",
    r"(?<=. )(?:Lundi|Mardi|Mercredi|Jeudi|Vendredi|Samedi|Dimanche|Mai|Juin|Août)",
    # contraction
    r"(?i)\b(?:de|à) les?\b",
    # elision
    rf"(?i)(?<![\w'-])(?:le|la|je|ne|de|que|me|te|se|jusque) {VOWEL}",
    r"(?i)\bsi ils?\b|\bs'elle",
    r"(?i)\b(?:l|d|qu|n|j|m|t|s|c)'(?:haricot|holland|huit\b|onze\b|[bcdfgjklmnpqrstvwxz])",
    # forms before vowels
    rf"(?i)\b(?:ma|ta|sa|ce) {VOWEL}",
    rf"(?i)\b(?:un|le|ce|cet|mon|son) (?:beau|nouveau|vieux) {VOWEL}",
    rf"\b(?:cet|bel|nouvel|vieil) (?!{VOWEL})",
    # indefinite plural before an adjective
    r"\bdes (?:beaux|belles|nouveaux|nouvelles|vieux|vieilles|joli|grand|petit)",
    # no partitive or indefinite after negation
    r"\b(?:pas|jamais|plus) (?:du (?!piano)|de la |de l'|des |un |une )",
    r"\b(?:aim|déte|ador)\w+ (?:pas )?(?:du|de la|de l'|des)\b",
    # participles do not agree with avoir
    r"\b(?:ont|avons) (?:pas |jamais |déjà )?(?:mangé|visité|acheté|regardé|perdu|trouvé)e?s",
    r"\b(?:ai|a|ont|avons) (?:\w+ )?(?:allé|arrivé|parti|venu|sorti|rentré|resté|tombé)",
    # colours agree
    r"marrons|(?:chaussures|bottes|gants|chaussettes) oranges",
    # numbers
    r"quatre-vingts-|quatre-vingt(?![\w-])",
    r"cents (?!euros|ans)\w",
    r"(?:deux|trois|quatre|cinq) cent euros",
    r"(?:(?<!quatre-)vingt|trente|quarante|cinquante|soixante)[- ](?:un|onze)\b",
    r"\d",
    # clock and calendar
    r"\b(?:midi|minuit) et demie|heures? et demi\b",
    r"\bun heure|une heures|(?:deux|trois|dix) heure\b",
    r"moins quart|moins le (?!quart)",
    rf"(?<!et )\bun (?:{MONTHS})\b",
    r"(?:vingt et|trente et) premier",
    # prepositions of place
    r"\b(?:à|au|du|dans) (?:la |l')?(?:France|Italie|Espagne|Allemagne|Angleterre|Belgique|Grèce|Hollande)\b",
    r"\b(?:en|de|à) (?:Japon|Canada|Portugal|Brésil|Maroc)\b",
    r"\b(?:en|à|de|au|du) (?:États-Unis|Pays-Bas)",
    r"\b(?:en|la|le) (?:Paris|Londres|Rome|Madrid|Berlin|Lyon)\b",
    # verbs agree with their subject
    r"\b(?:[Ii]ls|[Mm]es sœurs|[Ll]es filles) (?:ne )?(?:est|a|va|fait|veut|peut|doit)\b",
    # the first person never needs a gender
    r"\b(?:[Jj]e suis|[Nn]ous sommes)\b",
]


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_sentence_breaks_a_rule(pattern: str) -> None:
    assert not [french for french in FRENCH if re.search(pattern, french)]
