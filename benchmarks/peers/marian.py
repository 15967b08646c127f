"""transformers' MarianMTModel: a training step with its logits, and translation with its generate.

Shapes: B batch, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import sentencepiece
import torch
import transformers
from torch import Tensor
from transformers import GenerationConfig, MarianConfig, MarianMTModel

from peers.batches import BOS, EOS, PAD, UNK, read_batches
from peers.convert import SUBWORDS_FILE, read_plain, to_marian
from peers.learning import SEED, Learner, LearningSession
from peers.protocol import Message, Session, serve
from peers.sessions import DecodingSession, TrainingSession, Translate, fastest, in_sorted_batches
from peers.shape import Shape
from peers.stepping import Loss, adam, smoothed_cross_entropy, torch_step, wait_for

BATCH_SENTENCES = 64
TRIAL_LINES = 128
MORE_TOKENS = 50
"""Most tokens beyond the source. Dragoman's limit is each sentence's own; here it is that of the longest one of a
batch, and what goes beyond a sentence's own is cut off, so that sentences without an end compare as well."""
_VERSIONS = {"transformers": transformers.__version__, "torch": torch.__version__}


def marian_config(shape: Shape) -> MarianConfig:
    """Its configuration for this shape; attention is PyTorch's fused kernel, the library's default."""
    return MarianConfig(
        vocab_size=shape.vocab_size,
        d_model=shape.d_model,
        encoder_layers=shape.num_encoder_layers,
        decoder_layers=shape.num_decoder_layers,
        encoder_attention_heads=shape.num_heads,
        decoder_attention_heads=shape.num_heads,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        dropout=shape.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        max_position_embeddings=shape.max_length,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )


def load(folder: str) -> MarianMTModel:
    """The converted model, for evaluation."""
    shape, weights = read_plain(folder)
    model = MarianMTModel(marian_config(shape))
    model.load_state_dict(to_marian(weights))
    return model.eval()


def make_model(request: Message) -> MarianMTModel:
    """A model with the library's own random weights, for training."""
    torch.manual_seed(request.get("seed", SEED))
    model = MarianMTModel(marian_config(Shape(**request["shape"]))).train().to(request.get("device", "cpu"))
    if request.get("compile"):
        model.compile()
    return model


def make_loss(model: MarianMTModel) -> Loss:
    """Its logits, and PyTorch's smoothed cross-entropy."""

    def loss(source: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        found = model(source, attention_mask=source != PAD, decoder_input_ids=target_input, use_cache=False)
        return smoothed_cross_entropy(found.logits, target_output)

    return loss


def facts_of(model: MarianMTModel) -> Message:
    """What there is to know about a model that is trained."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"versions": _VERSIONS, "parameters": trained, "attention": model.config._attn_implementation}


def prepare_training(request: Message) -> TrainingSession:
    """Make the model and warm it up."""
    model = make_model(request)
    step = torch_step(model.parameters(), make_loss(model), request["precision"] == "bf16")
    wait = partial(wait_for, request.get("device", "cpu"))
    return TrainingSession(step, read_batches(request["batches"]), facts_of(model), wait)


def prepare_learning(request: Message) -> LearningSession:
    """Make the model; it learns in the request's precision, and is scored in fp32."""
    model = make_model(request)
    optimizer = adam(model.parameters())
    step = torch_step(model.parameters(), make_loss(model), request["precision"] == "bf16", optimizer=optimizer)
    subwords = sentencepiece.SentencePieceProcessor(model_file=request["subwords"])
    translate = make_translate(model, subwords, request["length_penalty"])
    return LearningSession(Learner(model, optimizer, step, translate, facts_of(model)), request)


def generate(model: MarianMTModel, sources: list[list[int]], beam: int, length_penalty: float) -> list[list[int]]:
    """Translate one batch of ids; PAD, BOS and UNK are never written, as in Dragoman."""
    longest = max(map(len, sources))
    padded = torch.tensor([[*ids, *[PAD] * (longest - len(ids))] for ids in sources])
    config = GenerationConfig(
        num_beams=beam,
        do_sample=False,
        length_penalty=length_penalty if beam > 1 else None,
        early_stopping=False,
        max_new_tokens=min(longest + MORE_TOKENS, model.config.max_position_embeddings - 1),
        suppress_tokens=[PAD, UNK, BOS],
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
    )
    found = model.generate(padded, attention_mask=padded != PAD, generation_config=config)
    written = [[i for i in ids if i > EOS] for ids in found.tolist()]
    return [ids[: len(source) + MORE_TOKENS] for ids, source in zip(written, sources, strict=True)]


def make_translate(
    model: MarianMTModel,
    subwords: sentencepiece.SentencePieceProcessor,
    length_penalty: float,
    precision: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Translate:
    """From raw lines to raw lines, in sorted batches; precision is the context to compute in."""

    def translate(lines: Sequence[str], beam: int) -> list[str]:
        ids = [[*subword, EOS] for subword in subwords.encode(list(lines))]
        with torch.inference_mode(), precision():
            found = in_sorted_batches(lambda some: generate(model, some, beam, length_penalty), ids, BATCH_SENTENCES)
        return subwords.decode(found)  # type: ignore[no-any-return]

    return translate


def prepare_decoding(request: Message) -> DecodingSession:
    """Load the converted model; of the two ways to bf16, take the faster one."""
    subwords = sentencepiece.SentencePieceProcessor(model_file=f"{request['plain']}/{SUBWORDS_FILE}")
    model = load(request["plain"])

    def way(model: MarianMTModel, precision: Callable[[], AbstractContextManager[None]]) -> Translate:
        return make_translate(model, subwords, request["length_penalty"], precision)

    ways = {"fp32": way(model, nullcontext)}
    if request["precision"] == "bf16":
        ways = {
            "autocast": way(model, lambda: torch.autocast("cpu", torch.bfloat16)),
            "weights in bfloat16": way(load(request["plain"]).to(torch.bfloat16), nullcontext),
        }
    names = list(ways)
    trial = request["sources"][:TRIAL_LINES]
    name = names[fastest(list(ways.values()), trial, max(request["beams"])) if len(ways) > 1 else 0]
    return DecodingSession(ways[name], request["sources"], {"versions": _VERSIONS, "way": name})


def prepare(request: Message) -> Session:
    """A session of the kind that the request names."""
    kinds: dict[str, Callable[[Message], Session]] = {
        "training": prepare_training,
        "learning": prepare_learning,
        "decoding": prepare_decoding,
    }
    return kinds[request["task"]](request)


if __name__ == "__main__":
    serve(prepare)
