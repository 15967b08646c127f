"""Subwords: the SentencePiece models that turn raw text into ids and back.

The ids 0 to 3 are PAD, UNK, BOS and EOS in every model; 256 more are the bytes, so that nothing is ever UNK. Models
that come from elsewhere may lack the bytes, and keep a list that says which subword has which id.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from dragoman.config import BOS, EOS, PAD, UNK, DragomanError, TextConfig
from dragoman.runtime.files import write_together

JOINT_FILE = "sentencepiece.model"
SOURCE_FILE, TARGET_FILE = "source.spm", "target.spm"
LIST_FILE, TARGET_LIST_FILE = "vocabulary.json", "target_vocabulary.json"
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
"""How the subwords with the ids 0 to 3 are spelt."""
MAX_SUBWORD_CHARACTERS = 16
"""Characters of the longest subwords that are learned."""
_FIRST_LEARNED = len(SPECIALS) + 256  # the bytes
_LEARNING_THREADS = 16  # SentencePiece's default; unigram models depend on it, so it must not depend on the machine


class SubwordModel:
    """One SentencePiece model."""

    def __init__(self, serialized: bytes, name: str = "the subword model") -> None:
        """Load a serialised model.

        Raises:
            DragomanError: the bytes are no SentencePiece model, or its special symbols have other ids.
        """
        self.serialized = serialized
        self._processor = _processor(serialized, name)
        specials = [getattr(self._processor, f"{symbol}_id")() for symbol in ("pad", "unk", "bos", "eos")]
        if specials != [PAD, UNK, BOS, EOS]:
            raise DragomanError(f"{name}: <pad>, <unk>, <s> and </s> must have the ids 0 to 3, not {specials}")

    def __len__(self) -> int:
        """Number of subwords, special symbols and bytes included."""
        return int(self._processor.get_piece_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS."""
        threads = os.cpu_count() or 1 if len(lines) > 256 else 1
        return self._processor.encode(list(lines), out_type=int, num_threads=threads)  # type: ignore[no-any-return]

    @property
    def merges(self) -> bool:
        """Whether this is a BPE model, which joins subwords step by step; their scores are the steps' numbers."""
        return bool(self._processor.get_score(len(self) - 1) == _FIRST_LEARNED + 1 - len(self))

    def sample(self, lines: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """The ids of each line, cut anew: each merge is left out with this probability (Provilkov et al., 2020).

        The same seed cuts alike.
        """
        # The generator is born with this seed in the thread that SentencePiece starts for the call.
        sentencepiece.set_random_generator_seed(seed % (2**32 - 1))
        cut = self._processor.encode(list(lines), out_type=int, enable_sampling=True, alpha=dropout, num_threads=1)
        return cut  # type: ignore[no-any-return]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids, on one line; special symbols leave no trace."""
        texts = (self._processor.decode([i for i in ids if i > EOS]) for ids in sentences)
        return [text.replace("\n", " ") for text in texts]  # bytes can spell a line break

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subwords behind the ids, as SentencePiece writes them ("▁" begins a word)."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of subwords; UNK where there is no such subword."""
        return [self._processor.piece_to_id(piece) for piece in pieces]

    def split_tag(self, line: str) -> tuple[str, str]:
        """The tag that a line begins with and that every part of it needs, and the rest; without a tag "" and all."""
        return "", line


class ListedModel(SubwordModel):
    """A SentencePiece model whose subwords have the ids that a list gives them, as in Marian's vocabularies.

    What it cuts text into and the list does not have is UNK; characters that it does not know can be in the list all
    the same, as subwords of the other language. A tag such as `>>fra<<` at the beginning of a line, which tells a model
    of many languages the one to write, is a single subword where the list has it.
    """

    def __init__(self, serialized: bytes, listed: Sequence[str], name: str = "the subword model") -> None:
        """Load a serialised model.

        Args:
            serialized: the SentencePiece model.
            listed: the subwords in the order of their ids; the first four are SPECIALS.
            name: where it comes from, for messages.

        Raises:
            DragomanError: the bytes are no SentencePiece model, or the list is none of subwords.
        """
        self.serialized = serialized
        self.listed = list(listed)
        self._processor = _processor(serialized, name)
        self._places = {piece: place for place, piece in enumerate(self.listed)}
        if tuple(self.listed[: len(SPECIALS)]) != SPECIALS or len(self._places) < len(self.listed):
            raise DragomanError(f"{name}: its list of subwords must begin with {' '.join(SPECIALS)} and repeat none")
        self._ordinary = {piece: place for piece, place in self._places.items() if place > EOS}

    def __len__(self) -> int:
        """Number of subwords, special symbols included."""
        return len(self.listed)

    def known_share(self) -> float:
        """How many of the SentencePiece model's own subwords the list has, from 0 to 1; bytes and symbols aside."""
        model = self._processor
        own = [i for i in range(model.get_piece_size()) if not (model.is_byte(i) or model.is_control(i))]
        return sum(piece in self._places for piece in model.id_to_piece(own)) / len(own)

    @property
    def merges(self) -> bool:
        """Never: only encode knows about tags, and about subwords that the list does not have."""
        return False

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS."""
        tagged = [self.split_tag(line) for line in lines]
        threads = os.cpu_count() or 1 if len(lines) > 256 else 1
        found = self._processor.encode([line for _, line in tagged], out_type=str, num_threads=threads)
        return [
            [*([self._places[tag]] if tag else []), *(self._ordinary.get(piece, UNK) for piece in pieces)]
            for (tag, _), pieces in zip(tagged, found, strict=True)
        ]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids, on one line; special symbols leave no trace."""
        texts = (self._processor.decode_pieces(self.pieces([i for i in ids if i > EOS])) for ids in sentences)
        # A subword that only the other side's model knows is left as it is.
        return [text.replace("▁", " ").replace("\n", " ").strip(" ") for text in texts]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subwords behind the ids, as SentencePiece writes them ("▁" begins a word)."""
        return [self.listed[int(i)] for i in ids]

    def ids(self, pieces: Sequence[str]) -> list[int]:
        """The ids of subwords; UNK where there is no such subword."""
        return [self._places.get(piece, UNK) for piece in pieces]

    def split_tag(self, line: str) -> tuple[str, str]:
        """The tag that a line begins with and that every part of it needs, and the rest; without a tag "" and all."""
        found = _TAG.match(line)
        return (found[0], line[found.end() :]) if found and found[0] in self._places else ("", line)


_TAG = re.compile(r">>[^<>\s]+<<")


def _processor(serialized: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    try:
        if serialized:
            return sentencepiece.SentencePieceProcessor(model_proto=serialized)
    except (RuntimeError, TypeError):
        pass
    raise DragomanError(f"{name}: damaged, or not a SentencePiece model; copy the model again")


def learn_subwords(lines: Iterable[str], config: TextConfig, vocab_size: int | None = None) -> SubwordModel:
    """Learn a subword model from text.

    Args:
        lines: the text; consumed once unless the corpus is too small for the vocabulary.
        config: kind and size of the model.
        vocab_size: instead of the config's.

    Returns:
        A model of vocab_size subwords, or of as many as the text supports.

    Raises:
        DragomanError: no text, or a vocabulary too small for the text's characters.
    """
    sample = [line for line in lines if line.strip()]
    if not sample:
        raise DragomanError("the training text has no sentences: nothing to learn subwords from")
    size = vocab_size or config.vocab_size
    output = io.BytesIO()
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
            max_sentence_length=16_384,
            max_sentencepiece_length=MAX_SUBWORD_CHARACTERS,
            num_threads=_LEARNING_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        supported = re.search(r"set it to a value <= (\d+)", str(error))
        if supported and int(supported[1]) < size:
            return learn_subwords(sample, config, int(supported[1]))
        required = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
        if required:
            raise DragomanError(
                f"text.vocab_size {size} is too small for the characters of this text: use at least {required[1]}"
            ) from None
        raise DragomanError(f"SentencePiece could not learn subwords from this text: {error}") from None
    return SubwordModel(output.getvalue())


@dataclass(frozen=True)
class Vocabulary:
    """The subword models of both languages; joint where they are the same object."""

    source: SubwordModel
    target: SubwordModel

    @property
    def joint(self) -> bool:
        """Whether both languages share one model."""
        return self.source is self.target

    def files(self) -> dict[str, bytes]:
        """File names and contents by which a model folder keeps this vocabulary."""
        if self.joint:
            return {JOINT_FILE: self.source.serialized}
        models = {SOURCE_FILE: self.source.serialized, TARGET_FILE: self.target.serialized}
        if isinstance(self.source, ListedModel) and isinstance(self.target, ListedModel):
            models[LIST_FILE] = _as_json(self.source.listed)
            if self.target.listed != self.source.listed:
                models[TARGET_LIST_FILE] = _as_json(self.target.listed)
        return models

    def save(self, folder: Path) -> None:
        """Keep this vocabulary in a folder, in place of another one.

        Raises:
            DragomanError: a file can't be written.
        """
        files = self.files()
        write_together({folder / name: content for name, content in files.items()})
        for name in {JOINT_FILE, SOURCE_FILE, TARGET_FILE, LIST_FILE, TARGET_LIST_FILE} - files.keys():
            (folder / name).unlink(missing_ok=True)

    @staticmethod
    def load(folder: Path) -> Vocabulary:
        """Read the subword models of a model folder.

        Raises:
            DragomanError: they are missing or damaged.
        """
        if (folder / JOINT_FILE).is_file():
            joint = SubwordModel(_read(folder / JOINT_FILE), str(folder / JOINT_FILE))
            return Vocabulary(joint, joint)
        source, target = folder / SOURCE_FILE, folder / TARGET_FILE
        if not source.is_file() and not target.is_file():
            raise DragomanError(f"{folder / JOINT_FILE}: no such file; a model folder needs its subword model")
        if not (folder / LIST_FILE).is_file():
            return Vocabulary(SubwordModel(_read(source), str(source)), SubwordModel(_read(target), str(target)))
        listed = _read_list(folder / LIST_FILE)
        other = folder / TARGET_LIST_FILE
        target_listed = _read_list(other) if other.is_file() else listed
        return Vocabulary(
            ListedModel(_read(source), listed, str(source)), ListedModel(_read(target), target_listed, str(target))
        )

    @staticmethod
    def learn(sides: tuple[Sequence[str], Sequence[str]], config: TextConfig) -> Vocabulary:
        """Learn from source and target lines: one joint model or two, as the config says."""
        if config.vocabulary == "joint":
            joint = learn_subwords(_alternate(*sides), config)
            return Vocabulary(joint, joint)
        return Vocabulary(learn_subwords(sides[0], config), learn_subwords(sides[1], config))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DragomanError(f"{path}: {error.strerror}; a model folder needs its subword model") from None


def _read_list(path: Path) -> list[str]:
    try:
        listed = json.loads(_read(path))
    except (ValueError, RecursionError):
        listed = None
    if not isinstance(listed, list) or not all(isinstance(piece, str) for piece in listed):
        raise DragomanError(f"{path}: damaged, or not a list of subwords; copy the model again")
    return listed


def _as_json(listed: Sequence[str]) -> bytes:
    return (json.dumps(listed, ensure_ascii=False, indent=0) + "\n").encode()


def _alternate(first: Iterable[str], second: Iterable[str]) -> Iterator[str]:
    for a, b in zip(first, second, strict=True):
        yield a
        yield b
