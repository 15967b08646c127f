"""What a server takes at most, and the keys that it asks for."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from dragoman.config import DragomanError, NotNegative, Positive, Settings


@dataclass(frozen=True, kw_only=True)
class Limits(Settings):
    """What a server takes at most. More is refused with 400, 413, 503 or 504."""

    max_characters: Positive = 5000
    """Most characters of a text."""
    max_texts: Positive = 500
    """Most texts in one request."""
    max_alternatives: NotNegative = 10
    """Most alternative translations."""
    max_kilobytes: Positive = 2048
    """Largest body of a request."""
    max_seconds: Positive = 60
    """Longest time for receiving a request, and for answering it."""
    max_requests: Positive = 256
    """Most requests answered at the same time, by each process; others get 503."""
    cors: list[str] = field(default_factory=list)
    """Origins whose pages may call the server, such as https://example.org."""


class Busy(Exception):
    """A key has used up its rate; the arguments are a message that says what that is, and the seconds to wait."""


class Keys:
    """The API keys of a server, with how many texts a minute each may translate."""

    def __init__(self, rates: Mapping[str, float]) -> None:
        """Take keys with their rates, math.inf for no limit."""
        self._rates = {sha256(key.encode()).digest(): rate for key, rate in rates.items()}
        self._left = {digest: (rate, time.monotonic()) for digest, rate in self._rates.items()}

    @classmethod
    def read(cls, path: Path) -> "Keys":
        """Read a file with a key on each line, perhaps followed by its rate; # begins a comment.

        Raises:
            DragomanError: the file can't be read, has no key, or a rate is not a positive number.
        """
        rates: dict[str, float] = {}
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise DragomanError(f"{path}: can't be read ({getattr(error, 'strerror', None) or error})") from None
        for number, line in enumerate(lines, start=1):
            words = line.partition("#")[0].split()
            if words:
                rate = words[1] if len(words) == 2 else ""
                if len(words) > 1 and not (rate.isdecimal() and int(rate)):
                    raise DragomanError(f"{path}, line {number}: write KEY, or KEY and its texts a minute")
                rates[words[0]] = float(rate or math.inf)
        if not rates:
            raise DragomanError(f"{path}: has no key; write one on each line")
        return cls(rates)

    def accept(self, key: str, texts: int) -> bool:
        """Whether this is a key; its rate is charged with so many texts. No key can be guessed by its beginning.

        Raises:
            Busy: the rate is used up.
        """
        found = sha256(key.encode(errors="replace")).digest()
        if found not in self._rates:
            return False
        rate, (left, last), now = self._rates[found], self._left[found], time.monotonic()
        left = min(rate, left + rate / 60 * (now - last)) if rate < math.inf else rate
        cost = min(texts, rate)
        if left < cost:
            raise Busy(f"Slowdown: {rate:.0f} per 1 minute", (cost - left) * 60 / rate)
        self._left[found] = (left - cost, now)
        return True
