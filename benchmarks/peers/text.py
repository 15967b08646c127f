"""Multi30k as batches: the joint subwords and the batch plan are Dragoman's own, and the same for all competitors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dragoman.config import OptimizerConfig, TextConfig, TrainConfig
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text.batches import Batch, IdPairs, collate, plan_epoch
from dragoman.text.preprocess import PreparedText, prepare_text
from peers.batches import Arrays

VOCABULARY = 8000
BATCH_TOKENS = 4096
LANGUAGES = ("en", "de")


def prepare(data: Path, folder: Path) -> PreparedText:
    """Learn the subwords of DATA/train and encode it; what an earlier call left in folder is used again."""
    folder.mkdir(parents=True, exist_ok=True)
    config = TrainConfig(
        source=LANGUAGES[0],
        target=LANGUAGES[1],
        train=[str(data / "train")],
        valid=[str(data / "val")],
        out=str(folder),
        text=TextConfig(vocab_size=VOCABULARY),
        optimizer=OptimizerConfig(batch_tokens=BATCH_TOKENS),
    )
    return prepare_text(config, clean_text)


def choose_batches(store: IdPairs, count: int, limit: int, tokens: int = BATCH_TOKENS) -> list[Arrays]:
    """So many of the first epoch's batches, from the shortest sentences to the longest at even distances.

    Few batches taken at random could all be of short sentences, or all of long ones.

    Args:
        store: the training text.
        count: batches wanted.
        limit: positions that the model has.
        tokens: of each batch.
    """
    plan = plan_epoch(*store.lengths, tokens, seed=1, epoch=0)
    plan.sort(key=lambda indices: int(np.maximum(*store.lengths)[indices].max()))
    places = [int((number + 0.5) * len(plan) / count) for number in range(count)]
    return [_arrays(collate(store, plan[place], limit)) for place in places]


def _arrays(batch: Batch) -> Arrays:
    return Arrays(batch.source, batch.target_input, batch.target_output)
