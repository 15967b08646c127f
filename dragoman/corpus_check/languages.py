"""What is known about languages beforehand: the scripts they are written in, and their most frequent words."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dragoman.text.languages import base_code

SCRIPTS: dict[str, tuple[tuple[int, int], ...]] = {
    "Latn": ((0x41, 0x5A), (0x61, 0x7A), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x2AF), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F),
             (0xA722, 0xA787), (0xA78B, 0xA7FF), (0xAB30, 0xAB64), (0xFF21, 0xFF5A)),
    "Grek": ((0x370, 0x373), (0x376, 0x377), (0x37B, 0x37D), (0x386, 0x3E1), (0x1F00, 0x1FFF)),
    "Cyrl": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Armn": ((0x531, 0x556), (0x560, 0x588)),
    "Hebr": ((0x5D0, 0x5F2), (0xFB1D, 0xFB4F)),
    "Arab": ((0x620, 0x64A), (0x66E, 0x6D3), (0x6FA, 0x6FF), (0x750, 0x77F), (0x8A0, 0x8FF), (0xFB50, 0xFDFF),
             (0xFE70, 0xFEFC)),
    "Syrc": ((0x710, 0x74F),),
    "Thaa": ((0x780, 0x7B1),),
    "Nkoo": ((0x7C0, 0x7FA),),
    "Deva": ((0x900, 0x963), (0x970, 0x97F), (0xA8E0, 0xA8FF)),
    "Beng": ((0x980, 0x9E3), (0x9F0, 0x9FE)),
    "Guru": ((0xA00, 0xA65), (0xA70, 0xA7F)),
    "Gujr": ((0xA80, 0xAE3), (0xAF0, 0xAFF)),
    "Orya": ((0xB00, 0xB63), (0xB70, 0xB7F)),
    "Taml": ((0xB80, 0xBE5),),
    "Telu": ((0xC00, 0xC63), (0xC70, 0xC7F)),
    "Knda": ((0xC80, 0xCE3), (0xCF0, 0xCFF)),
    "Mlym": ((0xD00, 0xD63), (0xD70, 0xD7F)),
    "Sinh": ((0xD80, 0xDE5), (0xDF0, 0xDF3)),
    "Thai": ((0xE01, 0xE4E),),
    "Laoo": ((0xE81, 0xECF), (0xEDC, 0xEDF)),
    "Tibt": ((0xF00, 0xF1F), (0xF40, 0xFBC)),
    "Mymr": ((0x1000, 0x103F), (0x104A, 0x108F), (0x109A, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
    "Geor": ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "Hang": ((0x1100, 0x11FF), (0x3131, 0x318E), (0xA960, 0xA97F), (0xAC00, 0xD7FF)),
    "Ethi": ((0x1200, 0x1360), (0x1380, 0x139F), (0x2D80, 0x2DDF), (0xAB00, 0xAB2F)),
    "Cher": ((0x13A0, 0x13FF), (0xAB70, 0xABBF)),
    "Cans": ((0x1400, 0x167F), (0x18B0, 0x18FF)),
    "Khmr": ((0x1780, 0x17D3), (0x17DC, 0x17DD)),
    "Mong": ((0x1820, 0x18AA),),
    "Olck": ((0x1C5A, 0x1C7D),),
    "Tfng": ((0x2D30, 0x2D7F),),
    "Hira": ((0x3041, 0x309F),),
    "Kana": ((0x30A1, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)),
    "Bopo": ((0x3105, 0x312F), (0x31A0, 0x31BF)),
    "Yiii": ((0xA000, 0xA48C),),
    "Hani": ((0x3005, 0x3007), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF)),
}  # fmt: skip
"""The letters of each script (ISO 15924): ranges of code points, both ends included."""

SCRIPT_NAMES = {
    "Latn": "Latin", "Grek": "Greek", "Cyrl": "Cyrillic", "Armn": "Armenian", "Hebr": "Hebrew", "Arab": "Arabic",
    "Syrc": "Syriac", "Thaa": "Thaana", "Nkoo": "N’Ko", "Deva": "Devanagari", "Beng": "Bengali", "Guru": "Gurmukhi",
    "Gujr": "Gujarati", "Orya": "Odia", "Taml": "Tamil", "Telu": "Telugu", "Knda": "Kannada", "Mlym": "Malayalam",
    "Sinh": "Sinhala", "Thai": "Thai", "Laoo": "Lao", "Tibt": "Tibetan", "Mymr": "Burmese", "Geor": "Georgian",
    "Hang": "Hangul", "Ethi": "Ethiopic", "Cher": "Cherokee", "Cans": "Canadian syllabics", "Khmr": "Khmer",
    "Mong": "Mongolian", "Olck": "Ol Chiki", "Tfng": "Tifinagh", "Hira": "Hiragana", "Kana": "Katakana",
    "Bopo": "Bopomofo", "Yiii": "Yi", "Hani": "Han",
}  # fmt: skip
"""What the scripts are called."""

_COMPOSITE = {"Jpan": "Hani Hira Kana", "Kore": "Hang Hani", "Hans": "Hani", "Hant": "Hani", "Hrkt": "Hira Kana"}
"""Codes that stand for several scripts, or for a variety of one."""

_NOT_LATIN = """
    Arab: ar fa ps sd ug ur ckb; Arab Latn: ku ms az; Arab Deva: ks; Arab Guru: pa; Armn: hy; Beng: as bn;
    Cyrl: ab av ba be bg ce cu cv kv mk os ru uk; Cyrl Latn: sr sh bs tk uz; Cyrl Arab Latn: kk ky tg tt; Cyrl Mong: mn;
    Deva: bh hi mr ne sa mai bho; Ethi: am ti; Geor: ka; Grek: el; Gujr: gu; Hebr: he iw yi; Hani: zh yue wuu lzh;
    Hang Hani: ko; Hani Hira Kana: ja; Khmr: km; Knda: kn; Laoo: lo; Mlym: ml; Mymr: my shn; Orya: or; Sinh: si;
    Taml: ta; Telu: te; Thaa: dv; Thai: th; Tibt: bo dz; Cans Latn: cr iu oj; Yiii: ii
