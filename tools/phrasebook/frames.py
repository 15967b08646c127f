"""The phrasebook: a grammar that says the same everyday things in English and in French.

A *frame* is one sentence in both languages with slots; FRAMES lists them, lexicon.py the words that fill the slots,
and french.py makes the words agree.  ``{garment:this {color}}`` asks the
filler of the slot *garment* for its form after "this", with the adjective that fills *color*; the French side asks for
``{garment:ce {color}}``.  A digit after the name of a slot tells two slots of the same kind apart.

French says more than English about the person who is spoken to, so the English must tell.  The conventions are:

* "you" always comes with a name to call somebody by.  First names, "Mum", "Dad", "darling" and "my friend" are *tu*;
  "sir", "madam", "doctor", "Mr" and "Mrs" with a name, and every group ("children", "everyone") are *vous*.  The name
  also gives the gender ("Are you ready, Marie?"); "my friend", "darling" and "doctor" are masculine.
* "please" without such a name is the polite *s'il vous plaît*.
* "they" is *ils*; "I" and "we" never meet a word whose gender they would decide; "friends" are masculine.
* "his" and "her" are both *son*, *sa*, *ses*: two English sentences may share their French one, never the reverse.
* The past is the *passé composé*.  Yes-no questions take *est-ce que*, but "can you", "are you", "do you want to" and
  "is there" invert; so do questions with *où*, *que*, *quand* and *combien*.
* French has a space before "?" and "!", and writes numbers with the traditional hyphens.

Sentences are held out of training by the combination of the first two fillers of their frame: training shows each of
the two in that frame, never both together.  Sentences of up to three English words have nothing to recombine and
always belong to training.
"""

import itertools
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from dragoman.datasets.phrasebook import Phrasebook
from tools.phrasebook import french, lexicon
from tools.phrasebook.french import Filler

SAMPLES_PER_FRAME = 80
"""How many sentences are made of each frame; a frame with fewer is used whole."""
VALID_SIZE = 150
TEST_SIZE = 300
MIN_SHOWN = {"en": 5, "fr": 5, "frame": 2}
"""How often training shows, at least, the words of a held-out sentence and each of its fillers in the same frame."""
SHORT = 3
"""Sentences of so many English words, or fewer, are never held out."""
Key = tuple[str, ...]

