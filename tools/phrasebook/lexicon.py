"""The words of the phrasebook, in both languages, and the few inflections of English.

Every table is a string of ``english: french mark`` entries separated by commas.  The mark is

* for nouns, ``m`` or ``f``, with a ``p`` after it for nouns that both languages use in the plural (``shoes``);
* for people who are spoken to or about, the French pronoun that stands for them, with gender and number where the
  pronoun leaves them open (``vous-fs`` is one lady, ``vous-mp`` are several children);
* for adjectives, nothing: their French feminine and their place are in french.py.

English is here, beside the data, because so little of it varies: the plural, the third person and the past tense.
"""

import re
from dataclasses import dataclass


def words(table: str, marked: bool = False) -> list[tuple[str, str, str]]:
    """The entries of a table as (English, French, mark); in a `marked` table the last word of an entry is its mark."""
    pairs = [entry.split(": ", 1) for entry in " ".join(table.split()).split(", ")]
    return [(english, *(french.rsplit(" ", 1) if marked else (french, ""))) for english, french in pairs]


# --------------------------------------------------------------------------------------------------------- nouns

NOUNS: dict[str, str] = {
    "drink": """water: eau f, coffee: café m, tea: thé m, milk: lait m, red wine: vin rouge m, white wine: vin blanc m,
    beer: bière f, orange juice: jus d'orange m, apple juice: jus de pomme m, mineral water: eau minérale f,
    lemonade: limonade f, hot chocolate: chocolat chaud m""",
    "grocery": """bread: pain m, cheese: fromage m, meat: viande f, fish: poisson m, chicken: poulet m, ham: jambon m,
    rice: riz m, butter: beurre m, soup: soupe f, honey: miel m, salad: salade f, chocolate: chocolat m,
    ice cream: glace f, garlic: ail m""",
    "fruit": """apple: pomme f, orange: orange f, banana: banane f, carrot: carotte f, tomato: tomate f,
    potato: pomme de terre f, egg: œuf m, strawberry: fraise f, bean: haricot m, onion: oignon m,
    mushroom: champignon m, croissant: croissant m, cake: gâteau m""",
    "dish": """coffee: café m, tea: thé m, beer: bière f, salad: salade f, sandwich: sandwich m, pizza: pizza f,
    omelette: omelette f, ice cream: glace f, croissant: croissant m, cake: gâteau m, steak: steak m,
    orange juice: jus d'orange m, lemonade: limonade f""",
    "portion": """glass of water: verre d'eau m, glass of milk: verre de lait m,
    glass of red wine: verre de vin rouge m, cup of coffee: tasse de café f, cup of tea: tasse de thé f,
    bottle of water: bouteille d'eau f, bottle of white wine: bouteille de vin blanc f,
    slice of ham: tranche de jambon f, kilo of apples: kilo de pommes m, kilo of oranges: kilo d'oranges m,
    kilo of beans: kilo de haricots m""",
    "meal": """soup: soupe f, coffee: café m, tea: thé m, milk: lait m, chicken: poulet m, fish: poisson m,
    meat: viande f, rice: riz m, omelette: omelette f, steak: steak m, pizza: pizza f,
    hot chocolate: chocolat chaud m""",
    "tableware": """salt: sel m, pepper: poivre m, sugar: sucre m, bread: pain m, butter: beurre m, menu: carte f,
    bill: addition f, knife: couteau m, fork: fourchette f, spoon: cuillère f, plate: assiette f, water: eau f,
    oil: huile f, glasses: verres mp, plates: assiettes fp""",
    "garment": """coat: manteau m, dress: robe f, shirt: chemise f, hat: chapeau m, jacket: veste f, sweater: pull m,
    skirt: jupe f, scarf: écharpe f, tie: cravate f, bag: sac m, umbrella: parapluie m, shoes: chaussures fp,
    gloves: gants mp, boots: bottes fp, socks: chaussettes fp""",
    "object": """book: livre m, key: clé f, telephone: téléphone m, letter: lettre f, newspaper: journal m,
    pen: stylo m, map: carte f, photo: photo f, box: boîte f, present: cadeau m, plate: assiette f, cup: tasse f,
    glass: verre m, bottle: bouteille f, suitcase: valise f, hat: chapeau m, lamp: lampe f""",
    "belonging": """book: livre m, keys: clés fp, telephone: téléphone m, letter: lettre f, pen: stylo m,
    passport: passeport m, wallet: portefeuille m, suitcase: valise f, umbrella: parapluie m, scarf: écharpe f,
    gloves: gants mp, shoes: chaussures fp, hat: chapeau m, bag: sac m, ticket: billet m, coat: manteau m,
    watch: montre f, photos: photos fp, glasses: lunettes fp""",
    "asset": """car: voiture f, house: maison f, garden: jardin m, bicycle: vélo m, flat: appartement m,
    boat: bateau m, computer: ordinateur m, telephone: téléphone m, suitcase: valise f, umbrella: parapluie m,
    lamp: lampe f, armchair: fauteuil m, bed: lit m, wardrobe: armoire f, desk: bureau m""",
    "animal": "dog: chien m, cat: chat m, horse: cheval m, rabbit: lapin m, bird: oiseau m",
    "place": """station: gare f, bank: banque f, museum: musée m, hotel: hôtel m, hospital: hôpital m, school: école f,
    post office: poste f, church: église f, market: marché m, park: parc m, library: bibliothèque f,
    bakery: boulangerie f, pharmacy: pharmacie f, airport: aéroport m, supermarket: supermarché m, cinema: cinéma m,
    theatre: théâtre m, restaurant: restaurant m, bridge: pont m, beach: plage f, swimming pool: piscine f,
    town hall: mairie f, stadium: stade m, university: université f, castle: château m, bus stop: arrêt de bus m,
    bookshop: librairie f""",
    "venue": """bank: banque f, museum: musée m, post office: poste f, market: marché m, park: parc m,
    library: bibliothèque f, bakery: boulangerie f, pharmacy: pharmacie f, supermarket: supermarché m,
    restaurant: restaurant m, swimming pool: piscine f, castle: château m, bookshop: librairie f, shops: magasins mp,
    offices: bureaux mp""",
    "workplace": """hospital: hôpital m, school: école f, bank: banque f, hotel: hôtel m, library: bibliothèque f,
    restaurant: restaurant m, bakery: boulangerie f, pharmacy: pharmacie f, supermarket: supermarché m,
    museum: musée m, office: bureau m, factory: usine f, bookshop: librairie f""",
    "room": """room: chambre f, single room: chambre simple f, double room: chambre double f,
    quiet room: chambre calme f""",
    "ticket": "ticket: billet m, return ticket: billet aller-retour m",
    "vehicle": "train: train m, bus: bus m, plane: avion m",
    "sight": """house: maison f, garden: jardin m, dress: robe f, castle: château m, photo: photo f, town: ville f,
    beach: plage f, story: histoire f, hotel: hôtel m, tree: arbre m, bird: oiseau m, flat: appartement m,
    flowers: fleurs fp, film: film m, song: chanson f""",
    "elder": """father: père m, mother: mère f, uncle: oncle m, aunt: tante f, grandfather: grand-père m,
    grandmother: grand-mère f""",
    "younger": "brother: frère m, sister: sœur f, son: fils m, daughter: fille f, nephew: neveu m, niece: nièce f",
    "family": "parents: parents mp, children: enfants mp, friends: amis mp, grandparents: grands-parents mp",
    "doctor": """doctor: médecin m, dentist: dentiste m, lawyer: avocat m, hairdresser: coiffeur m,
    teacher: professeur m, headmistress: directrice f""",
    "event": """meeting: réunion f, concert: concert m, party: fête f, exam: examen m, match: match m,
    wedding: mariage m, visit: visite f, race: course f""",
    "gift": """letter: lettre f, help: aide f, present: cadeau m, invitation: invitation f, advice: conseils mp,
    message: message m, call: appel m, patience: patience f, answer: réponse f, visit: visite f, flowers: fleurs fp,
    attention: attention f""",
    "language": """French: français m, English: anglais m, German: allemand m, Spanish: espagnol m, Italian: italien m,
    Chinese: chinois m, Japanese: japonais m, Russian: russe m, Portuguese: portugais m""",
}
UNCOUNTED = ("drink", "grocery")
"""The tables of nouns that name stuff and not things: "some bread", never "two breads"."""

