"""French inflection against the forms that grammar books print."""

import pytest

from dragoman.text import french
from dragoman.text.french import Adjective, Noun, Number, Region, Subject

IL, ELLE, ILS = Subject("il", "il", "ms"), Subject("elle", "elle", "fs"), Subject("ils", "ils", "mp")
FILLES = Subject("les filles", "elles", "fp")
JE, NOUS = Subject("je", "je", ""), Subject("nous", "nous", "")
TU, VOUS = Subject("Paul", "tu", "ms"), Subject("madame", "vous", "fs")


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("je ai de la eau", "J'ai de l'eau"),
        ("il ne aime pas le ail", "Il n'aime pas l'ail"),
        ("nous venons de le Japon", "Nous venons du Japon"),
        ("je vais à les États-Unis", "Je vais aux États-Unis"),
        ("près de le hôpital", "Près de l'hôpital"),
        ("à côté de les haricots", "À côté des haricots"),
        ("un kilo de haricots", "Un kilo de haricots"),
        ("je déteste le haricot", "Je déteste le haricot"),
        ("il visite la Hollande", "Il visite la Hollande"),
        ("le huit mai et le onze juin", "Le huit mai et le onze juin"),
        ("de huit à onze", "De huit à onze"),
        ("je pense que il habite à Athènes", "Je pense qu'il habite à Athènes"),
        ("parce que elle a faim", "Parce qu'elle a faim"),
        ("si il pleut et si elle sort", "S'il pleut et si elle sort"),
        ("puis-je avoir une glace", "Puis-je avoir une glace"),
        ("que il est beau", "Qu'il est beau"),
        ("le yaourt et la histoire", "Le yaourt et l'histoire"),
        ("la œuvre et le œuf", "L'œuvre et l'œuf"),
    ],
)
def test_surface(words: str, written: str) -> None:
    assert french.surface(words) == written


@pytest.mark.parametrize(
    ("masculine", "feminine"),
    [
        ("grand", "grande"),
        ("beau", "belle"),
        ("nouveau", "nouvelle"),
        ("vieux", "vieille"),
        ("blanc", "blanche"),
        ("heureux", "heureuse"),
        ("cher", "chère"),
        ("léger", "légère"),
        ("actif", "active"),
        ("inquiet", "inquiète"),
        ("gentil", "gentille"),
        ("bon", "bonne"),
        ("long", "longue"),
        ("gris", "grise"),
        ("fatigué", "fatiguée"),
        ("rouge", "rouge"),
        ("jaloux", "jalouse"),
        ("infirmier", "infirmière"),
        ("musicien", "musicienne"),
        ("acteur", "actrice"),
        ("chanteur", "chanteuse"),
        ("coiffeur", "coiffeuse"),
        ("avocat", "avocate"),
        ("médecin", "médecin"),
    ],
)
def test_feminines(masculine: str, feminine: str) -> None:
    assert french.feminine(masculine) == feminine


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("pomme", "pommes"),
        ("gâteau", "gâteaux"),
        ("journal", "journaux"),
        ("cheval", "chevaux"),
        ("fils", "fils"),
        ("vieux", "vieux"),
        ("pomme de terre", "pommes de terre"),
        ("jus d'orange", "jus d'orange"),
        ("grand-père", "grands-pères"),
        ("beau", "beaux"),
    ],
)
def test_plurals(singular: str, plural: str) -> None:
    assert french.plural(singular) == plural


@pytest.mark.parametrize(
    ("adjective", "agreement", "form"),
    [
        ("marron", "fp", "marron"),
        ("orange", "mp", "orange"),
        ("heureux", "mp", "heureux"),
        ("vert", "fp", "vertes"),
        ("beau", "mp", "beaux"),
        ("beau", "fp", "belles"),
        ("fier", "fs", "fière"),
    ],
)
def test_agreement(adjective: str, agreement: str, form: str) -> None:
    assert french.agree(adjective, agreement) == form
    assert format(Adjective(adjective), agreement) == form


