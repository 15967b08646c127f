"""The libraries that exports are for, as the other side of a proof.

Shapes: T target length, V vocabulary, N hypotheses.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.config import BOS, EOS, PAD, DragomanError, ModelConfig, SearchConfig
from dragoman.inference.ctranslate2 import CTranslate2Engine
from dragoman.inference.rules import NEVER_WRITTEN
from dragoman.inference.search import SearchState, log_sums, search
from dragoman.interop.import_marian import ABSENT
from dragoman.interop.onnx import DECODER_FILE, DECODER_INPUTS, ENCODER_FILE
from dragoman.interop.parity import Array
from dragoman.runtime.optional_imports import needed
from dragoman.text.batches import pad_right
from dragoman.text.subwords import Vocabulary


class CTranslate2Side:
    """A folder written for CTranslate2."""

    absent: Sequence[int] = ()
    normalizes = True

    def __init__(self, folder: Path, vocabulary: Vocabulary, config: ModelConfig, exact: bool) -> None:
        """Load it; exact says whether its weights are in float32."""
        self.name = f"ctranslate2 {needed('ctranslate2', 'ctranslate2').__version__}"
        self.exact = exact
        self._vocabulary = vocabulary
        threads = torch.get_num_threads()
        self._engine = CTranslate2Engine(folder, vocabulary, config, threads=threads)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """As OtherSide.encode."""
        return [[*ids, EOS] for ids in self._vocabulary.source.encode(lines)]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """As OtherSide.decode."""
        return self._vocabulary.target.decode(sentences)

    def search(self, sources: list[list[int]], beam: int, limit: int) -> list[list[int]]:
        """As OtherSide.search."""
        found = self._engine.hypotheses(sources, SearchConfig(beam=beam, length_penalty=0.0), limit)
        return [hypotheses[0].tokens for hypotheses in found]

    def forced(self, source: list[int], target: list[int]) -> Array:
        """As OtherSide.forced: log-probabilities."""
        return np.array(self._engine.token_scores([source], [target])[0], dtype=np.float32)


class HuggingFaceSide:
    """A Marian folder, loaded by transformers."""

    exact = True
    normalizes = False

    def __init__(
        self, folder: Path, rows: tuple[Sequence[int], Sequence[int]] | None = None, absent: Sequence[int] = ()
    ) -> None:
        """Load it.

        Args:
            folder: what transformers reads.
            rows: where Marian has each of Dragoman's source and target subwords, -1 where it has none; None where
                both number them alike.
            absent: target subwords that Marian has no probability for.

        Raises:
            DragomanError: transformers is not installed, or can't load the folder.
        """
        library = needed("transformers", "huggingface")
        library.logging.set_verbosity_error()
        library.logging.disable_progress_bar()
        self.name = f"transformers {library.__version__}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it would like a library that this tokenizer makes no use of
            try:
                self._tokenizer = library.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
                self._model = library.AutoModelForSeq2SeqLM.from_pretrained(
                    str(folder), dtype=torch.float32, local_files_only=True, attn_implementation="eager"
                ).eval()  # eager: or the folder's settings name what computes, even what has to be fetched
            except Exception as error:  # of whatever kind its checks of settings and its imports raise
                raise _refusal(folder, "load it", error) from None
        self._folder, config = folder, self._model.config
        self.absent = absent
        if rows is not None:  # a folder may come with habits of its own, such as never repeating words
            # <pad>'s row, which transformers added to what the model had learnt, takes no probability from it.
            added = [row for row in (rows[1][token] for token in absent) if row >= 0 and rows[1].count(row) == 1]
            self._model.final_logits_bias[0, added] = ABSENT
            self._model.generation_config = library.GenerationConfig(
                decoder_start_token_id=config.decoder_start_token_id,
                eos_token_id=config.eos_token_id,
                pad_token_id=config.pad_token_id,
                suppress_tokens=sorted({rows[1][token] for token in NEVER_WRITTEN.tokens} - {-1, config.eos_token_id}),
            )
        self._source = list(rows[0]) if rows else list(range(config.vocab_size))
        self._target = list(rows[1]) if rows else list(range(config.decoder_vocab_size))
        self._from_source = {row: own for own, row in enumerate(self._source) if row >= 0}
        self._from_target = {row: own for own, row in enumerate(self._target) if row >= 0}

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """As OtherSide.encode."""
        try:
            found = self._tokenizer(list(lines))["input_ids"]
            return [[self._from_source[i] for i in ids] for ids in found]
        except Exception as error:  # settings of a tokenizer are looked at only when it works
            raise _refusal(self._folder, "cut text with it", error) from None

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """As OtherSide.decode."""
        rows = [[self._target[i] for i in ids] for ids in sentences]
        return [str(text) for text in self._tokenizer.batch_decode(rows, skip_special_tokens=True)]

    def search(self, sources: list[list[int]], beam: int, limit: int) -> list[list[int]]:
        """As OtherSide.search."""
        with torch.inference_mode():
            found = self._model.generate(
                input_ids=torch.tensor([[self._source[i] for i in ids] for ids in sources]),
                num_beams=beam,
                do_sample=False,
                length_penalty=0.0,
                early_stopping=False,
                max_length=None,
                max_new_tokens=limit + 1,
            )
        return [self._own(row) for row in found.tolist()]

    def forced(self, source: list[int], target: list[int]) -> Array:
        """As OtherSide.forced: logits."""
        start = self._model.config.decoder_start_token_id
        with torch.inference_mode():
            logits = self._model(
                input_ids=torch.tensor([[self._source[i] for i in source]]),
                decoder_input_ids=torch.tensor([[start, *(self._target[i] for i in target[:-1])]]),
            ).logits[0]
        rows = torch.tensor(self._target)
        return logits[:, rows.clamp(min=0)].float().numpy()  # type: ignore[no-any-return]

    def _own(self, row: list[int]) -> list[int]:
        """A row of generated ids, without the start, the end and what follows it."""
        ids = [self._from_target.get(i, PAD) for i in row[1:]]
        return ids[: ids.index(EOS)] if EOS in ids else ids


def _refusal(folder: Path, what: str, error: Exception) -> DragomanError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return DragomanError(f"{folder}: transformers can't {what} ({reason})")


class OnnxSide:
    """Two graphs, run by onnxruntime."""

    exact = True
    absent: Sequence[int] = ()
    normalizes = False

    def __init__(self, folder: Path, vocabulary: Vocabulary) -> None:
        """Load them.

        Raises:
            DragomanError: onnxruntime is not installed.
        """
        library = needed("onnxruntime", "onnx")
        self.name = f"onnxruntime {library.__version__}"
        self._vocabulary = vocabulary
        self._encoder, self._decoder = (
            library.InferenceSession(str(folder / name), providers=["CPUExecutionProvider"])
            for name in (ENCODER_FILE, DECODER_FILE)
        )

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """As OtherSide.encode."""
        return [[*ids, EOS] for ids in self._vocabulary.source.encode(lines)]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """As OtherSide.decode."""
        return self._vocabulary.target.decode(sentences)

    def search(self, sources: list[list[int]], beam: int, limit: int) -> list[list[int]]:
        """As OtherSide.search, by Dragoman's own loop over these graphs."""
        config = SearchConfig(beam=beam, length_penalty=0.0)
        found = search(self._step, self._start(sources), [limit] * len(sources), config, [NEVER_WRITTEN])
        return [hypotheses[0].tokens for hypotheses in found]

    def forced(self, source: list[int], target: list[int]) -> Array:
        """As OtherSide.forced: logits, computed token by token."""
        state = self._start([source])
        rows = [self._step(torch.tensor([token]), state)[0] for token in (BOS, *target[:-1])]
        return torch.cat(rows).numpy()

    def _start(self, sources: list[list[int]]) -> _OnnxState:
        source = pad_right(sources, 2**31)
        return _OnnxState(source, *self._encoder.run(None, {"source": source}))

    def _step(self, last: Tensor, state: SearchState) -> tuple[Tensor, Tensor]:
        assert isinstance(state, _OnnxState)
        position = np.array([state.past[0].shape[3]])
        arguments = (state.source, last.numpy(), position, *state.memory, *state.past)
        found = self._decoder.run(None, dict(zip(DECODER_INPUTS, arguments, strict=True)))
        state.past = (found[1], found[2])
        logits = torch.from_numpy(found[0])
        return logits, log_sums(logits)


class _OnnxState:
    """Everything that belongs to the hypotheses: source, memory and past."""

    def __init__(self, source: Any, keys: Array, values: Array) -> None:
        self.source, self.memory = source, (keys, values)
        self.past = (keys[:, :, :, :0], values[:, :, :, :0])

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """As SearchState.select."""
        kept = hypotheses.numpy()
        self.source = self.source[kept]
        self.memory = (self.memory[0][:, kept], self.memory[1][:, kept])
        self.past = (self.past[0][:, kept], self.past[1][:, kept])