"""
_LATIN = """
    aa af ak an ast ay bi bm br ca ceb ch co cs cy da de ee en eo es et eu ff fi fil fj fo fr fy ga gd gl gn gv ha ho hr
    ht hu hz ia id ie ig ik io is it jv kg ki kj kl kr kw la lb lg li ln lt lu lv mg mh mi mt na nb nd ng nl nn no nr nv
    ny oc om pl pt qu rm rn ro rw sc se sg sk sl sm sn so sq ss st su sv sw tl tn to tr ts tw ty ve vi vo wa wo xh yo za
    zu
"""

_WORDS = """
en: a an i he she the of and to in is was that it for on with by as are this be at have from you not his they were which
de: der die und das ist nicht ein eine zu den mit sich auf dem von für im ich sie auch wird einen sind wie in an er es
fr: le la les de et des est un une en dans que pas pour qui du sur avec ce il elle au a se son sa sont je vous
es: el la los las y de que en un una a es por con para no del se lo su le me como más está pero al
pt: o a os as e de que em um uma é não do da no na para com por se mais como foi ao dos são
it: il i di che e la un una a non per è con sono del della in si da gli le lo nel al alla più questo
nl: de het een en van ik ze hij als er je dat niet is in op te zijn met voor die er aan maar hebben ook wordt naar
sv: och att det som en på i är av för med den till inte har ett jag om de var han vi kan från
da: og at det en er på i et af til den som for med ikke har jeg de et der var han vi kan fra blev
no: og det at en er på i av til den som for med ikke har jeg de et var han vi kan fra ble
fi: ja on ei se että oli hän en mutta ovat kun mitä minä joka niin tämä olen sen myös kuin mukaan
hu: a az és hogy nem egy is van ez meg volt csak de ha mint már el kell még azt ki szerint
pl: i w nie na się że z do to jest jak za od po ale przez co są był tym jego dla czy
cs: a je se na že v to s z do o ale jsem jako si by pro jsou za který není byl po když
sk: a je sa na že v to s z do o ale som ako si by pre sú za ktorý nie bol po keď
sl: in je da se na v za so pa ki ne z bi po tudi kot ni od sem bil še ali kaj
hr: i je u da se na za su ne od s koji što ali kao sam bi to iz o jer biti nije
ro: și de în a la cu nu pe este că un o din mai care pentru sunt se am fost ca le au să
lt: ir kad yra į iš ne su tai jis bet kaip apie buvo aš nuo dėl jau tik per šis
lv: un ir ka ar no uz par bija es tas viņš bet kā nav lai arī tika pēc kas vai
et: ja on ei et see ta oli ma kui ka oma mis aga seda siis mida üks või pole kes
tr: ve bir bu da de için ile ne çok daha gibi ama var o olarak değil kadar en sonra olan ben
id: yang dan di ini itu dengan untuk tidak dari dalam akan pada juga saya ke karena ada bisa adalah oleh
vi: và của là không có được một cho các trong người những với này đã để khi đến tôi
ca: el la els les i de que en un una a és per amb no del es al com més aquest però són va dels
sq: dhe të në një për me nga që është nuk më do si por kjo ka ishte ky së janë
eu: eta da ez bat du ere zen dira baina izan dute egin hau duen dago beste
eo: la de kaj en estas ne mi al por ke kun vi li estis sed pri ĝi tio sur
af: die en van in is nie het dat om te vir sy met wat op word aan hy was ek
ru: и в не на что с я он как это а по но из у за то все так его от мы была
uk: і в не на що з я він як це а та до про за але від які його у ми був
bg: и на да се за от не в е са с по но като той това ще си до има
sr: и је у да се на за су не од са који што али као сам би то из
el: και το να η ο του της την για με που από είναι τα στο δεν τον θα των στην
ar: في من على أن إلى هذا التي عن لا مع كان ما هذه الذي بعد قد لم كل بين
fa: و در به از که این را با است برای آن یک تا می بر هم خود ما کرد
he: של את על לא זה הוא עם אני כל גם היא יש אם אבל כי מה או אחרי
hi: के है में की और से का को पर यह नहीं भी कि एक ने हैं था तो इस
"""

_KIN = (
    "da no nb nn sv",
    "cs sk",
    "hr sr bs sh sl mk bg",
    "es pt gl ca ast an oc",
    "id ms",
    "nl af fy",
    "ru uk be",
    "fa ar ur ps ckb",
)
"""Languages with too many words in common to tell them apart by a list."""

RIGHT_TO_LEFT = frozenset({"Arab", "Hebr", "Syrc", "Thaa", "Nkoo"})
"""Scripts that need direction marks."""


def scripts_of(code: str) -> frozenset[str]:
    """The scripts that a language is written in, its code's own subtag first; empty for an unknown language."""
    for subtag in re.split(r"[-_]", code)[1:]:
        script = subtag.title()
        if script in SCRIPTS or script in _COMPOSITE:
            return frozenset(_COMPOSITE.get(script, script).split())
    return _language_scripts().get(base_code(code), frozenset())