FRAMES = """
# Greetings and good wishes
{greeting} {addressee}{mark} = {greeting} {addressee}{mark}
{formula}, {you:voc}{stop} = {formula}, {you:voc}{stop}
Hello, {you:voc}. How are you {now}? = Bonjour, {you:voc}. Comment {you:inverse aller} {now} ?
How is {kin:your}, {you:voc}? = Comment va {kin:{you:ton}}, {you:voc} ?
Thank you for {gift:your}, {you:voc}{stop} = Merci pour {gift:{you:ton}}, {you:voc}{stop}
My name is {name} and I am {age} years old. = Je m'appelle {name} et j'ai {age} ans.
# Finding the way
Excuse me, {you:voc}, where is {place:the}? = {you:impératif excuser}-moi, {you:voc}, où est {place:le} ?
Can you tell me where {place:the} is, please, {you:voc}?
    = {you:inverse pouvoir} me dire où est {place:le}, {you:svp}, {you:voc} ?
Is there {place1:a} near {place2:the}? = Y a-t-il {place1:un} près de {place2:le} ?
{place1:the} is {beside} {place2:the}. = {place1:le} est {beside} {place2:le}.
How can I get to {place1:the} from {place2:the}? = Comment puis-je aller à {place1:le} depuis {place2:le} ?
{turn} {after} {place:the}, {you:voc}. = {you:impératif {turn}} {after} {place:le}, {you:voc}.
{who:be} going to {place1:the} and then to {place2:the}. = {who:aller} à {place1:le} puis à {place2:le}.
# Opening hours
{venue:the} {venue:+open} at {clock} {daily}. = {venue:le} {venue:+ouvrir} à {clock} {daily}.
{venue:the} {venue:+be} {shut} on {weekday1}s and {weekday2}s.
    = {venue:le} {venue:+être} {shut:{venue:gn}} le {weekday1} et le {weekday2}.
{venue:the} {venue:+be} {shut} on {date}. = {venue:le} {venue:+être} {shut:{venue:gn}} le {date}.
# Eating and drinking
{who:{taste}} {food:s}. = {who:{taste}} {food:les}.
{who:not like} {food:s}. = {who:ne pas aimer} {food:les}.
{who:like} {food1:s}, but {who:pro not like} {food2:s}.
    = {who:aimer} {food1:les}, mais {who:pro ne pas aimer} {food2:les}.
Do you like {food:s}, {you:voc}? = Est-ce que {you:aimer} {food:les}, {you:voc} ?
{who:want} {food1:some} and {food2:some}. = {who:vouloir} {food1:du} et {food2:du}.
{who:not want} any {food:s}. = {who:ne pas vouloir} de {food:s}.
{who:eat} {edible:s} {habit}. = {who:manger} {edible:du} {habit}.
{who:never drink} {drink:s}. = {who:ne jamais boire} de {drink:s}.
{who:drink} {drink:s} {habit}. = {who:boire} {drink:du} {habit}.
{who:be} going to eat {edible:s} {soon}. = {who:aller manger} {edible:du} {soon}.
{who:past eat} {n} {fruit:s} {past}. = {who:passé manger} {fruit:{n:#}} {past}.
{party:would like} {n} {dish:s}, please. = {party:conditionnel vouloir} {dish:{n:#}}, s'il vous plaît.
{party:would like} {portion:a} and {dish:a}, please.
    = {party:conditionnel vouloir} {portion:un} et {dish:un}, s'il vous plaît.
Can I have {portion:a}, please, {you:voc}? = Puis-je avoir {portion:un}, {you:svp}, {you:voc} ?
Do you have any {food:s}, {stranger:voc}? = Est-ce que {stranger:avoir} {food:du}, {stranger:voc} ?
{meal:this} is {degree} {flavour}. = {meal:ce} est {degree} {flavour:{meal:gn}}.
Can you {handing} me {tableware:the}, please, {you:voc}?
    = {you:inverse pouvoir} me {handing} {tableware:le}, {you:svp}, {you:voc} ?
There {food:s+be} no more {food:s} {store}. = Il n'y a plus de {food:s} {store}.
There {food:s+be} {food:some} {store}. = Il y a {food:du} {store}.
# Shopping
{who:past buy} {purchase} {past}. = {who:passé acheter} {purchase} {past}.
{who:past not buy} any {food:s} {past}. = {who:passé ne pas acheter} de {food:s} {past}.
{who:be} looking for {garment:a {color}}. = {who:chercher} {garment:un {color}}.
How much {garment:+do} {garment:this {color}} cost? = Combien {garment:+coûter} {garment:ce {color}} ?
{garment:this {color}} {garment:+cost} {price} euros. = {garment:ce {color}} {garment:+coûter} {price} euros.
{garment:this} {garment:+be} too {fit} for {who:him}.
    = {garment:ce} {garment:+être} trop {fit:{garment:gn}} pour {who:moi}.
{who:past buy} {garment:a {style}} {past}. = {who:passé acheter} {garment:un {style}} {past}.
{who:prefer} {garment1:the {color1}} and {garment2:the {color2}}.
    = {who:préférer} {garment1:le {color1}} et {garment2:le {color2}}.
That is {price} euros and {cents} cents, {stranger:voc}. = Ça fait {price} euros et {cents} centimes, {stranger:voc}.
# Travel
{who:be} going to {region} {transport} {future}. = {who:aller} {region:à} {transport} {future}.
{who:come} from {region}. = {who:venir} {region:de}.
{who:have} lived in {region} for {n} years. = {who:habiter} {region:à} depuis {n} ans.
{who:live} in {region} with {relative:{who:his}}. = {who:habiter} {region:à} avec {relative:{who:son}}.
{vehicle:the} for {town} leaves at {clock}. = {vehicle:le} pour {town} part à {clock}.
{vehicle:the} from {town} arrives at {clock}. = {vehicle:le} de {town} arrive à {clock}.
{party:would like} {n} {ticket:s} to {town}, please.
    = {party:conditionnel vouloir} {ticket:{n:#}} pour {town}, s'il vous plaît.
{party:would like} {room:a} for {n} nights, please.
    = {party:conditionnel vouloir} {room:un} pour {n} nuits, s'il vous plaît.
{who:be} looking for {room:a} near {place:the}. = {who:chercher} {room:un} près de {place:le}.
{third:past leave} for {region} {n} {unit} ago. = {third:passé partir} {region:pour} il y a {n} {unit}.
{third:past arrive} in {region} {past}. = {third:passé arriver} {region:à} {past}.
{third:past go} to {place:the} with {relative:{third:his}}.
    = {third:passé aller} à {place:le} avec {relative:{third:son}}.
{third:past {motion}} {past}. = {third:passé {motion}} {past}.
{third:past not {motion}} {past}. = {third:passé ne pas {motion}} {past}.
{who:have} never visited {region}. = {who:passé ne jamais visiter} {region:le}.
{who:have} already visited {region}. = {who:passé déjà visiter} {region:le}.
{who:want} to visit {region} {future}. = {who:vouloir visiter} {region:le} {future}.
{who:past {mishap}} {belonging:{who:his}} {past}. = {who:passé {mishap}} {belonging:{who:son}} {past}.
{who:leave} for {region} on {date}. = {who:partir} {region:pour} le {date}.
# Family, friends and possessions
{who:have} {few1} brothers and {few2} sisters. = {who:avoir} {few1} frères et {few2} sœurs.
{kin:{owner}} is {job:a}. = {kin:{owner}} est {job:{kin:gn}}.
{relative:{owner}} {relative:+be} {trait1} and {trait2}.
    = {relative:{owner}} {relative:+être} {trait1:{relative:gn}} et {trait2:{relative:gn}}.
{relative1:{owner}} {relative1:+be} {compared} than {relative2:{owner}}.
    = {relative1:{owner}} {relative1:+être} plus {compared:{relative1:gn}} que {relative2:{owner}}.
{kin1:{owner}} is as {trait} as {kin2:{owner}}. = {kin1:{owner}} est aussi {trait:{kin1:gn}} que {kin2:{owner}}.
{kin:{owner}} works in {workplace:a}. = {kin:{owner}} travaille dans {workplace:un}.
{elder:{owner}} is {ripe} years old. = {elder:{owner}} a {ripe} ans.
{younger:{owner}} is {tender} years old. = {younger:{owner}} a {tender} ans.
{kin:{owner}}'s birthday is on {date}. = L'anniversaire de {kin:{owner}} est le {date}.
Is {kin:your} at home {now}, {you:voc}? = Est-ce que {kin:{you:ton}} est à la maison {now}, {you:voc} ?
{who:have} {animal:a {size} {coat}}. = {who:avoir} {animal:un {size} {coat}}.
{who:have} {asset:a {style}}. = {who:avoir} {asset:un {style}}.
{who:not have} {asset:a}. = {who:ne pas avoir} de {asset}.
{who:no longer have} {asset:a}. = {who:ne plus avoir} de {asset}.
{who:need} {asset:a {needed}}. = {who:avoir besoin de} {asset:un {needed}}.
# Feelings and health
{third:be} {degree} {feeling} {now}. = {third:être} {degree} {feeling:{third:gn}} {now}.
{third:not be} {mood} {now}. = {third:ne pas être} {mood:{third:gn}} {now}.
Are you {mood}, {you:voc}? = {you:inverse être} {mood:{you:gn}}, {you:voc} ?
{who:{state}} {now}. = {who:{state}} {now}.
{who:not {state}} {now}. = {who:ne pas {state}} {now}.
{who:{pain}} {now}. = {who:{pain}} {now}.
Do you {pain}, {you:voc}? = Est-ce que {you:{pain}}, {you:voc} ?
{who:must take} {remedy} {doses} times a {period}. = {who:devoir prendre} {remedy} {doses} fois par {period}.
{who:have} an appointment with {doctor:the} on {weekday} at {clock}.
    = {who:avoir} rendez-vous avec {doctor:le} {weekday} à {clock}.
{third:not can {act}} {now} because {third:pro be} {feeling}.
    = {third:ne pas pouvoir {act}} {now} parce que {third:pro être} {feeling:{third:gn}}.
{who:not can {act}} {now} because {who:pro {state}}.
    = {who:ne pas pouvoir {act}} {now} parce que {who:pro {state}}.
# The day and its work
{who:{act}} {habit}. = {who:{act}} {habit}.
{who:not {act}} {habit}. = {who:ne pas {act}} {habit}.
{who:never {act}}. = {who:ne jamais {act}}.
{who:no longer {act}}. = {who:ne plus {act}}.
{who:{frequency} {act}} with {relative:{who:his}}. = {who:{frequency} {act}} avec {relative:{who:son}}.
{who:{modal} {act}} {soon}. = {who:{modal} {act}} {soon}.
{who:be} going to {act} {soon}. = {who:aller {act}} {soon}.
{who:past {act}} {past}. = {who:passé {act}} {past}.
{who:past not {act}} {past}. = {who:passé ne pas {act}} {past}.
{who:{routine}} at {clock} {daily}. = {who:{routine}} à {clock} {daily}.
{third:past {rising}} at {clock} {yesterday}. = {third:passé {rising}} à {clock} {yesterday}.
Do you {act} {habit}, {you:voc}? = Est-ce que {you:{act}} {habit}, {you:voc} ?
Do you want to {act} {soon}, {you:voc}? = {you:inverse vouloir} {act} {soon}, {you:voc} ?
It is {judgement} to {act} {daily}. = Il est {judgement} de {act} {daily}.
Let's {act} {soon}! = {us:impératif {act}} {soon} !
# Asking for things to be done, and asking questions
Can you {command}, please, {you:voc}? = {you:inverse pouvoir} {command}, {you:svp}, {you:voc} ?
{command}, please, {you:voc}. = {you:impératif {command}}, {you:svp}, {you:voc}.
Don't {ban}, {you:voc}. = {you:impératif ne pas {ban}}, {you:voc}.
Where are you going {future}, {you:voc}? = Où {you:inverse aller} {future}, {you:voc} ?
What are you doing {future}, {you:voc}? = Que {you:inverse faire} {future}, {you:voc} ?
When {pron:ask be} leaving for {region}? = Quand {pron:inverse partir} {region:pour} ?
How many {thing:s} {pron:ask have}? = Combien de {thing:s} {pron:inverse avoir} ?
Where {belonging:+be} {belonging:my}, {you:voc}? = Où {belonging:+être} {belonging:mon}, {you:voc} ?
{who:speak} {language} {skill}. = {who:parler} {skill} {language}.
Do you speak {language1} or {language2}, {you:voc}? = Est-ce que {you:parler} {language1} ou {language2}, {you:voc} ?
{who:want} to learn {language} {later}. = {who:vouloir apprendre} {language:le} {later}.
# Saying what one thinks
{opinion} that {third:{act}} {habit}. = {opinion} que {third:{act}} {habit}.
{opinion} that {who:{verdict}}. = {opinion} que {who:{verdict}}.
{opinion} that {third:be} {degree} {trait}. = {opinion} que {third:être} {degree} {trait:{third:gn}}.
If it {condition} {soon}, {who:be} going to {act}. = Si il {condition} {soon}, {who:aller {act}}.
What {sight:a {look}}! = {sight:quel {look}} !
{who:find} {sight:this} {degree} {look}. = {who:trouver} {sight:ce} {degree} {look:{sight:gn}}.
# Weather, time and dates
It {weather} in {region} {now}. = Il {weather} {region:à} {now}.
It {bygone} in {region} {past}. = Il {bygone} {region:à} {past}.
It is going to {forecast} in {region} {soon}. = Il va {forecast} {region:à} {soon}.
It is {degrees} degrees in {region} {now}. = Il fait {degrees} degrés {region:à} {now}.
It is {moment}, {you:voc}. = Il est {moment}, {you:voc}.
{event:the} {begins} at {clock} on {weekday}. = {event:le} {begins} à {clock} {weekday}.
{event:the} is on {weekday}, {date}. = {event:le} est le {weekday} {date}.
Today is {weekday}, {date}. = Aujourd'hui, c'est le {weekday} {date}.
# Things and where they are
There is {object:a} {spot}. = Il y a {object:un} {spot}.
There are {n} {object:s} {spot}. = Il y a {object:{n:#}} {spot}.
Is there {object:a {color}} {spot}? = Y a-t-il {object:un {color}} {spot} ?
{belonging:{owner}} {belonging:+be} {spot}. = {belonging:{owner}} {belonging:+être} {spot}.
{object:this} is {degree} {quality}. = {object:ce} est {degree} {quality:{object:gn}}.
"""

