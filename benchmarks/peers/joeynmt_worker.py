"""JoeyNMT 2.3: its own model, loss and search, in fp32, in the environment that it needs.

Its layers always drop attention weights and inner activations, too, at the preset's rate; its decoder has no cache.
Its vocabulary begins with <unk>, then <pad>, so that the two exchange their ids on the way in.

Shapes: B batch, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
import sentencepiece
import torch
from joeynmt.batch import Batch
from joeynmt.model import Model, build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary
from numpy.typing import NDArray
from torch import Tensor, nn

from peers.batches import (
    BETAS,
    BOS,
    CLIP_NORM,
    EOS,
    EPSILON,
    LABEL_SMOOTHING,
    LEARNING_RATE,
    PAD,
    UNK,
    Arrays,
    read_batches,
)
from peers.convert import SUBWORDS_FILE, read_plain, to_joeynmt
from peers.learning import SEED
from peers.protocol import Message, Session, serve
from peers.sessions import DecodingSession, TrainingSession, Translate, in_sorted_batches
from peers.shape import Shape

BATCH_SENTENCES = 64
MORE_TOKENS = 50
"""Most tokens beyond the source. Dragoman's limit is each sentence's own; here it is that of the longest one of a
batch, and what goes beyond a sentence's own is cut off, so that sentences without an end compare as well."""
_ITS_PAD, _ITS_UNK = UNK, PAD
_NAMES = ["<unk>", "<pad>", "<s>", "</s>"]
_VERSIONS = {"joeynmt": version("joeynmt"), "sentencepiece (joeynmt)": version("sentencepiece")}


def make_model(shape: Shape, pieces: Sequence[str]) -> Model:
    """Its model of this shape; pieces are the vocabulary but for the four special symbols."""
    part: dict[str, Any] = {
        "type": "transformer",
        "hidden_size": shape.d_model,
        "ff_size": shape.d_ff,
        "num_heads": shape.num_heads,
        "dropout": shape.dropout,
        "layer_norm": "post",
        "activation": "relu",
        "embeddings": {"embedding_dim": shape.d_model, "scale": True, "dropout": shape.dropout},
    }
    configuration = {
        "tied_embeddings": True,
        "tied_softmax": True,
        "initializer": "xavier_uniform",
        "bias_initializer": "zeros",
        "embed_initializer": "xavier_uniform",
        "encoder": part | {"num_layers": shape.num_encoder_layers},
        "decoder": part | {"num_layers": shape.num_decoder_layers},
    }
    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=_ITS_UNK, pad_id=_ITS_PAD, bos_id=BOS, eos_id=EOS,
    )  # fmt: skip
    vocabulary = Vocabulary([*_NAMES, *pieces], special)
    model = build_model(configuration, src_vocab=vocabulary, trg_vocab=vocabulary)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = shape.layer_norm_eps  # it has 1e-6 and no option
    return model


