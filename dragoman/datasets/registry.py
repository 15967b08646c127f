"""Public parallel texts that can be downloaded by name."""

from __future__ import annotations

from dataclasses import dataclass, field

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class File:
    """One file of a source."""

    address: str
    """Below the source's base address."""
    sha256: str = ""
    """Of the file; empty where it changes, or where nobody has published it."""
    members: dict[str, str] = field(default_factory=dict)
    """What to take out of an archive: the name of the file to write, by that of the member."""
    columns: tuple[str, ...] = ()
    """Where the members are tables, the languages of the first columns: they become training, validation and test
    text, whose names begin as members says."""

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.address.rsplit("/", 1)[-1]

    @property
    def written(self) -> list[str]:
        """The files that are taken out of it."""
        if not self.columns:
            return list(self.members.values())
        return [f"{prefix}-{part}.{x}" for prefix in self.members.values() for part in PARTS for x in self.columns]


@dataclass(frozen=True)
class Source:
    """A parallel text, and what to know before using it."""

    about: str
    home: str
    licence: str
    base: str
    files: tuple[File, ...]
    tests: tuple[tuple[str, str], ...] = ()
    """Validation and test text that sacreBLEU fetches: name of its test set, and direction."""


_RAW = {
    "train.en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.fr": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.fr": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.fr": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
}
_TOKENIZED = {
    "train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
}
_MANY_THINGS = {"de": "deu", "es": "spa", "fr": "fra", "it": "ita", "ja": "jpn", "nl": "nld", "pt": "por", "ru": "rus"}


def _multi30k(about: str, files: dict[str, str]) -> Source:
    return Source(
        about,
        "https://github.com/multi30k/dataset",
        "the pictures that the sentences describe are for non-commercial research and education; nothing is stated "
        "for the text: use it for research",
        "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1",
        tuple(File(name, sha256) for name, sha256 in files.items()),
    )


def _tatoeba(language: str, code: str) -> Source:
    archive = File(f"{code}-eng.zip", members={f"{code}.txt": f"tatoeba-en-{language}"}, columns=("en", language))
    return Source(
        "Everyday sentences of Tatoeba's volunteers, as ManyThings selects them; a sentence can have several "
        "translations",
        "https://www.manythings.org/anki",
        "CC BY 2.0 France; name tatoeba.org and manythings.org/anki",
        "https://www.manythings.org/anki",
        (archive,),
    )


def _members(*prefixes: str) -> dict[str, str]:
    """Both sides of texts in an archive, without the folders that they are in."""
    names = [f"{prefix}.{language}" for prefix in prefixes for language in ("de", "en")]
    return {name: name.rsplit("/", 1)[-1] for name in names}


SOURCES = {
    "multi30k": _multi30k(
        "29,000 descriptions of pictures in English, German and French",
        {f"raw/{name}.gz": sha256 for name, sha256 in _RAW.items()},
    ),
    "multi30k-tok": _multi30k(
        "The English and German of Multi30k in lower case, normalised and tokenised by its authors: what tokenised "
        "BLEU is published for",
        {f"tok/{name}": sha256 for name, sha256 in _TOKENIZED.items()},
    ),
    **{f"tatoeba-en-{language}": _tatoeba(language, code) for language, code in _MANY_THINGS.items()},
    "wmt14-en-de": Source(
        "The training text of WMT 2014's English-German task, 4.5 million pairs (Europarl, Common Crawl, News "
        "Commentary), newstest2013 and newstest2014",
        "https://www.statmt.org/wmt14/translation-task.html",
        "for research; the owners of the texts keep their rights (see the page)",
        "https://www.statmt.org",
        (
            File("europarl/v7/de-en.tgz", members=_members("europarl-v7.de-en")),
            File("wmt13/training-parallel-commoncrawl.tgz", members=_members("commoncrawl.de-en")),
            File("wmt14/training-parallel-nc-v9.tgz", members=_members("training/news-commentary-v9.de-en")),
        ),
        tests=(("wmt13", "en-de"), ("wmt14/full", "en-de")),
    ),
}
"""By name."""
