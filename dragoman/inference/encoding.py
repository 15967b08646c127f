"""Raw lines as the ids that a model reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.config import EOS, DragomanError
from dragoman.inference.segmentation import WIDEST, squeeze
from dragoman.text.subwords import SubwordModel


@dataclass(frozen=True)
class LineEncoder:
    """Cuts the lines of one language into subwords, and says where one is too long for the model."""

    subwords: SubwordModel
    side: str
    """What the lines are called in messages, such as "source"."""
    max_length: int
    """Most subwords that the model takes, the end included."""

    def encode(self, lines: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
        """The ids of each line, with EOS.

        Args:
            lines: raw text.
            numbers: of the lines, for the message that one is too long.

        Raises:
            DragomanError: a line is longer than the model can take.
        """
        found = []
        for number, line, ids in zip(numbers, lines, self.encode_where_short(lines), strict=True):
            if ids is None or len(ids) > self.max_length:
                raise self.too_long(f"{self.side} line {number:,}", line, ids, "split it into sentences")
            found.append(ids)
        return found

    def encode_where_short(self, lines: Sequence[str]) -> list[list[int] | None]:
        """The ids of each line, with EOS; None for one with so many characters that it can't fit.

        White space around a line is left out: hardly a training sentence begins with a tab or a no-break space, so what
        a model makes of one is anybody's guess, and of a line of nothing else it makes up a translation.
        """
        widest = WIDEST * self.max_length
        stripped = map(str.strip, lines)
        plain = [line if len(line) <= widest else squeeze(line) for line in stripped]
        encoded = self.subwords.encode([line if len(line) <= widest else "" for line in plain])
        return [None if len(line) > widest else [*ids, EOS] for line, ids in zip(plain, encoded, strict=True)]

    def too_long(self, name: str, line: str, ids: list[int] | None, cure: str) -> DragomanError:
        """The error to raise of a line that encode_where_short found to have these ids."""
        size = f"{len(line):,} characters" if ids is None else f"{len(ids):,} subwords"
        return DragomanError(f"{name} has {size}, but the model takes at most {self.max_length:,} subwords: {cure}")


def refuse_str(lists: Sequence[object]) -> None:
    """Raise TypeError where a str stands for a list: its letters would be taken for lines."""
    if any(isinstance(one, str) for one in lists):
        raise TypeError("a str where a list belongs: put it into brackets")
