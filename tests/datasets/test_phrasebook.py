"""The phrasebook is what its grammar generates, and reads like a handbook of French says."""

import gzip
import re
from pathlib import Path

import pytest

from dragoman.config import DragomanError
from dragoman.datasets.phrasebook import PHRASEBOOK_FILE, write_phrasebook
from tests.texts_at_hand import phrasebook
from tools.phrasebook import frames as grammar
from tools.phrasebook.__main__ import as_table
from tools.phrasebook.frames import frames, generate_phrasebook, sentences

BOOK = phrasebook()
PAIRS = BOOK.train + BOOK.valid + BOOK.test
FRENCH = [french for _, french in PAIRS]

TU_CUE = re.compile(r"(?:Paul|Thomas|Nicolas|Hugo|Marie|Julie|Emma|Alice|Mum|Dad|darling|my friend)[.?!]?$")
VOUS_CUE = re.compile(
    r"(?:sir|madam|doctor|Mr Martin|Mrs Bernard|everyone|children|girls|my friends|ladies|gentlemen)[.?!]?$"
)
VOWEL = r"(?!haricot|Hollande|huit|onze)[aeiouhâàéèêîôœAEIOUHÉÈÊŒ]"


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def breaking(pattern: str, sentences: list[str] = FRENCH) -> list[str]:
    """The sentences in which a pattern occurs."""
    return [sentence for sentence in sentences if re.search(pattern, sentence)]


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


def test_a_grammar_that_contradicts_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "FRAMES", "It is {clock}. = Il est {clock}.\nIt is {clock}. = Il sera {clock}.")
    with pytest.raises(ValueError, match="is both"):
        generate_phrasebook()


# ------------------------------------------------------------------------------------------------------ typography


def test_french_typography() -> None:
    assert breaking(r"[^ ][?!]") == []
    assert breaking(r" [.,]|  |^ | $|[’«»\u00a0\u202f]") == []
    assert breaking(r"\b(?:soeur|coeur|oeuf)") == []
    assert breaking(r"^[a-zàâéèêîôûçœ]") == []
    assert breaking(r"(?<=. )(?:Lundi|Mardi|Mercredi|Jeudi|Vendredi|Samedi|Dimanche|Mai|Juin|Août)") == []


def test_english_typography() -> None:
    english = [text for text, _ in PAIRS]
    assert breaking(r" [.,?!]|  |^ | $|^[a-z]", english) == []
    assert breaking(r"\b[Aa] (?!uni)[aeiou]|\b[Aa]n [^aeiou]", english) == []
    assert breaking(r"\b(?:monday|tuesday|may\b|june|i\b(?!'))", english) == []


# ----------------------------------------------------------------------------------------- French, by the handbook


def test_contraction() -> None:
    assert breaking(r"(?i)\b(?:de|à) les?\b") == []


def test_elision() -> None:
    assert breaking(rf"(?i)(?<![\w'-])(?:le|la|je|ne|de|que|me|te|se|jusque) {VOWEL}") == []
    assert breaking(r"(?i)\bsi ils?\b|\bs'elle") == []
    assert breaking(r"(?i)\b(?:l|d|qu|n|j|m|t|s|c)'(?:haricot|holland|huit\b|onze\b|[bcdfgjklmnpqrstvwxz])") == []


def test_forms_before_vowels() -> None:
    assert breaking(rf"(?i)\b(?:ma|ta|sa|ce) {VOWEL}") == []
    assert breaking(rf"(?i)\b(?:un|le|ce|cet|mon|son) (?:beau|nouveau|vieux) {VOWEL}") == []
    assert breaking(rf"\b(?:cet|bel|nouvel|vieil) (?!{VOWEL})") == []


def test_indefinite_plural_before_an_adjective() -> None:
    assert breaking(r"\bdes (?:beaux|belles|nouveaux|nouvelles|vieux|vieilles|joli|grand|petit)") == []


