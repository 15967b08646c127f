"""Subwords: the SentencePiece models that turn raw text into ids and back.

The ids 0 to 3 are PAD, UNK, BOS and EOS in every model; 256 more are the bytes, so that nothing is ever UNK. Imported
models may lack the bytes, and have a list that says which subword has which id.
"""

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import category, decomposition, is_normalized, normalize

import sentencepiece

from dragoman.config import BOS, EOS, PAD, UNK, DragomanError, TextConfig
from dragoman.runtime.files import write_together
from dragoman.text.placeholders import SYMBOLS

JOINT_FILE = "sentencepiece.model"
SOURCE_FILE, TARGET_FILE = "source.spm", "target.spm"
LIST_FILE, TARGET_LIST_FILE = "vocabulary.json", "target_vocabulary.json"
VOCABULARY_FILES = (JOINT_FILE, SOURCE_FILE, TARGET_FILE, LIST_FILE, TARGET_LIST_FILE)
"""Every file that a vocabulary can have; none has all of them."""
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
"""The spelling of the subwords with the ids 0 to 3."""
_SPELT = re.compile("<unk>|<0x..>$")
_LEARNING_THREADS = 16  # SentencePiece's default. Unigram models depend on it, so it must not depend on the machine.
_MIN_LINES_FOR_THREADS = 256
_WORDS_REMEMBERED = 100_000
_TAG = re.compile(r"^>>[^<>\s]+<<")
ALIKE = ("'’‘‛´`ʼ", '"“”„‟«»', "-–—‐‑‒―−", "كک", "يی")
"""Characters that can stand for each other."""
_COMPATIBLE = ("<compat>", "<noBreak>", "<wide>", "<narrow>", "<isolated>", "<initial>", "<medial>", "<final>")
# Not <super>: 10² is not 102.


