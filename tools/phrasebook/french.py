"""The French of the phrasebook: how words agree, how verbs are conjugated, and how neighbouring words merge.

The functions build phrases word by word, as grammar books do: the partitive of *eau* is "de la eau", the negation of
*avoir* is "je ne ai pas".  :func:`surface` then applies, once, to the whole sentence, what happens where two words
meet: elision ("de l'eau", "je n'ai pas"), contraction ("du pain", "aux enfants") and the capital at its head.

Agreement is written in two letters, gender and number: ``ms``, ``fs``, ``mp``, ``fp``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tools.phrasebook import lexicon

# --------------------------------------------------------------------------------------- where two words meet

ASPIRATED = ("haricot", "Hollande", "Hongrie", "héros", "homard", "huit(?!r)", "onz", "oui", "yaourt")
_VOWEL = rf"(?=(?!{'|'.join(ASPIRATED)})(?:[aeiouhàâéèêëîïôœAEIOUHÉÈÊŒ]|y\b))"
_ELISION = re.compile(rf"(?<![\w'-])([dD]e|[jJ]e|[lL][ea]|[mnst]e|[qQ]ue) {_VOWEL}")
_IF_HE = re.compile(r"\b([sS])i (?=ils?\b)")
_CONTRACTION = re.compile(r"\b(?:de|à) les?\b")
_CONTRACTED = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}


def starts_with_vowel(word: str) -> bool:
    """Whether the words before `word` elide: true of *hôtel*, false of *haricot*."""
    return re.match(_VOWEL, word) is not None


def surface(words: str) -> str:
    """The words of a sentence as they are written: elided, contracted, and with a capital at the head."""
    elided = _IF_HE.sub(r"\1'", _ELISION.sub(lambda match: match[1][:-1] + "'", " ".join(words.split())))
    contracted = _CONTRACTION.sub(lambda match: _CONTRACTED[match[0]], elided)
    return contracted[:1].upper() + contracted[1:]


# ------------------------------------------------------------------------------------------------------ agreement

FEMININES = {
    "beau": "belle", "nouveau": "nouvelle", "vieux": "vieille", "blanc": "blanche", "bon": "bonne",
    "gentil": "gentille", "long": "longue", "frais": "fraîche", "jaloux": "jalouse", "gros": "grosse",
    "inquiet": "inquiète", "discret": "discrète", "favori": "favorite", "ingénieur": "ingénieure",
    "chanteur": "chanteuse", "médecin": "médecin",
}  # fmt: skip
FEMININE_ENDINGS = (
    ("teur", "trice"), ("eur", "euse"), ("eux", "euse"), ("ier", "ière"), ("er", "ère"), ("ien", "ienne"),
    ("if", "ive"), ("el", "elle"), ("e", "e"),
)  # fmt: skip
BEFORE_VOWEL = {
    "beau": "bel", "nouveau": "nouvel", "vieux": "vieil", "ce": "cet", "ma": "mon", "ta": "ton", "sa": "son",
}  # fmt: skip
INVARIABLE = {"marron", "orange"}
PRENOMINAL = {"beau", "bon", "grand", "gros", "jeune", "joli", "long", "mauvais", "nouveau", "petit", "vieux"}
DETERMINERS = {
    "le": ("le", "la", "les"), "un": ("un", "une", "des"), "du": ("de le", "de la", "des"),
    "ce": ("ce", "cette", "ces"), "mon": ("mon", "ma", "mes"), "ton": ("ton", "ta", "tes"),
    "son": ("son", "sa", "ses"), "notre": ("notre", "notre", "nos"),
    "votre": ("votre", "votre", "vos"), "leur": ("leur", "leur", "leurs"),
    "quel": ("quel", "quelle", "quels"), "de": ("de", "de", "de"), "s": ("", "", ""),
}  # fmt: skip


def plural(word: str) -> str:
    """The plural of a noun or adjective; a compound ("pomme de terre", "grand-père") inflects its head."""
    if word.startswith("grand-p"):
        return "grands-" + plural(word[6:])
    head, space, rest = word.partition(" ")
    if head.endswith(("s", "x", "z")):
        return word
    if head.endswith("al"):
        return head[:-1] + "ux" + space + rest
    return head + ("x" if head.endswith("eau") else "s") + space + rest


def feminine(adjective: str) -> str:
    """The feminine of an adjective or of the name of a trade, given its masculine."""
    if adjective in FEMININES:
        return FEMININES[adjective]
    for masculine, ending in FEMININE_ENDINGS:
        if adjective.endswith(masculine):
            return adjective.removesuffix(masculine) + ending
    return adjective + "e"


def agree(adjective: str, agreement: str) -> str:
    """The form of an adjective that goes with a gender and a number, ``"fp"`` for the feminine plural."""
    if adjective in INVARIABLE:
        return adjective
    form = feminine(adjective) if agreement[0] == "f" else adjective
    return plural(form) if agreement[1] == "p" else form


def before(word: str, following: str) -> str:
    """The form that a determiner or adjective takes before the word that follows it: *bel*, *cet*, *mon*."""
    return BEFORE_VOWEL.get(word, word) if starts_with_vowel(following) else word


@dataclass(frozen=True)
class Noun:
    """A noun, formatted by a determiner (or a number) and adjectives: ``"un nouveau noir"``, ``"du"``, ``"3"``.

    ``"les"`` and ``"s"`` speak of a kind, with and without its article: "le pain", "les pommes".  ``"+être"`` is the
    form of a verb that agrees with the noun, ``"gn"`` its gender and number.  ``""`` is the noun alone.
    """

    word: str
    gender: str
    always_plural: bool = False
    mass: bool = False

    def __format__(self, spec: str) -> str:
        if not spec:
            return self.word
        if spec.startswith("+"):
            return conjugate(spec[1:], "ils" if self.always_plural else "il")
        if spec == "gn":
            return self.gender + ("p" if self.always_plural else "s")
        determiner, *adjectives = spec.split()
        return self.phrase(determiner, adjectives)

    def phrase(self, determiner: str, adjectives: list[str]) -> str:
        """The noun with a determiner, named by its masculine singular, and adjectives, named likewise."""
        several = self.always_plural or (determiner.isdigit() and determiner != "1")
        several = several or (determiner in ("les", "du", "s") and not self.mass)
        agreement = self.gender + ("p" if several else "s")
        noun = plural(self.word) if several and not self.always_plural else self.word
        phrase = noun
        for adjective in adjectives:
            if adjective not in PRENOMINAL:
                phrase = f"{phrase} {agree(adjective, agreement)}"
        for adjective in reversed(adjectives):
            if adjective in PRENOMINAL:
                phrase = f"{before(agree(adjective, agreement), phrase)} {phrase}"
        if determiner.isdigit():
            return f"{cardinal(int(determiner), self.gender)} {phrase}"
        row = DETERMINERS["le" if determiner == "les" else determiner]
        form = row[2] if several else row[self.gender == "f"]
        if determiner == "quel" and agreement == "fp":
            form = "quelles"
        if form == "des" and any(adjective in PRENOMINAL for adjective in adjectives):
            form = "de"
        return f"{before(form, phrase)} {phrase}".strip()


@dataclass(frozen=True)
class Adjective:
    """An adjective or a trade, formatted by the agreement it takes: ``"fs"``; alone it is the masculine singular."""

    word: str

    def __format__(self, spec: str) -> str:
        return agree(self.word, spec) if spec else self.word


@dataclass(frozen=True)
class Region:
    """A town (which has no gender) or a country, formatted by ``"le"``, ``"à"``, ``"de"`` or ``"pour"``."""

    name: str
    gender: str = ""

    def __format__(self, spec: str) -> str:
        article = {"": "", "m": "le ", "f": "la ", "mp": "les "}[self.gender]
        if spec == "à" and self.gender == "f":
            return f"en {self.name}"
        if spec == "de" and self.gender == "f":
            return f"de {self.name}"
        return f"{'' if spec == 'le' else spec} {article}{self.name}".strip()


# ---------------------------------------------------------------------------------------------------------- verbs

PERSONS = {"je": 0, "tu": 1, "il": 2, "elle": 2, "nous": 3, "vous": 4, "ils": 5, "elles": 5}
DISJUNCTIVE = {"je": "moi", "tu": "toi", "il": "lui", "ils": "eux"}
REFLEXIVE = ("me", "te", "se", "nous", "vous", "se")
POSSESSIVE = ("mon", "ton", "son", "notre", "votre", "leur")
ENDINGS = {
    "er": ("e", "es", "e", "ons", "ez", "ent"),
    "ir": ("is", "is", "it", "issons", "issez", "issent"),
    "re": ("s", "s", "", "ons", "ez", "ent"),
}
IRREGULAR = {
    "être": "suis es est sommes êtes sont", "avoir": "ai as a avons avez ont", "aller": "vais vas va allons allez vont",
    "faire": "fais fais fait faisons faites font", "pouvoir": "peux peux peut pouvons pouvez peuvent",
    "vouloir": "veux veux veut voulons voulez veulent", "devoir": "dois dois doit devons devez doivent",
    "venir": "viens viens vient venons venez viennent", "prendre": "prends prends prend prenons prenez prennent",
    "boire": "bois bois boit buvons buvez boivent", "lire": "lis lis lit lisons lisez lisent",
    "partir": "pars pars part partons partez partent", "sortir": "sors sors sort sortons sortez sortent",
    "courir": "cours cours court courons courez courent", "ouvrir": "ouvre ouvres ouvre ouvrons ouvrez ouvrent",
    "suivre": "suis suis suit suivons suivez suivent",
}  # fmt: skip
PARTICIPLES = {
    "être": "été", "avoir": "eu", "faire": "fait", "pouvoir": "pu", "vouloir": "voulu", "devoir": "dû", "venir": "venu",
    "prendre": "pris", "apprendre": "appris", "boire": "bu", "lire": "lu", "courir": "couru", "ouvrir": "ouvert",
    "suivre": "suivi",
}  # fmt: skip
WITH_ETRE = {"aller", "arriver", "entrer", "partir", "rentrer", "rester", "sortir", "tomber", "venir"}
OPEN_STEMS = {"acheter": "achèt", "lever": "lèv", "promener": "promèn", "préférer": "préfèr", "répéter": "répèt",
              "appeler": "appell", "espérer": "espèr", "nettoyer": "nettoi"}  # fmt: skip
CONDITIONAL = ("ais", "ais", "ait", "ions", "iez", "aient")
CONDITIONAL_STEMS = {"vouloir": "voudr", "pouvoir": "pourr"}


def conjugate(verb: str, pronoun: str, mood: str = "présent") -> str:
    """The finite form of a verb for a subject pronoun; `mood` is ``"présent"`` or ``"conditionnel"``."""
    person = PERSONS[pronoun]
    if mood == "conditionnel":
        return CONDITIONAL_STEMS.get(verb, verb.removesuffix("e")) + CONDITIONAL[person]
    if verb == "apprendre":
        return "ap" + conjugate("prendre", pronoun)
    if verb in IRREGULAR:
        return IRREGULAR[verb].split()[person]
    stem, ending = verb[:-2], ENDINGS[verb[-2:]][person]
    if person in (0, 1, 2, 5):
        stem = OPEN_STEMS.get(verb, stem)
    elif person == 3 and verb.endswith(("ger", "cer")):
        stem = stem + "e" if verb.endswith("ger") else stem[:-1] + "ç"
    return stem + ending


def participle(verb: str) -> str:
    """The past participle, masculine singular."""
    return PARTICIPLES.get(verb) or verb[:-2] + {"er": "é", "ir": "i", "re": "u"}[verb[-2:]]


@dataclass(frozen=True)
class Subject:
    """Whoever acts, formatted by a verb phrase: ``"ne pas jouer au football"`` gives "il ne joue pas au football".

    The phrase may begin with ``pro`` (a pronoun stands for the subject), ``inverse`` (verb-subject question),
    ``impératif``, ``conditionnel``, ``passé``, ``ne`` and its second half, an adverb.  A reflexive verb is named with
    its *se*.  ``voc``, ``son``, ``moi``, ``svp`` and ``gn`` are the name to call the person by, the possessive, the
    disjunctive pronoun, "s'il te plaît" and the agreement; ``""`` is the subject alone.
    """

    word: str
    pronoun: str
    agreement: str

    def __format__(self, spec: str) -> str:
        if spec in ("", "voc"):
            return self.word
        if spec == "gn":
            return self.agreement
        if spec == "moi":
            return DISJUNCTIVE.get(self.pronoun, self.pronoun) if self.word == self.pronoun else self.word
        if spec in ("son", "ton"):
            return POSSESSIVE[PERSONS[self.pronoun]]
        if spec == "svp":
            return f"s'il {'te' if self.pronoun == 'tu' else 'vous'} plaît"
        return self.clause(spec)

    def clause(self, spec: str) -> str:
        """The subject and its verb phrase, in the form that the leading words of `spec` ask for."""
        words, flags = spec.split(), set[str]()
        while words[0] in ("pro", "inverse", "impératif", "conditionnel", "passé", "ne"):
            flags.add(words.pop(0))
        negator = words.pop(0) if "ne" in flags else ""
        adverb = words.pop(0) if words[0] in ("déjà", "souvent", "parfois", "toujours") else ""
        clitic = REFLEXIVE[PERSONS[self.pronoun]] if words[0] == "se" else ""
        verb, *rest = words[1:] if clitic else words
        # An infinitive in the rest of the phrase is reflexive for the same person: "je veux me lever".
        rest = [REFLEXIVE[PERSONS[self.pronoun]] if word == "se" else word for word in rest]
        finite = self.finite(verb, flags)
        if "passé" in flags:
            auxiliary = "être" if clitic or verb in WITH_ETRE else "avoir"
            form = participle(verb)
            rest.insert(0, agree(form, self.agreement) if auxiliary == "être" else form)
            finite = conjugate(auxiliary, self.pronoun)
        if "inverse" in flags:
            link = "-t-" if finite.endswith(("e", "a")) and PERSONS[self.pronoun] == 2 else "-"
            finite = finite + link + self.pronoun
        named = self.pronoun if "pro" in flags or PERSONS[self.pronoun] in (1, 4) else self.word
        subject = "" if flags & {"inverse", "impératif"} else named
        return " ".join(filter(None, (subject, "ne" if negator else "", clitic, finite, negator, adverb, *rest)))

    def finite(self, verb: str, flags: set[str]) -> str:
        """The finite verb in the mood that `flags` name; the imperative *tu* of ``-er`` verbs and *aller* has no s."""
        form = conjugate(verb, self.pronoun, "conditionnel" if "conditionnel" in flags else "présent")
        drops_s = "impératif" in flags and self.pronoun == "tu" and form.endswith(("es", "as"))
        return form[:-1] if drops_s else form


# --------------------------------------------------------------------------------------- numbers, clock, calendar

_UNITS = """zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept
dix-huit dix-neuf"""
_TENS = "dix vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt"
_MONTHS = "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
UNITS, TENS, MONTHS = _UNITS.split(), _TENS.split(), _MONTHS.split()


def cardinal(number: int, gender: str = "m") -> str:
    """A number below a thousand in words, hyphened below a hundred except around *et*: "vingt et une"."""
    if number >= 100:
        hundreds, rest = divmod(number, 100)
        head = "cent" if hundreds == 1 else f"{UNITS[hundreds]} cent{'' if rest else 's'}"
        return f"{head} {cardinal(rest, gender)}" if rest else head
    tens, unit = divmod(number, 10)
    if number < 20:
        word = UNITS[number]
    else:
        unit += 10 * (tens in (7, 9))
        link = " et " if unit in (1, 11) and tens < 8 else "-"
        word = TENS[tens - 1] + (link + UNITS[unit] if unit else "s" * (number == 80))
    return word + "e" if gender == "f" and word.endswith("un") else word


@dataclass(frozen=True)
class Number:
    """A number, formatted as its masculine word, or in digits by ``"#"`` where a noun is to give it a gender."""

    value: int

    def __format__(self, spec: str) -> str:
        return str(self.value) if spec == "#" else cardinal(self.value)


def clock(hour: int, minute: int) -> str:
    """A time of day: so many minutes past an hour, or before it if negative; hour 0 is midnight and 12 noon."""
    name = {0: "minuit", 12: "midi", 1: "une heure"}.get(hour, f"{UNITS[hour]} heures")
    half = "et demi" if hour in (0, 12) else "et demie"
    named = {0: "", 15: "et quart", 30: half, -15: "moins le quart"}
    tail = named[minute] if minute in named else f"{'moins ' * (minute < 0)}{cardinal(abs(minute))}"
    return f"{name} {tail}".strip()


def date(day: int, month: int) -> str:
    """A day of the year without its article: "premier mai", "quatorze juillet"."""
    return f"{'premier' if day == 1 else cardinal(day)} {MONTHS[month - 1]}"


# -------------------------------------------------------------------------------------- words in both languages


@dataclass(frozen=True)
class Filler:
    """What fills a slot: in either language something that ``format`` can inflect, or a plain string."""

    english: object
    french: object


def phrases(pairs: Iterable[tuple[str, str]]) -> list[Filler]:
    """Phrases that nothing inflects, in both languages."""
    return [Filler(english, phrase) for english, phrase in pairs]


def nouns(table: str, mass: bool) -> list[Filler]:
    """The nouns of a table, in both languages."""
    fillers = []
    for english, word, mark in lexicon.words(table, marked=True):
        always = mark.endswith("p")
        fillers.append(Filler(lexicon.EnglishNoun(english, always, mass), Noun(word, mark[0], always, mass)))
    return fillers


def people(table: str) -> list[Filler]:
    """The people of a table, in both languages."""
    fillers = []
    for english, word, mark in lexicon.words(table, marked=True):
        pronoun, _, agreement = mark.partition("-")
        agreement = agreement or {"il": "ms", "elle": "fs", "ils": "mp", "elles": "fp"}.get(pronoun, "")
        subject = lexicon.EnglishSubject(english, lexicon.PRONOUN_OF.get(pronoun, "you"))
        fillers.append(Filler(subject, Subject(word, pronoun, agreement)))
    return fillers