# ------------------------------------------------------------------------------------------------ filling the slots


class Sentence(NamedTuple):
    """A sentence in both languages, with its frame and the first two fillers of the frame."""

    english: str
    french: str
    key: Key


def frames() -> list[tuple[str, str]]:
    """The frames of the grammar, as pairs of templates."""
    lines = re.sub(r"\n +=", " =", FRAMES).strip().split("\n")
    pairs = (line.partition(" = ") for line in lines)
    return [(english, translation) for english, equals, translation in pairs if equals]


def _people_slots() -> dict[str, list[Filler]]:
    i, he, she, we, they = pronouns = french.people(lexicon.PRONOUNS)
    thirds, strangers = french.people(lexicon.THIRD_PERSONS), french.people(lexicon.STRANGERS)
    you = french.people(lexicon.INTIMATES) + strangers + french.people(lexicon.GROUPS)
    slots = {"who": pronouns + thirds, "third": [he, she, they, *thirds], "pron": [he, she, we, they]}
    slots |= {"party": [i, we], "us": [we], "you": you, "stranger": strangers}
    return slots | {"addressee": [Filler("world", "le monde"), *you], "name": french.people(lexicon.FIRST_NAMES)}


def _number_slots() -> dict[str, list[Filler]]:
    ranges: dict[str, Iterable[int]] = {
        "n": range(2, 13), "few": range(2, 7), "doses": range(3, 7), "degrees": range(2, 41),
        "age": range(6, 100), "ripe": range(40, 100), "tender": range(2, 40),
        "cents": range(10, 100, 10), "price": (*range(10, 100), *range(100, 500, 20)),
    }  # fmt: skip
    return {
        name: [Filler(lexicon.english_cardinal(number), french.Number(number)) for number in numbers]
        for name, numbers in ranges.items()
    }


