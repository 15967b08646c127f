"""The phrasebook: a grammar that says the same everyday things in English and in French.

A *frame* is one sentence in both languages with slots; :data:`FRAMES` lists them, :mod:`dragoman.text.lexicon` the
words that fill the slots, and :mod:`dragoman.text.french` makes the words agree.  ``{garment:this {color}}`` asks the
filler of the slot *garment* for its form after "this", with the adjective that fills *color*; the French side asks
``{garment:ce {color}}``.  A digit after the name of a slot tells two slots of the same kind apart.

French says more than English about the person who is spoken to, so the English must tell.  The conventions are:

* "you" always comes with a name to call somebody by.  First names, "Mum", "Dad", "darling" and "my friend" are *tu*;
  "sir", "madam", "doctor", "Mr" and "Mrs" with a name, and every group ("children", "everyone") are *vous*.  The name
  also gives the gender ("Are you ready, Marie?"); "my friend", "darling" and "doctor" are masculine.
* "please" without such a name is the polite *s'il vous plaît*.
* "they" is *ils*; "the girls" and "my sisters" are feminine.
* "I" and "we" never meet a word whose gender they would decide; "my friends" and trades in the plural are masculine.
* Both "his" and "her" are *son*, *sa*, *ses*: English tells more here, so several English sentences may share one
  French sentence.  No English sentence has two French ones.
* The past is the *passé composé*.  Yes-no questions take *est-ce que* for ordinary verbs, and inversion for "can",
  "are", "want to" and "is there"; questions with *où*, *que*, *quand*, *combien* invert.
* French puts a space before "?" and "!", and writes numbers with the traditional hyphens.

Sentences are held out of the training part by the combination of the first two fillers of their frame: training shows
each of the two in the same frame, but never together.  Sentences of up to three English words have nothing to
recombine and always belong to training.
"""

import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dragoman.text import french, lexicon

SAMPLES_PER_FRAME = 300
VALID_SIZE = 500
TEST_SIZE = 1000
MIN_TRAIN_COUNT = 5
SHORT = 3