@pytest.mark.parametrize(
    ("noun", "spec", "phrase"),
    [
        (Noun("arbre", "m"), "un beau", "un bel arbre"),
        (Noun("appartement", "m"), "un nouveau", "un nouvel appartement"),
        (Noun("hôtel", "m"), "ce vieux", "ce vieil hôtel"),
        (Noun("hôtel", "m"), "ce", "cet hôtel"),
        (Noun("maison", "f"), "un beau", "une belle maison"),
        (Noun("chien", "m"), "un vieux noir", "un vieux chien noir"),
        (Noun("voiture", "f"), "le vert", "la voiture verte"),
        (Noun("écharpe", "f"), "mon", "mon écharpe"),
        (Noun("écharpe", "f"), "mon nouveau", "ma nouvelle écharpe"),
        (Noun("amie", "f"), "ton vieux", "ta vieille amie"),
        (Noun("chaussures", "f", always_plural=True), "un noir", "des chaussures noires"),
        (Noun("chaussures", "f", always_plural=True), "un nouveau", "de nouvelles chaussures"),
        (Noun("chaussures", "f", always_plural=True), "ce", "ces chaussures"),
        (Noun("fleurs", "f", always_plural=True), "quel joli", "quelles jolies fleurs"),
        (Noun("pain", "m", mass=True), "les", "le pain"),
        (Noun("pain", "m", mass=True), "s", "pain"),
        (Noun("viande", "f", mass=True), "du", "de la viande"),
        (Noun("pomme", "f"), "les", "les pommes"),
        (Noun("pomme", "f"), "du", "des pommes"),
        (Noun("pomme", "f"), "s", "pommes"),
        (Noun("pomme", "f"), "3", "trois pommes"),
        (Noun("pomme", "f"), "21", "vingt et une pommes"),
        (Noun("pomme", "f"), "1", "une pomme"),
        (Noun("pomme", "f"), "leur", "leur pomme"),
        (Noun("gants", "m", always_plural=True), "leur", "leurs gants"),
        (Noun("gants", "m", always_plural=True), "+coûter", "coûtent"),
        (Noun("robe", "f"), "+être", "est"),
        (Noun("robe", "f"), "gn", "fs"),
    ],
)
def test_noun_phrases(noun: Noun, spec: str, phrase: str) -> None:
    assert format(noun, spec) == phrase


@pytest.mark.parametrize(
    ("place", "forms"),
    [
        (Region("Paris"), ["Paris", "à Paris", "de Paris", "pour Paris"]),
        (Region("France", "f"), ["la France", "en France", "de France", "pour la France"]),
        (Region("Japon", "m"), ["le Japon", "à le Japon", "de le Japon", "pour le Japon"]),
        (Region("Pays-Bas", "mp"), ["les Pays-Bas", "à les Pays-Bas", "de les Pays-Bas", "pour les Pays-Bas"]),
    ],
)
def test_regions_before_contraction(place: Region, forms: list[str]) -> None:
    assert [format(place, spec) for spec in ("le", "à", "de", "pour")] == forms


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("parler", "parle parles parle parlons parlez parlent"),
        ("manger", "mange manges mange mangeons mangez mangent"),
        ("commencer", "commence commences commence commençons commencez commencent"),
        ("acheter", "achète achètes achète achetons achetez achètent"),
        ("préférer", "préfère préfères préfère préférons préférez préfèrent"),
        ("appeler", "appelle appelles appelle appelons appelez appellent"),
        ("nettoyer", "nettoie nettoies nettoie nettoyons nettoyez nettoient"),
        ("lever", "lève lèves lève levons levez lèvent"),
        ("finir", "finis finis finit finissons finissez finissent"),
        ("attendre", "attends attends attend attendons attendez attendent"),
        ("ouvrir", "ouvre ouvres ouvre ouvrons ouvrez ouvrent"),
        ("apprendre", "apprends apprends apprend apprenons apprenez apprennent"),
        ("être", "suis es est sommes êtes sont"),
        ("aller", "vais vas va allons allez vont"),
        ("faire", "fais fais fait faisons faites font"),
        ("vouloir", "veux veux veut voulons voulez veulent"),
    ],
)
def test_present(verb: str, forms: str) -> None:
    pronouns = ("je", "tu", "elle", "nous", "vous", "ils")
    assert " ".join(french.conjugate(verb, pronoun) for pronoun in pronouns) == forms


def test_conditional() -> None:
    assert french.conjugate("vouloir", "je", "conditionnel") == "voudrais"
    assert french.conjugate("vouloir", "nous", "conditionnel") == "voudrions"
    assert french.conjugate("aimer", "ils", "conditionnel") == "aimeraient"
    assert french.conjugate("attendre", "tu", "conditionnel") == "attendrais"


@pytest.mark.parametrize(
    ("verb", "participle"),
    [
        ("manger", "mangé"),
        ("finir", "fini"),
        ("attendre", "attendu"),
        ("prendre", "pris"),
        ("apprendre", "appris"),
        ("lire", "lu"),
        ("boire", "bu"),
        ("être", "été"),
        ("avoir", "eu"),
        ("faire", "fait"),
        ("ouvrir", "ouvert"),
        ("venir", "venu"),
        ("courir", "couru"),
    ],
)
def test_participles(verb: str, participle: str) -> None:
    assert french.participle(verb) == participle


