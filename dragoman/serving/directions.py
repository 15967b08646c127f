"""The models of a server: which languages they join, and what a text is written in."""

from collections.abc import Sequence
from typing import Any

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from dragoman.config import DragomanError, SearchConfig
from dragoman.inference.translator import Translator
from dragoman.serving.batching import Batcher
from dragoman.text.languages import base_code, english_name

AUTO = "auto"
_TELLING = 2000  # characters that the language is told by


class Directions:
    """Translators by their languages."""

    def __init__(self, translators: Sequence[Translator], config: SearchConfig, pivot: bool, cached_lines: int) -> None:
        """Put translators to work; pivot also joins languages by way of a third one.

        Raises:
            DragomanError: two translators have the same direction.
        """
        self.routes: dict[tuple[str, str], list[Batcher]] = {}
        """For each pair of languages the translators to follow each other."""
        for translator in translators:
            for pair in translator.direction.pairs:
                if pair in self.routes:
                    raise DragomanError(f"two models translate from {pair[0]} to {pair[1]}: name one of them")
                self.routes[pair] = [Batcher(translator.toward(*pair), config, cached_lines)]
        for (source, middle), first in list(self.routes.items()) if pivot else ():
            for (other, target), second in list(self.routes.items()):
                if middle == other and source != target and len(second) == 1:
                    self.routes.setdefault((source, target), first + second)
        self.sources = sorted({source for source, _ in self.routes})
        self.codes = sorted({code for pair in self.routes for code in pair})
        self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        known = {base_code(code).replace("nb", "no"): code for code in self.sources}  # as py3langid calls it
        self._known = {code: known[code] for code in self._identifier.labels if code in known}
        self.languages = [
            {
                "code": code,
                "name": english_name(code),
                "targets": sorted({code} | {target for source, target in self.routes if source == code}),
            }
            for code in self.codes
        ]
        """Code, English name and targets of each language, as LibreTranslate lists them: each also into itself."""

    def find(self, code: str) -> str:
        """The code of a model's language for the one that a client wrote; empty if there is none."""
        wanted = code.lower().replace("_", "-")
        exact = [own for own in self.codes if own.lower().replace("_", "-") == wanted]
        return next(iter(exact or [own for own in self.codes if base_code(own) == base_code(code)]), "")

    def detect(self, text: str) -> list[dict[str, Any]]:
        """The source languages that a text may be in, likeliest first, with a confidence in percent.

        The other languages that py3langid knows share what is left. If it knows none of these, the first one is named.
        """
        if not self._known or not text.strip():
            return [{"confidence": 0.0, "language": self.sources[0]}]
        ranked = [(code, 100 * float(p)) for code, p in self._identifier.rank(text[:_TELLING]) if code in self._known]
        likely = [(code, p) for code, p in ranked if p >= 1] or ranked[:1]
        return [{"confidence": round(p, 1), "language": self._known[code]} for code, p in likely]