@cache
def words_of(code: str) -> frozenset[str]:
    """The most frequent words of a language; empty where they are not known."""
    base = base_code(code)
    return function_words().get(
        {"nb": "no", "nn": "no", "bs": "hr", "sh": "hr", "ms": "id"}.get(base, base), frozenset()
    )


@cache
def related(code: str, other: str) -> bool:
    """Whether two languages are the same, or too close to be told apart by their frequent words."""
    codes = {base_code(code), base_code(other)}
    return len(codes) == 1 or any(codes <= set(kin.split()) for kin in _KIN)


@cache
def function_words() -> dict[str, frozenset[str]]:
    """The most frequent words of each language that they are known of, in lower case."""
    rows = (line.split(": ") for line in _WORDS.strip().split("\n"))
    return {code: frozenset(words.split()) for code, words in rows}


@cache
def script_table() -> NDArray[np.uint8]:
    """For each code point the number of its script among SCRIPTS, from 1; 0 for what is no letter."""
    table = np.zeros(0x110000, np.uint8)
    for number, ranges in enumerate(SCRIPTS.values(), start=1):
        for first, last in ranges:
            table[first : last + 1] = number
    return table


@cache
def _language_scripts() -> dict[str, frozenset[str]]:
    known = {code: frozenset({"Latn"}) for code in _LATIN.split()}
    for entry in _NOT_LATIN.split(";"):
        scripts, codes = entry.split(":")
        known |= {code: frozenset(scripts.split()) for code in codes.split()}
    return known