def _calendar_slots() -> dict[str, list[Filler]]:
    times = [(hour, minute) for hour in range(13) for minute in range(-25, 31, 5)]
    days = [(day + 1, month + 1) for month, length in enumerate(lexicon.MONTH_LENGTHS) for day in range(length)]
    parts = (
        ("in the morning", "du matin", range(1, 12)),
        ("in the afternoon", "de l'après-midi", range(1, 6)),
        ("in the evening", "du soir", range(6, 12)),
    )
    return {
        "clock": french.phrases((lexicon.english_clock(*time), french.clock(*time)) for time in times),
        "moment": french.phrases(
            (f"{lexicon.english_clock(*time)} {english}", f"{french.clock(*time)} {part}")
            for english, part, hours in parts
            for time in times
            if time[0] in hours
        ),
        "date": french.phrases((lexicon.english_date(*day), french.date(*day)) for day in days),
    }


@cache
def fillers() -> dict[str, list[Filler]]:
    """Everything that can fill a slot, by the name of the slot without its digit."""
    slots = {name: french.nouns(table, name in lexicon.UNCOUNTED) for name, table in lexicon.NOUNS.items()}
    slots["edible"] = slots["grocery"] + slots["fruit"]
    slots["food"] = slots["edible"] + slots["drink"]
    slots["kin"] = slots["elder"] + slots["younger"]
    slots["relative"] = slots["kin"] + slots["family"]
    slots["thing"] = slots["object"] + slots["animal"] + slots["fruit"]
    for name, table in lexicon.ADJECTIVES.items():
        slots[name] = [Filler(english, french.Adjective(word)) for english, word, _ in lexicon.words(table)]
    for name, table in (lexicon.VERB_PHRASES | lexicon.PHRASES).items():
        slots[name] = french.phrases((english, phrase) for english, phrase, _ in lexicon.words(table))
    slots["town"] = [Filler(english, french.Region(name)) for english, name, _ in lexicon.words(lexicon.TOWNS)]
    countries = lexicon.words(lexicon.COUNTRIES, marked=True)
    slots["region"] = slots["town"] + [Filler(english, french.Region(*name)) for english, *name in countries]
    trades = lexicon.words(lexicon.JOBS)
    slots["job"] = [Filler(lexicon.EnglishNoun(english), french.Adjective(trade)) for english, trade, _ in trades]
    slots["formula"] = slots["greeting"] + slots["wish"]
    slots["habit"] = slots["daily"] + slots["weekly"]
    slots["future"] = slots["soon"] + slots["later"]
    slots["past"] = slots["yesterday"] + slots["earlier"]
    slots |= {"stop": [Filler(".", "."), Filler("!", " !")], "mark": [Filler("", ""), Filler("!", " !")]}
    return slots | _people_slots() | _number_slots() | _calendar_slots()


