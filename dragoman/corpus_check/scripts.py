"""The scripts of letters, from Unicode's table, and the scripts in which languages are written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache

import numpy as np
from fontTools.unicodedata import Scripts, script_horizontal_direction, script_name
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import Side
from dragoman.text.languages import base_code

_ENOUGH_LETTERS = 200  # to say something of the scripts of a text

SCRIPTS = sorted(set(Scripts.VALUES) - {"Zyyy", "Zinh", "Zzzz"})
"""Codes of ISO 15924."""

_COMPOSITE = {"Jpan": "Hani Hira Kana", "Kore": "Hang Hani", "Hans": "Hani", "Hant": "Hani", "Hrkt": "Hira Kana"}
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


@cache
def script_table() -> NDArray[np.uint8]:
    """Return for each code point the number of its script in SCRIPTS, from 1; 0 if it is not a letter."""
    table = np.zeros(0x110000, np.uint8)
    for start, end, script in zip(Scripts.RANGES, [*Scripts.RANGES[1:], 0x110000], Scripts.VALUES, strict=True):
        if script in SCRIPTS:
            table[start:end] = SCRIPTS.index(script) + 1
    for code in np.flatnonzero(table).tolist():
        if unicodedata.category(chr(code))[0] not in "LM":
            table[code] = 0
    return table


def count_scripts(side: Side) -> NDArray[np.int64]:
    """Return the number of letters of each script, by its number in script_table."""
    return np.bincount(script_table()[side.codes], minlength=len(SCRIPTS) + 1)


@cache
def scripts_of(code: str) -> frozenset[str]:
    """Return the scripts of a language, or the script that its code names; empty for an unknown language."""
    for subtag in re.split(r"[-_]", code)[1:]:
        if subtag.title() in SCRIPTS or subtag.title() in _COMPOSITE:
            return frozenset(_COMPOSITE.get(subtag.title(), subtag.title()).split())
    for entry in _NOT_LATIN.split(";"):
        scripts, codes = entry.split(":")
        if base_code(code) in codes.split():
            return frozenset(scripts.split())
    return frozenset({"Latn"} if base_code(code) in _LATIN.split() else ())


def main_scripts(counts: NDArray[np.int64]) -> frozenset[str]:
    """Return the scripts that have a twentieth of the letters; none if there are too few letters."""
    letters = counts[1:].sum()
    return frozenset(
        script
        for script, count in zip(SCRIPTS, counts[1:], strict=True)
        if letters >= _ENOUGH_LETTERS and 20 * count >= letters
    )


def fits_scripts(scripts: frozenset[str], counts: NDArray[np.int64]) -> bool:
    """Whether at least a third of the letters are in these scripts, or there are too few letters to say."""
    letters, own = counts[1:].sum(), sum(counts[SCRIPTS.index(script) + 1] for script in scripts)
    return bool(letters < _ENOUGH_LETTERS or 3 * own >= letters)


def needs_direction_marks(scripts: Iterable[str]) -> bool:
    """Whether one of the scripts is written from right to left."""
    return any(script_horizontal_direction(script) == "RTL" for script in scripts)


def names_of(scripts: Iterable[str]) -> str:
    """Return the English names of some scripts."""
    return ", ".join(sorted(script_name(script) for script in scripts))