TOWNS = """Paris: Paris, London: Londres, Rome: Rome, Madrid: Madrid, Berlin: Berlin, Lyon: Lyon, Geneva: Genève,
    Brussels: Bruxelles, Lisbon: Lisbonne, Athens: Athènes, Amsterdam: Amsterdam, Venice: Venise"""
COUNTRIES = """France: France f, Italy: Italie f, Spain: Espagne f, Germany: Allemagne f, England: Angleterre f,
    Belgium: Belgique f, Greece: Grèce f, Holland: Hollande f, Japan: Japon m, Canada: Canada m, Portugal: Portugal m,
    Brazil: Brésil m, Morocco: Maroc m, the United States: États-Unis mp, the Netherlands: Pays-Bas mp"""

# --------------------------------------------------------------------------------------------------------- people

FIRST_NAMES = """Paul: Paul tu-ms, Thomas: Thomas tu-ms, Nicolas: Nicolas tu-ms, Hugo: Hugo tu-ms, Marie: Marie tu-fs,
    Julie: Julie tu-fs, Emma: Emma tu-fs, Alice: Alice tu-fs"""
INTIMATES = FIRST_NAMES + ", my friend: mon ami tu-ms, darling: mon chéri tu-ms, Mum: maman tu-fs, Dad: papa tu-ms"
STRANGERS = """sir: monsieur vous-ms, madam: madame vous-fs, doctor: docteur vous-ms,
    Mr Martin: monsieur Martin vous-ms, Mrs Bernard: madame Bernard vous-fs"""
