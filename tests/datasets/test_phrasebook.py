"""The phrasebook is what its grammar generates, and reads like a handbook of French says."""

import gzip
import re
from pathlib import Path

import pytest

from dragoman.config import DragomanError
from dragoman.datasets.phrasebook import PHRASEBOOK_FILE, write_phrasebook
from tests.texts_at_hand import phrasebook
from tools.phrasebook.__main__ import as_table
from tools.phrasebook.frames import frames, generate_phrasebook, sentences

BOOK = phrasebook()
PAIRS = BOOK.train + BOOK.valid + BOOK.test
FRENCH = [french for _, french in PAIRS]

MONTHS = "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre"
VOWEL = r"(?!haricot|Hollande|huit|onze)[aeiouhâàéèêîôœAEIOUHÉÈÊŒ]"


# ------------------------------------------------------------------------------------------------ corpus and split


def test_the_grammar_still_writes_what_is_shipped() -> None:
    assert as_table(generate_phrasebook()) == gzip.decompress(PHRASEBOOK_FILE.read_bytes())


def test_the_parts_share_no_sentence() -> None:
    assert (len(BOOK.train), len(BOOK.valid), len(BOOK.test)) == (28_052, 500, 1000)
    assert len(set(PAIRS)) == len({english for english, _ in PAIRS}) == len(PAIRS)
    for side in (0, 1):
        train, valid, test = ({pair[side] for pair in part} for part in BOOK)
        assert not train & valid
        assert not train & test
        assert not valid & test


def test_training_shows_the_fillers_of_held_out_sentences_in_their_frame_but_never_together() -> None:
    key_of = {sentence.english: sentence.key for frame in frames() for sentence in sentences(frame, 1)}
    train = {key_of[english] for english, _ in BOOK.train}
    held = {key_of[english] for english, _ in BOOK.valid + BOOK.test}
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