def exchanged(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Dragoman's ids as JoeyNMT's: padding has another one; UNK never occurs."""
    return np.where(ids == PAD, _ITS_PAD, ids)


def make_batch(source: NDArray[np.int64], target_output: NDArray[np.int64] | None) -> Batch:
    """Its batch of source (B, S) and target_output (B, T), in Dragoman's ids; it makes the decoder's input itself."""
    target = None
    if target_output is not None:
        start = np.full((len(target_output), 1), BOS)
        target = torch.from_numpy(exchanged(np.concatenate((start, target_output), axis=1)))
    return Batch(
        src=torch.from_numpy(exchanged(source)),
        src_length=torch.from_numpy((source != PAD).sum(axis=1)),
        src_prompt_mask=None,
        trg=target,
        trg_prompt_mask=None,
        indices=torch.arange(len(source)),
        device=torch.device("cpu"),
        pad_index=_ITS_PAD,
        eos_index=EOS,
        is_train=target_output is not None,
    )


def make_optimizer(model: Model) -> torch.optim.Adam:
    """Its Adam: the plain one, a parameter at a time."""
    return torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)


def make_step(model: Model, optimizer: torch.optim.Optimizer) -> Callable[[Arrays], Any]:
    """The step of its TrainManager, without what that logs; returns the loss per target token, a scalar tensor."""
    model.loss_function = ("crossentropy", LABEL_SMOOTHING)

    def step(arrays: Arrays) -> Tensor:
        batch = make_batch(arrays.source, arrays.target_output)
        model.train()
        batch.sort_by_src_length()
        loss, _, _, correct = model(return_type="loss", **vars(batch))
        value = batch.normalize(loss, normalization="tokens")
        value.backward()
        value.item(), correct.item()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        model.zero_grad()
        return value.detach()  # type: ignore[no-any-return]

    return step


def facts_of(model: Model) -> Message:
    """What there is to know about a model that is trained."""
    return {"versions": _VERSIONS, "parameters": sum(p.numel() for p in model.parameters())}


def prepare_training(request: Message) -> TrainingSession:
    """Make the model and warm it up."""
    torch.manual_seed(SEED)
    shape = Shape(**request["shape"])
    model = make_model(shape, [f"piece-{number}" for number in range(shape.vocab_size - len(_NAMES))])
    step = make_step(model, make_optimizer(model))
    return TrainingSession(step, read_batches(request["batches"]), facts_of(model))


def pieces_of(subwords: sentencepiece.SentencePieceProcessor) -> list[str]:
    """The vocabulary but for the four special symbols."""
    return [subwords.id_to_piece(i) for i in range(len(_NAMES), len(subwords))]


def translate_batch(model: Model, sources: list[list[int]], beam: int, length_penalty: float) -> list[list[int]]:
    """Translate one batch of ids with its search; UNK is never written, as in Dragoman."""
    longest = max(map(len, sources))
    padded = np.array([[*ids, *[PAD] * (longest - len(ids))] for ids in sources])
    found, _, _ = search(
        model=model,
        batch=make_batch(padded, None),
        max_output_length=longest + MORE_TOKENS,
        beam_size=beam,
        beam_alpha=length_penalty,
        n_best=1,
        min_output_length=0,
        generate_unk=False,
    )
    return [_until_end(row)[: len(ids) + MORE_TOKENS] for row, ids in zip(found.tolist(), sources, strict=True)]


def _until_end(ids: list[int]) -> list[int]:
    end = ids.index(EOS) if EOS in ids else len(ids)
    return [i for i in ids[:end] if i > EOS]


def make_translate(model: Model, subwords: sentencepiece.SentencePieceProcessor, length_penalty: float) -> Translate:
    """From raw lines to raw lines, in sorted batches."""

    def translate(lines: Sequence[str], beam: int) -> list[str]:
        ids = [[*subword, EOS] for subword in subwords.encode(list(lines))]
        found = in_sorted_batches(lambda some: translate_batch(model, some, beam, length_penalty), ids, BATCH_SENTENCES)
        return subwords.decode(found)  # type: ignore[no-any-return]

    return translate


def prepare_decoding(request: Message) -> DecodingSession:
    """Load the converted model."""
    subwords = sentencepiece.SentencePieceProcessor(model_file=f"{request['plain']}/{SUBWORDS_FILE}")
    shape, weights = read_plain(request["plain"])
    model = make_model(shape, pieces_of(subwords))
    missing, unknown = model.load_state_dict(to_joeynmt(weights), strict=False)
    if unknown or any(not name.endswith(".pe") for name in missing):
        raise ValueError(f"the weights do not fit: {missing}, {unknown}")
    model.eval()
    translate = make_translate(model, subwords, request["length_penalty"])
    return DecodingSession(translate, request["sources"], {"versions": _VERSIONS})


def prepare(request: Message) -> Session:
    """A session of the kind that the request names."""
    kinds: dict[str, Callable[[Message], Session]] = {
        "training": prepare_training,
        "decoding": prepare_decoding,
    }
    return kinds[request["task"]](request)


if __name__ == "__main__":
    serve(prepare)