GROUPS = """everyone: tout le monde vous-mp, children: les enfants vous-mp, girls: les filles vous-fp,
    my friends: mes amis vous-mp, ladies: mesdames vous-fp, gentlemen: messieurs vous-mp"""
PRONOUNS = "I: je je, he: il il, she: elle elle, we: nous nous, they: ils ils"
THIRD_PERSONS = """Paul: Paul il, Marie: Marie elle, Mr Martin: monsieur Martin il, Mrs Bernard: madame Bernard elle,
    my brother: mon frère il, my sister: ma sœur elle, my parents: mes parents ils, her husband: son mari il,
    his wife: sa femme elle, the girls: les filles elles, our neighbours: nos voisins ils, my sisters: mes sœurs elles,
    Paul and Marie: Paul et Marie ils"""
JOBS = """doctor: médecin, nurse: infirmier, teacher: enseignant, student: étudiant, engineer: ingénieur,
    cook: cuisinier, baker: boulanger, lawyer: avocat, journalist: journaliste, musician: musicien, dentist: dentiste,
    singer: chanteur, actor: acteur, writer: écrivain, artist: artiste, hairdresser: coiffeur"""

# ----------------------------------------------------------------------------------------------------- adjectives

ADJECTIVES: dict[str, str] = {
    "color": """red: rouge, blue: bleu, green: vert, black: noir, white: blanc, grey: gris, yellow: jaune,
    brown: marron, pink: rose, orange: orange""",
    "coat": "black: noir, white: blanc, grey: gris, brown: marron",
    "size": "big: grand, small: petit, beautiful: beau, old: vieux, pretty: joli",
    "style": """new: nouveau, beautiful: beau, pretty: joli, expensive: cher, big: grand, small: petit, old: vieux,
    modern: moderne""",
    "needed": "new: nouveau, big: grand, small: petit, beautiful: beau, modern: moderne",
    "fit": "big: grand, small: petit, expensive: cher, long: long, heavy: lourd, old: vieux",
    "flavour": "hot: chaud, cold: froid, good: bon, bad: mauvais, expensive: cher",
    "look": "beautiful: beau, pretty: joli, big: grand, sad: triste, old: vieux, interesting: intéressant",
    "quality": "heavy: lourd, light: léger, expensive: cher, old: vieux, useful: utile, dirty: sale, beautiful: beau",
    "mood": """happy: heureux, sad: triste, tired: fatigué, ill: malade, busy: occupé, ready: prêt, worried: inquiet,
    nervous: nerveux, alone: seul, free: libre, calm: calme""",
    "feeling": "sad: triste, tired: fatigué, ill: malade, worried: inquiet, nervous: nerveux, busy: occupé",
    "trait": """tall: grand, young: jeune, kind: gentil, intelligent: intelligent, funny: drôle, famous: célèbre,
    serious: sérieux, patient: patient, lazy: paresseux, rich: riche, generous: généreux, polite: poli, proud: fier,
    strong: fort, brave: courageux, active: actif""",
    "compared": """taller: grand, smaller: petit, kinder: gentil, funnier: drôle, richer: riche, stronger: fort,
    more patient: patient, more serious: sérieux, more polite: poli, more generous: généreux, more famous: célèbre,
    more active: actif""",
    "shut": "open: ouvert, closed: fermé",
}

