"""Subwords: the SentencePiece models that turn raw text into ids and back.

The ids 0 to 3 are PAD, UNK, BOS and EOS in every model; 256 more are the bytes, so that nothing is ever UNK.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from dragoman.config import BOS, EOS, PAD, UNK, DragomanError, TextConfig

JOINT_FILE = "sentencepiece.model"
SOURCE_FILE, TARGET_FILE = "source.spm", "target.spm"
MOST_CHARACTERS = 16
"""Characters of the longest subwords that are learned."""


class SubwordModel:
    """One SentencePiece model."""

    def __init__(self, serialized: bytes, name: str = "the subword model") -> None:
        """Load a serialised model.

        Raises:
            DragomanError: the bytes are no SentencePiece model, or its special symbols have other ids.
        """
        self.serialized = serialized
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=serialized)
            specials = [getattr(self._processor, f"{symbol}_id")() for symbol in ("pad", "unk", "bos", "eos")]
        except (RuntimeError, TypeError):
            specials = []
        if not serialized or not specials:
            raise DragomanError(f"{name}: damaged, or not a SentencePiece model; copy the model again")
        if specials != [PAD, UNK, BOS, EOS]:
            raise DragomanError(f"{name}: <pad>, <unk>, <s> and </s> must have the ids 0 to 3, not {specials}")

    def __len__(self) -> int:
        """Number of subwords, special symbols and bytes included."""
        return int(self._processor.get_piece_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS."""
        threads = os.cpu_count() or 1 if len(lines) > 256 else 1
        return self._processor.encode(list(lines), out_type=int, num_threads=threads)  # type: ignore[no-any-return]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids, on one line; special symbols leave no trace."""
        texts = (self._processor.decode([i for i in ids if i > EOS]) for ids in sentences)
        return [text.replace("\n", " ") for text in texts]  # bytes can spell a line break

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The subwords behind the ids, as SentencePiece writes them ("▁" begins a word)."""
        return [self._processor.id_to_piece(int(i)) for i in ids]


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
            max_sentencepiece_length=MOST_CHARACTERS,
            num_threads=os.cpu_count() or 1,
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
        return {SOURCE_FILE: self.source.serialized, TARGET_FILE: self.target.serialized}

    @staticmethod
    def load(folder: Path) -> Vocabulary:
        """Read the subword models of a model folder.

        Raises:
            DragomanError: they are missing or damaged.
        """
        if (folder / JOINT_FILE).is_file():
            joint = _load(folder / JOINT_FILE)
            return Vocabulary(joint, joint)
        return Vocabulary(_load(folder / SOURCE_FILE), _load(folder / TARGET_FILE))

    @staticmethod
    def learn(sides: tuple[Sequence[str], Sequence[str]], config: TextConfig) -> Vocabulary:
        """Learn from source and target lines: one joint model or two, as the config says."""
        if config.vocabulary == "joint":
            joint = learn_subwords(_alternate(*sides), config)
            return Vocabulary(joint, joint)
        return Vocabulary(learn_subwords(sides[0], config), learn_subwords(sides[1], config))


def _load(path: Path) -> SubwordModel:
    try:
        return SubwordModel(path.read_bytes(), str(path))
    except OSError as error:
        raise DragomanError(f"{path}: {error.strerror}; a model folder needs its subword model") from None


def _alternate(first: Iterable[str], second: Iterable[str]) -> Iterator[str]:
    for a, b in zip(first, second, strict=True):
        yield a
        yield b