def test_negation_has_both_halves() -> None:
    negated = r"(?i)(?<![\w'-])(?:ne |n')"
    for sentence in breaking(negated):
        halves = len(re.findall(negated, sentence))
        assert len(re.findall(rf"{negated}(?:\S+ ){{1,2}}(?:pas|jamais|plus)\b", sentence)) == halves, sentence
    for sentence in breaking(r"\b(?:pas|jamais)\b"):
        assert re.search(negated, sentence), sentence
    for sentence in breaking(r"\bplus\b"):
        assert re.search(negated, sentence) or re.search(r"\bplus \w+ que?\b", sentence), sentence


def test_no_partitive_or_indefinite_after_negation() -> None:
    assert breaking(r"\b(?:pas|jamais|plus) (?:du (?!piano)|de la |de l'|des |un |une )") == []
    assert breaking(r"\b(?:aim|déte|ador)\w+ (?:pas )?(?:du|de la|de l'|des)\b") == []


@pytest.mark.parametrize(
    ("subject", "ending"),
    [
        (r"(?:[Ee]lle|Marie|[Mm]adame Bernard|[MmSs]a (?:sœur|femme)) (?:ne |n')?(?:s'|se )?est", "e"),
        (r"(?:[Ii]ls|[Mm]es parents|[Nn]os voisins|Paul et Marie) (?:ne |n')?(?:s'|se )?sont", "s"),
        (r"(?:[Ee]lles|[Ll]es filles|[Mm]es sœurs) (?:ne |n')?(?:s'|se )?sont", "es"),
        (r"(?:[Ii]l|(?<!et )Paul|[Mm]onsieur Martin|[MmSs]on (?:frère|mari)) (?:ne |n')?(?:s'|se )?est", ""),
    ],
)
def test_participles_agree_with_the_subject_of_etre(subject: str, ending: str) -> None:
    participle = r"(allé|arrivé|parti|venu|sorti|rentré|resté|tombé|levé|couché|réveillé|promené|reposé)"
    found = [match for text in FRENCH for match in re.finditer(rf"{subject} (?:pas )?{participle}(\w*)\b", text)]
    assert len(found) > 20
    assert {match[2] for match in found} == {ending}


def test_participles_do_not_agree_with_avoir() -> None:
    assert breaking(r"\b(?:ont|avons) (?:pas |jamais |déjà )?(?:mangé|visité|acheté|regardé|perdu|trouvé)e?s") == []
    assert breaking(r"\b(?:ai|a|ont|avons) (?:\w+ )?(?:allé|arrivé|parti|venu|sorti|rentré|resté|tombé)") == []


def test_colours_agree() -> None:
    colours = r"(rouge|bleu|vert|noir|blanc|gris|jaune|rose|blanche|bleue|verte|noire|grise)(s?)\b"
    for nouns, forms in (
        (
            "robe|chemise|veste|jupe|écharpe|cravate",
            {"rouge", "bleue", "verte", "noire", "blanche", "grise", "jaune", "rose"},
        ),
        ("manteau|chapeau|pull|sac|parapluie", {"rouge", "bleu", "vert", "noir", "blanc", "gris", "jaune", "rose"}),
    ):
        found = {m[1] + m[2] for text in FRENCH for m in re.finditer(rf"\b(?:{nouns}) {colours}", text)}
        assert found == forms
    plural = {m[1] + m[2] for text in FRENCH for m in re.finditer(rf"\b(?:chaussures|bottes) {colours}", text)}
    assert plural == {"rouges", "bleues", "vertes", "noires", "blanches", "grises", "jaunes", "roses"}
    assert breaking(r"marrons|(?:chaussures|bottes|gants|chaussettes) oranges") == []


def test_numbers() -> None:
    assert breaking(r"quatre-vingts-|quatre-vingt(?![\w-])") == []
    assert breaking(r"cents (?!euros|ans)\w") == []
    assert breaking(r"(?:deux|trois|quatre|cinq) cent euros") == []
    assert breaking(r"(?:(?<!quatre-)vingt|trente|quarante|cinquante|soixante)[- ](?:un|onze)\b") == []
    assert breaking(r"\d") == []