# -------------------------------------------------------------------------------------------------- verb phrases

VERB_PHRASES: dict[str, str] = {
    # Definite objects only: "pas" would turn an indefinite or partitive one into "de".
    "act": """play football: jouer au football, play tennis: jouer au tennis, play the piano: jouer du piano,
    watch television: regarder la télévision, listen to the radio: écouter la radio,
    read the newspaper: lire le journal, study French: étudier le français, learn English: apprendre l'anglais,
    cook: cuisiner, work: travailler, dance: danser, sing: chanter, swim in the pool: nager dans la piscine,
    run in the park: courir dans le parc, eat at the restaurant: manger au restaurant,
    clean the house: nettoyer la maison, wash the car: laver la voiture, do the shopping: faire les courses,
    do the washing-up: faire la vaisselle, take the bus: prendre le bus, wait for the train: attendre le train,
    visit the museum: visiter le musée, help the children: aider les enfants, prepare dinner: préparer le dîner,
    work in the garden: travailler dans le jardin, speak French: parler français""",
    "routine": """get up: se lever, wake up: se réveiller, have lunch: déjeuner, have dinner: dîner,
    have breakfast: prendre le petit déjeuner, start work: commencer le travail, finish work: finir le travail,
    leave the house: quitter la maison, come home: rentrer à la maison, take the bus: prendre le bus, go out: sortir,
    leave for school: partir pour l'école""",
    "motion": """get up early: se lever tôt, go to bed late: se coucher tard, stay at home: rester à la maison,
    come home late: rentrer tard, go out: sortir, arrive at the station: arriver à la gare, leave early: partir tôt,
    walk in the park: se promener dans le parc, rest in the garden: se reposer dans le jardin,
    go to the cinema: aller au cinéma, come by train: venir en train, fall in the street: tomber dans la rue""",
    "rising": """get up: se lever, wake up: se réveiller, come home: rentrer à la maison, leave: partir,
    go out: sortir, arrive: arriver, come: venir""",
    "state": """be hungry: avoir faim, be thirsty: avoir soif, be cold: avoir froid, be hot: avoir chaud,
    be sleepy: avoir sommeil, be afraid: avoir peur""",
    "verdict": "be right: avoir raison, be wrong: avoir tort",
    "pain": """have a headache: avoir mal à la tête, have a stomach ache: avoir mal au ventre,
    have toothache: avoir mal aux dents, have a sore throat: avoir mal à la gorge, have backache: avoir mal au dos,
    have a fever: avoir de la fièvre""",
    "command": """close the door: fermer la porte, open the window: ouvrir la fenêtre,
    turn on the light: allumer la lumière, wait here: attendre ici, come in: entrer,
    listen to the teacher: écouter le professeur, call the doctor: appeler le médecin, sign here: signer ici,
    take the second street: prendre la deuxième rue, follow this road: suivre cette route,
    speak slowly: parler lentement, eat the soup: manger la soupe, read this page: lire cette page,
    look at the map: regarder la carte, repeat the question: répéter la question, cross the bridge: traverser le pont,
    finish the work: finir le travail, come to the station: venir à la gare, go to the bank: aller à la banque,
    do this exercise: faire cet exercice""",
    "ban": """open the window: ouvrir la fenêtre, close the door: fermer la porte, wait here: attendre ici,
    take the bus: prendre le bus, touch the lamp: toucher la lampe, forget the keys: oublier les clés,
    eat in the car: manger dans la voiture, lose the tickets: perdre les billets,
    sign this letter: signer cette lettre, listen to the neighbours: écouter les voisins,
    cross the street: traverser la rue, come late: venir tard, turn on the television: allumer la télévision,
    drink this water: boire cette eau, read this letter: lire cette lettre,
    speak in the library: parler dans la bibliothèque""",
    "turn": "turn left: tourner à gauche, turn right: tourner à droite, cross the street: traverser la rue",
    "taste": "like: aimer, love: adorer, hate: détester, prefer: préférer",
    "mishap": "lose: perdre, forget: oublier, find: trouver",
    "handing": "give: donner, pass: passer, bring: apporter",
    "modal": "want to: vouloir, can: pouvoir, must: devoir",
    "forecast": "rain: pleuvoir, snow: neiger, be cold: faire froid, be hot: faire chaud, be windy: faire du vent",
}