def sentences(frame: tuple[str, str], seed: int) -> Iterator[Sentence]:
    """Some sentences of a frame, in random order; two slots of one kind never have the same filler."""
    slots = list(dict.fromkeys(re.findall(r"\{(\w+)", "".join(frame))))
    kinds = [slot.rstrip("0123456789") for slot in slots]
    tables = [fillers()[kind] for kind in kinds]
    total = math.prod(map(len, tables))
    rng = random.Random(f"{seed} {frame[0]}")
    for number in rng.sample(range(total), min(total, SAMPLES_PER_FRAME)):
        chosen = []
        for table in tables:
            number, index = divmod(number, len(table))
            chosen.append(table[index])
        if len(set(zip(kinds, map(id, chosen), strict=True))) < len(chosen):
            continue
        english = frame[0].format(**dict(zip(slots, (filler.english for filler in chosen), strict=True)))
        translation = frame[1].format(**dict(zip(slots, (filler.french for filler in chosen), strict=True)))
        key = (frame[0], *(format(filler.french) for filler in chosen[:2]))
        yield Sentence(lexicon.english_surface(english), french.surface(translation), key)


# -------------------------------------------------------------------------------------------------------- the split


def _corpus(seed: int) -> list[Sentence]:
    """All sentences, each English one once."""
    corpus: dict[str, Sentence] = {}
    for sentence in itertools.chain.from_iterable(sentences(frame, seed) for frame in frames()):
        known = corpus.setdefault(sentence.english, sentence)
        if known.french != sentence.french:
            raise ValueError(f"{sentence.english!r} is both {known.french!r} and {sentence.french!r}")
    return list(corpus.values())


