"""CTranslate2: the model in the format of the fast inference engine.

The folder runs with `ctranslate2.Translator` and SentencePiece alone: it has the subword models as well.
"""

from pathlib import Path

import ctranslate2
import numpy as np

from dragoman.checkpoint import ModelFolder
from dragoman.config import ModelConfig, SearchConfig
from dragoman.inference.conversion import write_model
from dragoman.inference.ctranslate2 import CTranslate2Engine
from dragoman.interop.parity import Array, Backend
from dragoman.text.subwords import Vocabulary


def export(loaded: ModelFolder, folder: Path, quantization: str, tag: str = "") -> Backend:
    """Write a model into an empty folder, and load it from there; it adds the tag, if any, to each source itself."""
    write_model(loaded, folder, quantization, tag)
    return CTranslate2Backend(folder, loaded.model.config, quantization == "float32", bool(tag))


class CTranslate2Backend(Backend):
    """A folder in CTranslate2's format, as a side of the proof; exact if its weights are stored in float32.

    One that adds a tag to each source gets sources without it.
    """

    renormalizes = True

    def __init__(self, folder: Path, config: ModelConfig, exact: bool, adds_tag: bool = False) -> None:
        self._start = int(adds_tag)
        self.vocabulary = Vocabulary.load(folder)
        self.name = f"ctranslate2 {ctranslate2.__version__}"
        self.exact = exact
        self._engine = CTranslate2Engine(folder, self.vocabulary, config)

    def search(self, sources: list[list[int]], beam: int, limits: list[int]) -> list[list[int]]:
        """As Backend.search."""
        config, sources = SearchConfig(beam=beam, length_penalty=0.0), [source[self._start :] for source in sources]
        found = self._engine.search(sources, config, limits=limits)
        return [hypotheses[0].tokens for hypotheses in found]

    def forced(self, source: list[int], target: list[int]) -> Array:
        """As Backend.forced: log-probabilities (T)."""
        return np.array(self._engine.token_scores([source[self._start :]], [target])[0], dtype=np.float32)