# ------------------------------------------------------------------------------------------------- fixed phrases

PHRASES: dict[str, str] = {
    "greeting": "hello: bonjour, good evening: bonsoir, goodbye: au revoir, thank you: merci",
    "wish": """good night: bonne nuit, see you soon: à bientôt, see you tomorrow: à demain, see you on Monday: à lundi,
    see you on Saturday: à samedi, see you next week: à la semaine prochaine, good luck: bonne chance,
    happy birthday: bon anniversaire, happy New Year: bonne année, have a good trip: bon voyage,
    have a nice day: bonne journée, have a nice evening: bonne soirée, enjoy your meal: bon appétit,
    have a good weekend: bon week-end""",
    "now": "today: aujourd'hui, this morning: ce matin, this afternoon: cet après-midi, this evening: ce soir",
    "daily": """every day: tous les jours, on Mondays: le lundi, on Saturdays: le samedi, in summer: en été,
    in winter: en hiver""",
    "weekly": """every evening: tous les soirs, every morning: tous les matins, every week: toutes les semaines,
    in the morning: le matin, in the evening: le soir, on Wednesdays: le mercredi, on Sundays: le dimanche,
    twice a week: deux fois par semaine, during the holidays: pendant les vacances, after work: après le travail""",
    "soon": """tomorrow: demain, tomorrow morning: demain matin, tomorrow evening: demain soir, on Saturday: samedi,
    on Tuesday: mardi, on Friday: vendredi, next Sunday: dimanche prochain, this evening: ce soir,
    in three days: dans trois jours""",
    "later": "next week: la semaine prochaine, next month: le mois prochain, next year: l'année prochaine",
    "yesterday": """yesterday: hier, last Saturday: samedi dernier, last Monday: lundi dernier,
    last Thursday: jeudi dernier, two days ago: il y a deux jours""",
    "earlier": """yesterday morning: hier matin, yesterday evening: hier soir, last week: la semaine dernière,
    last month: le mois dernier""",
    "weekday": """Monday: lundi, Tuesday: mardi, Wednesday: mercredi, Thursday: jeudi, Friday: vendredi,
    Saturday: samedi, Sunday: dimanche""",
    "unit": "days: jours, weeks: semaines, months: mois, years: ans, hours: heures",
    "period": "day: jour, week: semaine",
    "owner": "my: mon, his: son, her: son, our: notre, their: leur",
    "beside": """opposite: en face de, behind: derrière, next to: à côté de, near: près de, far from: loin de,
    in front of: devant, to the left of: à gauche de, to the right of: à droite de""",
    "after": "after: après, before: avant, in front of: devant, behind: derrière",
    "begins": "begins: commence, ends: finit",
    "transport": "by train: en train, by car: en voiture, by bus: en bus, by plane: en avion",
    "degree": "very: très, really: vraiment, quite: assez",
    "frequency": "often: souvent, sometimes: parfois, always: toujours",
    "skill": "well: bien, very well: très bien, badly: mal, fluently: couramment",
    "remedy": "this medicine: ce médicament, this syrup: ce sirop, these tablets: ces comprimés",
    "store": """in the kitchen: dans la cuisine, in the fridge: dans le réfrigérateur, on the table: sur la table,
    in the cupboard: dans le placard, at home: à la maison""",
    "spot": """on the table: sur la table, under the bed: sous le lit, in the drawer: dans le tiroir,
    in the kitchen: dans la cuisine, in the car: dans la voiture, on the chair: sur la chaise,
    behind the door: derrière la porte, next to the window: à côté de la fenêtre, on the desk: sur le bureau,
    under the armchair: sous le fauteuil, in front of the house: devant la maison""",
    "purchase": """some bread at the bakery: du pain à la boulangerie,
    a cake at the bakery: un gâteau à la boulangerie, some meat at the market: de la viande au marché,
    some fish at the market: du poisson au marché, some fruit at the market: des fruits au marché,
    some milk at the supermarket: du lait au supermarché, some rice at the supermarket: du riz au supermarché,
    some water at the supermarket: de l'eau au supermarché, some flowers at the market: des fleurs au marché,
    a book at the bookshop: un livre à la librairie, a newspaper at the station: un journal à la gare""",
    "opinion": """I think: je pense, I know: je sais, I believe: je crois, he says: il dit, she says: elle dit,
    we know: nous savons, we think: nous pensons, they think: ils pensent, everyone knows: tout le monde sait""",
    "weather": """is cold: fait froid, is hot: fait chaud, is sunny: fait soleil, is windy: fait du vent,
    is raining: pleut, is snowing: neige, is nice: fait beau, is mild: fait doux""",
    "condition": "is cold: fait froid, is hot: fait chaud, is windy: fait du vent, rains: pleut, snows: neige",
    "bygone": "was cold: faisait froid, was hot: faisait chaud, was windy: faisait du vent, rained: a plu",
    "judgement": """important: important, easy: facile, difficult: difficile, possible: possible,
    impossible: impossible, necessary: nécessaire, useful: utile, pleasant: agréable""",
}

