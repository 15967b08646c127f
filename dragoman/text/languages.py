"""Language codes such as "en", "pt-BR", "zh_Hant" and "eng_Latn": what the code alone says of a language."""

import re

from dragoman.config import require
from dragoman.runtime.optional_imports import import_optional

_LONG_CODES = {
    "ara": "ar", "bul": "bg", "ces": "cs", "dan": "da", "deu": "de", "ell": "el", "eng": "en", "est": "et",
    "fas": "fa", "fin": "fi", "fra": "fr", "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu", "ind": "id",
    "ita": "it", "jpn": "ja", "kor": "ko", "lav": "lv", "lit": "lt", "nld": "nl", "nob": "nb", "nor": "no",
    "pol": "pl", "por": "pt", "ron": "ro", "rus": "ru", "slk": "sk", "slv": "sl", "spa": "es", "srp": "sr",
    "swe": "sv", "tur": "tr", "ukr": "uk", "urd": "ur", "vie": "vi", "zho": "zh",
    "bod": "bo", "bur": "my", "chi": "zh", "cmn": "zh", "dzo": "dz", "khm": "km", "lao": "lo", "mya": "my",
    "tha": "th", "tib": "bo", "cn": "zh", "iw": "he", "jp": "ja", "kr": "ko",
}  # fmt: skip

LETTER = r"[\w\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e]"
"""A letter or digit, or a vowel sign of Indic and Thai letters, which \\w lacks."""
_WITHOUT_SPACES = re.compile("bo|dz|gan|hak|hsn|ja|km|lo|lzh|my|nan|th|wuu|yue|zh")


def directions(source: str, target: str) -> list[tuple[str, str]]:
    """The directions between two lists of codes such as "en,de": each source into each other target.

    Raises:
        ConfigError: a list names a language twice, or none.
    """
    for codes in (source.split(","), target.split(",")):
        is_list = all(codes) and len({*codes}) == len(codes)
        require(is_list, f"{','.join(codes)!r} is no list of languages such as en,de")
    pairs = [(one, other) for one in source.split(",") for other in target.split(",")]
    return [(one, other) for one, other in pairs if one != other] if len(pairs) > 1 else pairs


def target_tag(code: str) -> str:
    """What a source line begins with to tell a model of several target languages which one to write."""
    return f">>{code}<<"


def base_code(code: str) -> str:
    """The language of a code such as "pt-BR", "zh_CN" or "eng_Latn", in two letters where it has such a code."""
    base = re.split(r"[-_]", code.lower())[0]
    return _LONG_CODES.get(base, base)


def has_spaces(code: str) -> bool:
    """Whether a language, or each of a list, is written with spaces between words: "en", "zho_Hans", "en,ja"."""
    return all(not _WITHOUT_SPACES.fullmatch(base_code(one)) or "latn" in one.lower() for one in code.split(","))


def sentence_gap(code: str) -> str:
    """What stands between the sentences of a language. Thai and its neighbours have spaces there, and only there."""
    return " " if has_spaces(code) or base_code(code) in ("bo", "dz", "km", "lo", "my", "th") else ""


def english_name(code: str) -> str:
    """What a language is called in English, or its code where Babel knows no name for it."""
    names: dict[str, str] = import_optional("babel", "serve").Locale("en").languages
    return names.get(code.replace("-", "_")) or names.get(base_code(code), code)