class SubwordModel:
    """One SentencePiece model."""

    def __init__(self, serialized: bytes, name: str = "the subword model", listed: Sequence[str] | None = None) -> None:
        """Load a serialised model; the name is for messages.

        The list has the subwords in the order of their ids, if that is not the model's own; it begins with SPECIALS.
        """
        try:
            if not serialized:
                raise ValueError("empty")
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=serialized)
            self._own: list[str] = self._processor.id_to_piece(list(range(self._processor.get_piece_size())))
        except (RuntimeError, ValueError):  # the latter if a subword is not UTF-8
            raise DragomanError(f"{name}: damaged, or not a SentencePiece model; copy the model again") from None
        self.serialized = serialized
        self.listed = self._own if listed is None else list(listed)
        self.has_own_ids = self.listed == self._own
        self._places = {piece: place for place, piece in enumerate(self.listed)}
        self._encode_word = lru_cache(_WORDS_REMEMBERED)(self._processor.encode)
        self._stand_in, self._knows = cache(self._find_stand_in), cache(self._spells)
        if tuple(self.listed[: len(SPECIALS)]) != SPECIALS or len(self._places) < len(self.listed):
            raise DragomanError(f"{name}: its subwords must begin with {' '.join(SPECIALS)} and repeat none")

    def __len__(self) -> int:
        return len(self.listed)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS."""
        return list(_each(self._processor.encode, lines))

    def encode_text(self, lines: Sequence[str]) -> list[list[int]]:
        """As encode, but several times as fast for much text: words are remembered, as no merge crosses a space."""
        merges = self.merges
        split = [line.split(" ") if merges and " " in line and "▁" not in line else [] for line in lines]
        others = iter(self.encode([line for line, words in zip(lines, split, strict=True) if not words]))
        return [list(chain.from_iterable(map(self._encode_word, words))) if words else next(others) for words in split]

    @property
    def merges(self) -> bool:
        """Whether subwords can be sampled: in BPE models with ids of their own, whose scores number the merges."""
        not_learned = len(SPECIALS) + 256 + self.has_symbols * len(SYMBOLS)
        return self.listed is self._own and self._processor.get_score(len(self) - 1) == not_learned + 1 - len(self)

    @property
    def has_symbols(self) -> bool:
        """Whether the symbols that stand for placeholders are subwords."""
        return self.has_own_ids and SYMBOLS[-1] in self._places

    def sample(self, lines: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """The ids of each line if merges are left out with this probability (Provilkov et al., 2020), by a seed."""
        # For several lines SentencePiece starts a thread, whose generator starts from this seed; for one it does not.
        sentencepiece.set_random_generator_seed(seed % (2**32 - 1))
        ids: list[list[int]] = self._processor.encode(
            [*lines, ""], out_type=int, enable_sampling=True, alpha=dropout, num_threads=1
        )
        return ids[:-1]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids, on one line; special symbols are left out."""
        texts: list[str] = _each(self._processor.decode, [[i for i in ids if i > EOS] for ids in sentences])
        return [text.replace("\n", " ") for text in texts]  # bytes can spell a line break

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subwords with these ids, as SentencePiece writes them ("▁" begins a word)."""
        return [self.listed[i] for i in ids]

    def written(self) -> list[str]:
        """What each subword writes: a character for each byte and for a placeholder's symbol, ▁ where a word begins."""

        def spell(piece: str) -> str:
            if piece in SYMBOLS:
                return chr(256 + SYMBOLS.index(piece))
            if _SPELT.match(piece):
                return chr(int(piece[3:5], 16))
            return "▁".join(part.encode().decode("latin-1") for part in piece.split("▁"))

        return ["" for _ in SPECIALS] + [spell(piece) for piece in self.listed[len(SPECIALS) :]]

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of subwords; UNK if there is no such subword."""
        return [self._places.get(piece, UNK) for piece in pieces]

    def unknown_characters(self, lines: Sequence[str]) -> list[str]:
        """The characters of each line that the model spells in bytes, or not at all, in order and without repeats."""
        found = ["".join(c for c in dict.fromkeys(line) if not (c.isspace() or self._knows(c))) for line in lines]
        return ["" if unknown and self._spells(line) else unknown for line, unknown in zip(lines, found, strict=True)]

    def _spells(self, text: str) -> bool:
        """Whether subwords that were learned spell a text. They may spell a character inside of words only."""
        return not any(map(_SPELT.match, self.pieces(self.encode([text])[0])))

    def readable(self, line: str) -> str:
        """A line with alike characters that the model knows in place of those it doesn't; invisible ones of them go."""
        if not is_normalized("NFC", line):
            line = min(normalize("NFC", line), line, key=lambda one: len(self._processor.encode(one)))
        readable = "".join(map(self._stand_in, line))
        return line if readable == line or self._spells(line) else readable

    def _find_stand_in(self, character: str) -> str:
        """The character, or what the model knows in its place."""
        alike = [character, *next((some for some in ALIKE if character in some), "")]
        alike += [normalize("NFKC", character)] * decomposition(character).startswith(_COMPATIBLE)
        alike += [""] * (category(character) == "Cf")
        return next(filter(self._spells, alike), character)

    @cached_property
    def has_capitals(self) -> bool:
        """Whether more than a tenth of the subwords of three letters and more are in capitals, as after such text."""
        words = [word for piece in self.listed if len(word := piece.strip("▁")) > 2 and word.isalpha()]
        return 10 * sum(map(str.isupper, words)) > len(words)

    def respelt(self, line: str) -> str:
        """A line with each word as the subwords know it best: small, with a capital, or as it is."""
        words = re.split(r"(\s+)", line)
        spellings = [[word, word.capitalize(), *[word.lower()] * (place > 0)] for place, word in enumerate(words)]
        encode, score = self._processor.encode, self._processor.get_score
        return "".join(min(some, key=lambda word: (len(i := encode(word)), -sum(map(score, i)))) for some in spellings)

    def split_tag(self, line: str) -> tuple[str, str]:
        """The tag such as `>>fra<<` that a line begins with, if it is a subword, otherwise ""; and the rest."""
        tag = found[0] if (found := _TAG.match(line)) else ""
        return (tag, line[len(tag) :]) if tag in self._places else ("", line)


class ListedModel(SubwordModel):
    """A SentencePiece model whose subwords have the ids that a list gives them, as in Marian's vocabularies.

    A piece that is not in the list is UNK. The list can also have characters that the model does not know, as subwords
    of the other language, and tags, which tell a model of many languages which one to write.
    """

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS."""
        tagged = [self.split_tag(line) for line in lines]
        found = _each(partial(self._processor.encode, out_type=str), [line for _, line in tagged])
        return [
            self.ids([tag] if tag else []) + [place if place > EOS else UNK for place in self.ids(pieces)]
            for (tag, _), pieces in zip(tagged, found, strict=True)
        ]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids, on one line; special symbols are left out."""
        texts = (self._processor.decode_pieces(self.pieces([i for i in ids if i > EOS])) for ids in sentences)
        # Subwords that only the other side's model knows keep their "▁".
        return [text.replace("▁", " ").replace("\n", " ").strip(" ") for text in texts]


def _each(process: Callable[..., Any], items: Sequence[object]) -> Any:
    """What SentencePiece makes of each item. Many are a batch, for which it starts threads."""
    is_batch = len(items) > _MIN_LINES_FOR_THREADS
    return process(list(items), num_threads=os.cpu_count() or 1) if is_batch else list(map(process, items))