def test_clock_and_calendar() -> None:
    assert breaking(r"\b(?:midi|minuit) et demie|heures? et demi\b") == []
    assert breaking(r"\bun heure|une heures|(?:deux|trois|dix) heure\b") == []
    assert breaking(r"moins quart|moins le (?!quart)") == []
    months = "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre"
    assert breaking(rf"(?<!et )\bun (?:{months})\b") == []
    assert breaking(r"(?:vingt et|trente et) premier") == []


def test_prepositions_of_place() -> None:
    feminine = "France|Italie|Espagne|Allemagne|Angleterre|Belgique|Grèce|Hollande"
    masculine = "Japon|Canada|Portugal|Brésil|Maroc"
    assert breaking(rf"\b(?:à|au|du|dans) (?:la |l')?(?:{feminine})\b") == []
    assert breaking(rf"\b(?:en|de|à) (?:{masculine})\b") == []
    assert breaking(r"\b(?:en|à|de|au|du) (?:États-Unis|Pays-Bas)") == []
    assert breaking(r"\b(?:en|la|le) (?:Paris|Londres|Rome|Madrid|Berlin|Lyon)\b") == []


def test_verbs_agree_with_their_subject() -> None:
    clitics = r"(?:ne |n'|me |m'|te |t'|se |s'|nous |vous )*"
    for subject, ending in (("^Nous", "ons"), ("^Ils", "nt"), ("que vous", "(?:ez|faites|êtes)"), ("que tu", "s")):
        verbs = {match[1] for text in FRENCH for match in re.finditer(rf"{subject} {clitics}(\w+)", text)}
        assert len(verbs) > 10
        assert {verb for verb in verbs if not re.search(rf"{ending}$", verb)} == set()
    assert breaking(r"\b(?:[Ii]ls|[Mm]es sœurs|[Ll]es filles) (?:ne )?(?:est|a|va|fait|veut|peut|doit)\b") == []


# ---------------------------------------------------------------------------------------- what English must tell


def test_you_always_has_a_cue() -> None:
    for english, _ in PAIRS:
        if re.search(r"(?i)\b(?:you|your)\b", english) and not re.match(r"(?:Thank|See) you\b", english):
            called = english.partition(". How are you")[0]
            assert bool(TU_CUE.search(called)) != bool(VOUS_CUE.search(called)), english


def test_tu_and_vous_follow_the_cue() -> None:
    tu, vous = r"(?i)\b(?:tu|te|toi|ton|ta|tes)\b", r"(?i)(?<!rendez-)\b(?:vous|votre|vos)\b"
    for english, french in PAIRS:
        english = english.partition(". How are you")[0]
        if re.search(tu, french):
            assert TU_CUE.search(english), (english, french)
        if re.search(vous, french) and not english.endswith("please."):
            assert VOUS_CUE.search(english), (english, french)


def test_the_first_person_never_needs_a_gender() -> None:
    assert breaking(r"\b(?:[Jj]e suis|[Nn]ous sommes)\b") == []


def test_adjectives_agree_with_the_person_who_is_called() -> None:
    asked = [pair for pair in PAIRS if re.match(r"Are you (?:happy|tired|ready|busy)", pair[0])]
    assert len(asked) > 40
    for english, french in asked:
        feminine = re.search(r"(?:Marie|Julie|Emma|Alice|Mum|madam|Mrs Bernard|girls|ladies)\?", english)
        plural = re.search(r"(?:everyone|children|girls|my friends|ladies|gentlemen)\?", english)
        adjective = re.split(r"[ ,]", french)[1]
        assert adjective.rstrip("s").endswith(("euse", "ée", "te")) == bool(feminine), french
        assert adjective.endswith(("s", "eux")) == bool(plural) or adjective == "heureux", french