@pytest.mark.parametrize(
    ("subject", "spec", "clause"),
    [
        (JE, "ne pas avoir faim", "je ne ai pas faim"),
        (ILS, "ne jamais boire", "ils ne boivent jamais"),
        (NOUS, "ne plus se lever tôt", "nous ne nous levons plus tôt"),
        (IL, "se lever", "il se lève"),
        (JE, "vouloir se lever tôt", "je veux me lever tôt"),
        (IL, "passé manger", "il a mangé"),
        (JE, "passé ne pas manger", "je ne ai pas mangé"),
        (ELLE, "passé partir", "elle est partie"),
        (FILLES, "passé ne pas arriver", "les filles ne sont pas arrivées"),
        (ILS, "passé se coucher tard", "ils se sont couchés tard"),
        (ELLE, "passé ne pas se lever", "elle ne se est pas levée"),
        (ELLE, "passé déjà visiter", "elle a déjà visité"),
        (IL, "toujours jouer au tennis", "il joue toujours au tennis"),
        (FILLES, "pro être", "elles sont"),
        (IL, "inverse avoir", "a-t-il"),
        (ELLE, "inverse parler", "parle-t-elle"),
        (IL, "inverse vouloir", "veut-il"),
        (ILS, "inverse partir", "partent-ils"),
        (VOUS, "inverse pouvoir", "pouvez-vous"),
        (TU, "aimer", "tu aimes"),
        (TU, "impératif fermer la porte", "ferme la porte"),
        (TU, "impératif ouvrir la porte", "ouvre la porte"),
        (TU, "impératif aller tout droit", "va tout droit"),
        (TU, "impératif finir le travail", "finis le travail"),
        (TU, "impératif ne pas attendre ici", "ne attends pas ici"),
        (VOUS, "impératif prendre la rue", "prenez la rue"),
        (NOUS, "impératif manger", "mangeons"),
        (JE, "conditionnel vouloir", "je voudrais"),
        (IL, "ne pas pouvoir jouer", "il ne peut pas jouer"),
    ],
)
def test_clauses(subject: Subject, spec: str, clause: str) -> None:
    assert format(subject, spec) == clause


def test_words_that_go_with_a_person() -> None:
    assert [f"{TU:svp}", f"{VOUS:svp}"] == ["s'il te plaît", "s'il vous plaît"]
    assert [f"{JE:son}", f"{TU:ton}", f"{ELLE:son}", f"{VOUS:ton}", f"{ILS:son}"] == [
        "mon",
        "ton",
        "son",
        "votre",
        "leur",
    ]
    assert [f"{JE:moi}", f"{IL:moi}", f"{ELLE:moi}", f"{ILS:moi}", f"{FILLES:moi}"] == [
        "moi",
        "lui",
        "elle",
        "eux",
        "les filles",
    ]
    assert [f"{VOUS:gn}", f"{FILLES:gn}", f"{TU:voc}"] == ["fs", "fp", "Paul"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (17, "dix-sept"),
        (20, "vingt"),
        (21, "vingt et un"),
        (32, "trente-deux"),
        (61, "soixante et un"),
        (70, "soixante-dix"),
        (71, "soixante et onze"),
        (76, "soixante-seize"),
        (80, "quatre-vingts"),
        (81, "quatre-vingt-un"),
        (90, "quatre-vingt-dix"),
        (91, "quatre-vingt-onze"),
        (99, "quatre-vingt-dix-neuf"),
        (100, "cent"),
        (101, "cent un"),
        (180, "cent quatre-vingts"),
        (200, "deux cents"),
        (201, "deux cent un"),
        (371, "trois cent soixante et onze"),
    ],
)
def test_cardinals(number: int, words: str) -> None:
    assert french.cardinal(number) == words
    assert format(Number(number)) == words


def test_feminine_cardinals() -> None:
    assert [french.cardinal(number, "f") for number in (1, 21, 81, 4)] == [
        "une",
        "vingt et une",
        "quatre-vingt-une",
        "quatre",
    ]


@pytest.mark.parametrize(
    ("hour", "minute", "words"),
    [
        (1, 0, "une heure"),
        (8, 30, "huit heures et demie"),
        (9, 15, "neuf heures et quart"),
        (9, -15, "neuf heures moins le quart"),
        (4, -25, "quatre heures moins vingt-cinq"),
        (6, 20, "six heures vingt"),
        (12, 0, "midi"),
        (12, 15, "midi et quart"),
        (12, 30, "midi et demi"),
        (0, -10, "minuit moins dix"),
    ],
)
def test_clock(hour: int, minute: int, words: str) -> None:
    assert french.clock(hour, minute) == words


def test_dates() -> None:
    assert [french.date(1, 5), french.date(14, 7), french.date(31, 8)] == [
        "premier mai",
        "quatorze juillet",
        "trente et un août",
    ]


def test_tables_become_words_in_both_languages() -> None:
    (shoes,) = french.nouns("shoes: chaussures fp", mass=False)
    assert (format(shoes.english, "this"), format(shoes.french, "ce")) == ("these shoes", "ces chaussures")
    madam, she = french.people("madam: madame vous-fs, she: elle elle")
    assert (format(madam.english, "ask be"), format(madam.french, "inverse être")) == ("are you", "êtes-vous")
    assert (format(madam.french, "gn"), format(she.french, "gn")) == ("fs", "fs")
    assert french.phrases([("well", "bien")])[0].french == "bien"