# -------------------------------------------------------------------------------------------------------- English

PLURALS = {"knife": "knives", "child": "children"}
VERBS = """be was, have had, do did, go went, come came, get got, wake woke, eat ate, drink drank, buy bought,
    read read, run ran, swim swam, sing sang, take took, speak spoke, leave left, fall fell, lose lost, forget forgot,
    find found"""
PAST = dict(entry.split() for entry in VERBS.split(","))
MODALS = {"can": "cannot", "must": "must not"}
PRONOUN_OF = {"je": "I", "il": "he", "elle": "she", "nous": "we", "ils": "they", "elles": "they"}
POSSESSIVES = {"I": "my", "you": "your", "he": "his", "she": "her", "we": "our", "they": "their"}
OBJECTS = {"I": "me", "you": "you", "he": "him", "she": "her", "we": "us", "they": "them"}
MIDVERB = ("never", "often", "sometimes", "always", "no longer")
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_UNITS = f"zero one two three four five six seven eight nine {_TEENS}"
_TENS = "ten twenty thirty forty fifty sixty seventy eighty ninety"
_MONTHS = "January February March April May June July August September October November December"
UNITS, TENS, MONTHS = _UNITS.split(), _TENS.split(), _MONTHS.split()
MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
            "twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth"}  # fmt: skip


def english_surface(words: str) -> str:
    """The words of a sentence as they are written: with "an" for "a" before a vowel, and a capital at the head."""
    written = re.sub(r"\b([Aa]) (?=(?!uni|one\b)[aeiou])", r"\1n ", " ".join(words.split()))
    return written[:1].upper() + written[1:]


def english_plural(noun: str) -> str:
    """The plural of a noun; "glass of water" inflects its head."""
    head, of, complement = noun.partition(" of ")
    if head in PLURALS:
        plural = PLURALS[head]
    elif head.endswith(("s", "ch", "sh", "x", "ato")):
        plural = head + "es"
    else:
        plural = re.sub(r"(?<![aeiou])y$", "ie", head) + "s"
    return plural + of + complement


def english_verb(verb: str, pronoun: str, tense: str = "present") -> str:
    """The form of a verb that goes with a subject pronoun, in the present or the past."""
    singular = pronoun in ("I", "he", "she")
    if verb == "be":
        present = "am" if pronoun == "I" else "is" if singular else "are"
        return present if tense == "present" else "was" if singular else "were"
    if tense == "past":
        return PAST.get(verb) or re.sub(r"(?<![aeiou])y$", "i", verb.removesuffix("e")) + "ed"
    if verb in MODALS or pronoun not in ("he", "she"):
        return verb
    return "has" if verb == "have" else english_plural(verb) if verb not in ("do", "go") else verb + "es"