def learn_subwords(lines: Iterable[str], config: TextConfig, size: int = 0) -> SubwordModel:
    """Learn a subword model from text: of size or config.vocab_size subwords, or of as many as the text supports."""
    sample, size, output = [line for line in lines if line.strip()], size or config.vocab_size, io.BytesIO()
    if not sample:
        raise DragomanError("the training text has no sentences: nothing to learn subwords from")
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=output,
            vocab_size=size,
            model_type=config.subwords,
            character_coverage=config.character_coverage,
            normalization_rule_name=config.normalization,
            byte_fallback=True,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            user_defined_symbols=list(SYMBOLS) if config.placeholders else [],
            max_sentence_length=16_384,
            max_sentencepiece_length=16,
            num_threads=_LEARNING_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        supported = re.search(r"set it to a value <= (\d+)", str(error))
        if supported and int(supported[1]) < size:
            return learn_subwords(sample, config, int(supported[1]))
        required = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
        reason = f"text.vocab_size must be at least {required[1]}" if required else error
        raise DragomanError(f"SentencePiece could not learn subwords from this text: {reason}") from None
    return SubwordModel(output.getvalue())


@dataclass(frozen=True)
class Vocabulary:
    """The subword models of both languages: two, or the same one twice."""

    source: SubwordModel
    target: SubwordModel

    @property
    def joint(self) -> bool:
        """Whether both languages share one model."""
        return self.source is self.target

    @property
    def has_symbols(self) -> bool:
        """Whether both models have the symbols that stand for placeholders."""
        return self.source.has_symbols and self.target.has_symbols

    def files(self) -> dict[str, bytes]:
        """The names and contents of the files in which a model folder keeps this vocabulary."""
        if self.joint:
            return {JOINT_FILE: self.source.serialized}
        files = {SOURCE_FILE: self.source.serialized, TARGET_FILE: self.target.serialized}
        if isinstance(self.source, ListedModel) and isinstance(self.target, ListedModel):
            lists = {LIST_FILE: self.source.listed}
            if self.target.listed != self.source.listed:
                lists[TARGET_LIST_FILE] = self.target.listed
            for name, listed in lists.items():
                files[name] = (json.dumps(listed, ensure_ascii=False, indent=0) + "\n").encode()
        return files

    def save(self, folder: Path, others: Mapping[str, bytes] | None = None) -> None:
        """Write this vocabulary into a folder, in place of another one, and other files after it: all or none."""
        files = {**self.files(), **(others or {})}
        write_together({folder / name: content for name, content in files.items()})
        for name in set(VOCABULARY_FILES) - files.keys():
            (folder / name).unlink(missing_ok=True)

    @staticmethod
    def load(folder: Path) -> "Vocabulary":
        """Read the subword models of a model folder."""
        joint, *sides = (folder / name for name in (JOINT_FILE, SOURCE_FILE, TARGET_FILE))
        if joint.is_file() or not any(side.is_file() for side in sides):
            model = SubwordModel(_read(joint), str(joint))
            return Vocabulary(model, model)
        lists = [folder / name for name in (LIST_FILE, TARGET_LIST_FILE) if (folder / name).is_file()]
        if not (folder / LIST_FILE).is_file():  # CTranslate2 has a target_vocabulary.json of its own
            return Vocabulary(*(SubwordModel(_read(side), str(side)) for side in sides))
        listed = [_read_list(path) for path in (lists[0], lists[-1])]
        models = (ListedModel(_read(side), str(side), own) for side, own in zip(sides, listed, strict=True))
        return Vocabulary(*models)

    @staticmethod
    def learn(sides: tuple[Sequence[str], Sequence[str]], config: TextConfig, tags: Sequence[str] = ()) -> "Vocabulary":
        """Learn from source and target lines: one joint model or two, as the config says.

        Tags, which name target languages, get a subword each and are not learned from the lines.
        """
        if tags:
            plain = [[_TAG.sub("", line) for line in side] for side in sides]
            learned = Vocabulary.learn((plain[0], plain[1]), replace(config, placeholders=0.0))
            models = (learned.source, learned.target)
            return Vocabulary(*(ListedModel(one.serialized, listed=[*one.listed, *tags]) for one in models))
        if config.vocabulary == "joint":
            joint = learn_subwords(chain.from_iterable(zip(*sides, strict=True)), config)
            return Vocabulary(joint, joint)
        return Vocabulary(*(learn_subwords(side, config) for side in sides))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DragomanError(f"{path}: {error.strerror}; a model folder needs its subword model") from None


def _read_list(path: Path) -> list[str]:
    try:
        return [str(piece) for piece in json.loads(_read(path))]
    except (ValueError, TypeError, RecursionError):
        raise DragomanError(f"{path}: damaged, or not a list of subwords; copy the model again") from None