def _evidence(sentence: Sentence) -> list[Key]:
    """What training must show before a sentence is held out: its words, and each of its two fillers in its frame."""
    evidence: list[Key] = [("en", word) for word in re.findall(r"\w+|[^\w\s]", sentence.english)]
    evidence += [("fr", word) for word in re.findall(r"\w+|[^\w\s]", sentence.french)]
    frame, *pair = sentence.key
    return evidence + [("frame", frame, str(position), filler) for position, filler in enumerate(pair)]


def _candidates(corpus: list[Sentence]) -> dict[Key, list[Sentence]]:
    """The groups of sentences that can be held out, the frames taking turns."""
    groups: defaultdict[Key, list[Sentence]] = defaultdict(list)
    keys_of: defaultdict[str, set[Key]] = defaultdict(set)
    for sentence in corpus:
        groups[sentence.key].append(sentence)
        keys_of[sentence.french].add(sentence.key)
    turns: Counter[str] = Counter()
    ranked = []
    for key, group in groups.items():
        # A French sentence that two groups share cannot be held out with one and shown with the other.
        alone = all(len(keys_of[sentence.french]) == 1 for sentence in group)
        if alone and all(len(sentence.english.split()) > SHORT for sentence in group):
            ranked.append((turns[key[0]], key))
            turns[key[0]] += len(group)
    return {key: groups[key] for _, key in sorted(ranked, key=lambda entry: entry[0])}


def _hold_out(groups: dict[Key, list[Sentence]], size: int, shown: Counter[Key]) -> list[Sentence]:
    """Move whole groups, `size` sentences together, out of `groups`, as long as training still shows what they need."""
    held: list[Sentence] = []
    for key, group in list(groups.items()):
        if len(held) + len(group) > size:
            continue
        loss = Counter(itertools.chain.from_iterable(map(_evidence, group)))
        if all(shown[item] - lost >= MIN_SHOWN[item[0]] for item, lost in loss.items()):
            shown.subtract(loss)
            held += groups.pop(key)
        if len(held) == size:
            break
    return held


def generate_grammar(seed: int = 1) -> Phrasebook:
    """The sentences of a seed: the same lists on every machine."""
    corpus = _corpus(seed)
    random.Random(seed).shuffle(corpus)
    groups = _candidates(corpus)
    shown = Counter(itertools.chain.from_iterable(map(_evidence, corpus)))
    valid, test = (_hold_out(groups, size, shown) for size in (VALID_SIZE, TEST_SIZE))
    held = {sentence.english for sentence in valid + test}
    train = [sentence for sentence in corpus if sentence.english not in held]
    return Phrasebook(
        *([(sentence.english, sentence.french) for sentence in part] for part in (train, valid, test, []))
    )