FRAMES_TABLE = """
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
{venue:the} {venue:+open} at {clock} {habit}. = {venue:le} {venue:+ouvrir} à {clock} {habit}.
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
{who:eat} {edible:some} {habit}. = {who:manger} {edible:du} {habit}.
{who:never drink} {drink:s}. = {who:ne jamais boire} de {drink:s}.
{who:drink} {drink:some} {habit}. = {who:boire} {drink:du} {habit}.
{who:be} going to eat {edible:some} {soon}. = {who:aller manger} {edible:du} {soon}.
{who:past eat} {fruit:{n:#}} {past}. = {who:passé manger} {fruit:{n:#}} {past}.
{party:would like} {dish:{n:#}}, please. = {party:conditionnel vouloir} {dish:{n:#}}, s'il vous plaît.
{party:would like} {portion:a} and {dish:a}, please.
    = {party:conditionnel vouloir} {portion:un} et {dish:un}, s'il vous plaît.
Can I have {portion:a}, please, {you:voc}? = Puis-je avoir {portion:un}, {you:svp}, {you:voc} ?
Do you have any {food:s}, {stranger:voc}? = Est-ce que {stranger:avoir} {food:du}, {stranger:voc} ?
{meal:this} is {degree} {flavour}. = {meal:ce} est {degree} {flavour:{meal:gn}}.
Can you {handing} me {tableware:the}, please, {you:voc}?
    = {you:inverse pouvoir} me {handing} {tableware:le}, {you:svp}, {you:voc} ?
There {food:s+be} no more {food:s} {store}. = Il n'y a plus de {food:s} {store}.
There {food:s+be} {food:s} {store}. = Il y a {food:du} {store}.
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
{sum}. = {sum}.
# Travel
{who:be} going to {region} {transport} {future}. = {who:aller} {region:à} {transport} {future}.
{who:come} from {region}. = {who:venir} {region:de}.
{who:have} lived in {region} for {n} years. = {who:habiter} {region:à} depuis {n} ans.
{who:live} in {region} with {relative:{who:his}}. = {who:habiter} {region:à} avec {relative:{who:son}}.
{vehicle:the} for {town} leaves at {clock}. = {vehicle:le} pour {town} part à {clock}.
{vehicle:the} from {town} arrives at {clock}. = {vehicle:le} de {town} arrive à {clock}.
{party:would like} {ticket:{n:#}} to {town}, please.
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
{who:have} {n1} brothers and {n2} sisters. = {who:avoir} {n1} frères et {n2} sœurs.
{kin:{owner}} is {job:a}. = {kin:{owner}} est {job:{kin:gn}}.
{relative:{owner}} {relative:+be} {trait1} and {trait2}.
    = {relative:{owner}} {relative:+être} {trait1:{relative:gn}} et {trait2:{relative:gn}}.
{relative1:{owner}} {relative1:+be} {compared} than {relative2:{owner}}.
    = {relative1:{owner}} {relative1:+être} plus {compared:{relative1:gn}} que {relative2:{owner}}.
{kin1:{owner}} is as {trait} as {kin2:{owner}}. = {kin1:{owner}} est aussi {trait:{kin1:gn}} que {kin2:{owner}}.
{kin:{owner}} works in {workplace:a}. = {kin:{owner}} travaille dans {workplace:un}.
{kin:{owner}} is {age} years old. = {kin:{owner}} a {age} ans.
{kin:{owner}}'s birthday is on {date}. = L'anniversaire de {kin:{owner}} est le {date}.
Is {kin:your} at home {now}, {you:voc}? = Est-ce que {kin:{you:ton}} est à la maison {now}, {you:voc} ?
{who:have} {animal:a {size} {coat}}. = {who:avoir} {animal:un {size} {coat}}.
{who:have} {asset:a {style}}. = {who:avoir} {asset:un {style}}.
{who:not have} {asset:a}. = {who:ne pas avoir} de {asset}.
{who:no longer have} {asset:a}. = {who:ne plus avoir} de {asset}.
{who:need} {asset:a {style}}. = {who:avoir besoin de} {asset:un {style}}.
# Feelings and health
{third:be} {degree} {mood} {now}. = {third:être} {degree} {mood:{third:gn}} {now}.
{third:not be} {mood} {now}. = {third:ne pas être} {mood:{third:gn}} {now}.
Are you {mood}, {you:voc}? = {you:inverse être} {mood:{you:gn}}, {you:voc} ?
{who:{state}} {now}. = {who:{state}} {now}.
{who:not {state}} {now}. = {who:ne pas {state}} {now}.
{who:{pain}} {now}. = {who:{pain}} {now}.
Do you {pain}, {you:voc}? = Est-ce que {you:{pain}}, {you:voc} ?
{who:must take} {remedy} {n} times a {period}. = {who:devoir prendre} {remedy} {n} fois par {period}.
{who:have} an appointment with {doctor:the} on {weekday} at {clock}.
    = {who:avoir} rendez-vous avec {doctor:le} {weekday} à {clock}.
{third:not {act}} {now} because {third:pro be} {feeling}.
    = {third:ne pas {act}} {now} parce que {third:pro être} {feeling:{third:gn}}.
{who:not {act}} {now} because {who:pro {need}}. = {who:ne pas {act}} {now} parce que {who:pro {need}}.
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
When {pron:be} {pron} leaving for {region}? = Quand {pron:inverse partir} {region:pour} ?
How many {thing:s} {pron:ask have}? = Combien de {thing:s} {pron:inverse avoir} ?
Where {belonging:+be} {belonging:my}, {you:voc}? = Où {belonging:+être} {belonging:mon}, {you:voc} ?
{who:speak} {tongue} {skill}. = {who:parler} {skill} {tongue}.
Do you speak {tongue1} or {tongue2}, {you:voc}? = Est-ce que {you:parler} {tongue1} ou {tongue2}, {you:voc} ?
{who:want} to learn {language} {future}. = {who:vouloir apprendre} {language:le} {future}.
# Saying what one thinks
{opinion} that {who:{act}} {habit}. = {opinion} que {who:{act}} {habit}.
{opinion} that {third:be} {degree} {trait}. = {opinion} que {third:être} {degree} {trait:{third:gn}}.
If it {condition} {soon}, {who:be} going to {act}. = Si il {condition} {soon}, {who:aller {act}}.
What {sight:a {look}}! = {sight:quel {look}} !
{who:find} {sight:this} {degree} {look}. = {who:trouver} {sight:ce} {degree} {look:{sight:gn}}.
# Weather, time and dates
It {weather} in {region} {now}. = Il {weather} {region:à} {now}.
It {bygone} in {region} {past}. = Il {bygone} {region:à} {past}.
It is going to {forecast} in {region} {soon}. = Il va {forecast} {region:à} {soon}.
It is {degrees} degrees in {region} {now}. = Il fait {degrees} degrés {region:à} {now}.
It is {moment}. = Il est {moment}.
{event:the} {begins} at {clock} on {weekday}. = {event:le} {begins} à {clock} {weekday}.
{event:the} is on {weekday}, {date}. = {event:le} est le {weekday} {date}.
Today is {weekday}, {date}. = Aujourd'hui, c'est le {weekday} {date}.
# Things and where they are
There is {object:a} {spot}. = Il y a {object:un} {spot}.
There are {object:{n:#}} {spot}. = Il y a {object:{n:#}} {spot}.
Is there {object:a {color}} {spot}? = Y a-t-il {object:un {color}} {spot} ?
{belonging:{owner}} {belonging:+be} {spot}. = {belonging:{owner}} {belonging:+être} {spot}.
{object:this} is {degree} {quality}. = {object:ce} est {degree} {quality:{object:gn}}.
"""