def english_cardinal(number: int) -> str:
    """A number below a thousand, in words."""
    if number >= 100:
        rest = f" and {english_cardinal(number % 100)}" if number % 100 else ""
        return f"{UNITS[number // 100]} hundred{rest}"
    tens, unit = divmod(number, 10)
    return UNITS[number] if number < 20 else TENS[tens - 1] + (f"-{UNITS[unit]}" if unit else "")


def english_date(day: int, month: int) -> str:
    """A day of the year: "the third of May"."""
    stem, hyphen, last = english_cardinal(day).rpartition("-")
    return f"the {stem}{hyphen}{ORDINALS.get(last, last + 'th')} of {MONTHS[month - 1]}"


def english_clock(hour: int, minute: int) -> str:
    """A time of day, from so many minutes past an hour or, if negative, before it; hour 0 is midnight and 12 noon."""
    name = {0: "midnight", 12: "noon"}.get(hour, UNITS[hour])
    if minute == 0:
        return name if hour in (0, 12) else f"{name} o'clock"
    minutes = {15: "a quarter", 30: "half"}.get(abs(minute)) or english_cardinal(abs(minute))
    return f"{minutes} {'past' if minute > 0 else 'to'} {name}"


@dataclass(frozen=True)
class EnglishNoun:
    """A noun, formatted by a determiner and adjectives: ``"a red"``, ``"some"``.

    ``"s"`` is the noun without an article as English speaks of a kind: "bread", "apples".  ``"+be"`` is the form of
    a verb that agrees with the noun, ``"s+be"`` the form that agrees with the kind.
    """

    word: str
    plural: bool = False
    mass: bool = False

    def __format__(self, spec: str) -> str:
        if "+" in spec:
            plural = self.plural or (spec.startswith("s+") and not self.mass)
            return english_verb(spec.partition("+")[2], "they" if plural else "he")
        determiner, _, adjectives = spec.partition(" ")
        kind = determiner in ("s", "some", "any")
        plural = kind and not self.mass and not self.plural
        noun = english_plural(self.word) if plural else self.word
        if determiner == "s" or (determiner == "a" and self.plural):
            determiner = ""
        elif determiner == "this" and self.plural:
            determiner = "these"
        return " ".join(filter(None, (determiner, adjectives, noun)))


@dataclass(frozen=True)
class EnglishSubject:
    """Whoever acts, formatted by a verb phrase: ``"not play football"`` gives "he doesn't play football".

    The phrase may begin with ``pro`` (a pronoun stands for the subject), ``ask`` (question), ``past``, ``not`` or an
    adverb.  ``voc``, ``his`` and ``him`` are the name to call the person by, the possessive and the object pronoun.
    """

    word: str
    pronoun: str

    def __format__(self, spec: str) -> str:
        if spec in ("", "voc"):
            return self.word
        if spec == "him":
            return OBJECTS[self.pronoun] if self.word == self.pronoun else self.word
        if spec == "his":
            return POSSESSIVES[self.pronoun]
        flags, phrase = set[str](), spec
        while (flag := phrase.partition(" ")[0]) in ("pro", "ask", "past", "not"):
            flags.add(flag)
            phrase = phrase.partition(" ")[2]
        subject = self.pronoun if "pro" in flags or self.pronoun == "you" else self.word
        tense = "past" if "past" in flags else "present"
        adverb = next((adverb for adverb in MIDVERB if phrase.startswith(adverb + " ")), "")
        verb, _, rest = phrase.removeprefix(adverb).strip().partition(" ")
        finite = english_verb(verb, self.pronoun, tense)
        if flags & {"ask", "not"} and verb != "be" and verb not in MODALS:
            finite, rest = english_verb("do", self.pronoun, tense), f"{verb} {rest}".strip()
        group = [finite, adverb] if verb == "be" else [adverb, finite]
        if "ask" in flags:
            return " ".join(filter(None, (finite, subject, rest)))
        if "not" in flags:
            group = [MODALS[verb]] if verb in MODALS else [f"{finite} not" if verb == "be" else f"{finite}n't"]
        return " ".join(filter(None, (subject, *group, rest)))
