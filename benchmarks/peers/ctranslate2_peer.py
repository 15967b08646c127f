"""CTranslate2: the model in its own format, in fp32 or int8, by one worker of many threads or many of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import ctranslate2
import numpy as np
import sentencepiece
from ctranslate2.specs import TransformerSpec, common_spec

from peers.convert import EMBEDDING, POSITIONS, SUBWORDS_FILE, Weights, read_plain
from peers.protocol import Message, serve
from peers.sessions import DecodingSession, fastest
from peers.shape import Shape

BATCHINGS = [(64, "examples"), (1024, "tokens"), (4096, "tokens")]
"""Sizes of batches and what they count; the fastest is kept."""
MORE_TOKENS = 50
"""Most tokens beyond the source. Dragoman's limit is each sentence's own; here it is that of the longest one of a
call, and what goes beyond a sentence's own is cut off, so that sentences without an end compare as well."""
_SPECIALS = [["<pad>"], ["<unk>"], ["<s>"]]


def make_spec(shape: Shape, weights: Weights, pieces: Sequence[str]) -> TransformerSpec:
    """The model as CTranslate2 describes one."""
    arrays = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in weights.items()}
    layers = (shape.num_encoder_layers, shape.num_decoder_layers)
    spec = TransformerSpec.from_config(layers, shape.num_heads, pre_norm=False, activation=common_spec.Activation.RELU)
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = True
        side.position_encodings.encodings = arrays[POSITIONS]  # left out, it would be [sin | cos]
    spec.encoder.embeddings[0].weight = arrays[EMBEDDING]
    spec.decoder.embeddings.weight = arrays[EMBEDDING]
    spec.decoder.projection.weight = arrays[EMBEDDING]
    for side, layers_of_side in (("encoder", spec.encoder.layer), ("decoder", spec.decoder.layer)):
        for number, layer in enumerate(layers_of_side):
            _set_layer(layer, arrays, f"{side}.layers.{number}", side == "decoder")
    spec.config.layer_norm_epsilon = shape.layer_norm_eps
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = "<unk>", "<s>", "</s>"
    spec.config.decoder_start_token = "<s>"
    spec.config.add_source_eos = True
    spec.register_source_vocabulary(list(pieces))
    spec.register_target_vocabulary(list(pieces))
    return spec


Arrays = dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"]


def _set_layer(layer: object, arrays: Arrays, name: str, cross: bool) -> None:
    """Fill a layer's specification; queries, keys and values that read the same input are one matrix."""
    attention = layer.self_attention  # type: ignore[attr-defined]
    _set_linear(attention.linear[0], arrays, [f"{name}.self_attention.{part}" for part in ("query", "key", "value")])
    _set_linear(attention.linear[1], arrays, [f"{name}.self_attention.output"])
    _set_norm(attention.layer_norm, arrays, f"{name}.self_attention_connection.layer_norm")
    if cross:
        attention = layer.attention  # type: ignore[attr-defined]
        _set_linear(attention.linear[0], arrays, [f"{name}.cross_attention.query"])
        _set_linear(attention.linear[1], arrays, [f"{name}.cross_attention.{part}" for part in ("key", "value")])
        _set_linear(attention.linear[2], arrays, [f"{name}.cross_attention.output"])
        _set_norm(attention.layer_norm, arrays, f"{name}.cross_attention_connection.layer_norm")
    ffn = layer.ffn  # type: ignore[attr-defined]
    _set_linear(ffn.linear_0, arrays, [f"{name}.feed_forward.inner"])
    _set_linear(ffn.linear_1, arrays, [f"{name}.feed_forward.outer"])
    _set_norm(ffn.layer_norm, arrays, f"{name}.feed_forward_connection.layer_norm")


def _set_linear(spec: common_spec.LinearSpec, arrays: Arrays, names: Sequence[str]) -> None:
    spec.weight = np.concatenate([arrays[f"{name}.weight"] for name in names])
    spec.bias = np.concatenate([arrays[f"{name}.bias"] for name in names])


def _set_norm(spec: common_spec.LayerNormSpec, arrays: Arrays, name: str) -> None:
    spec.gamma, spec.beta = arrays[f"{name}.weight"], arrays[f"{name}.bias"]


def convert(plain: str, folder: Path) -> None:
    """Write the model in CTranslate2's format."""
    subwords = sentencepiece.SentencePieceProcessor(model_file=f"{plain}/{SUBWORDS_FILE}")
    shape, weights = read_plain(plain)
    spec = make_spec(shape, weights, [subwords.id_to_piece(i) for i in range(len(subwords))])
    spec.validate()
    spec.optimize(quantization=None)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def prepare(request: Message) -> DecodingSession:
    """Convert and load the model; try the ways to cut batches at each beam."""
    # A folder for each worker: they start at the same time, and one must not read what another writes.
    folder = Path(request["plain"]) / f"ctranslate2-{request['precision']}-{request['workers']}"
    convert(request["plain"], folder)
    workers = request["workers"]
    translator = ctranslate2.Translator(
        str(folder),
        device=request.get("device", "cpu").partition(":")[0],
        compute_type={"fp32": "float32", "fp16": "float16", "int8": "int8"}[request["precision"]],
        inter_threads=workers,
        intra_threads=max(1, request["threads"] // workers),
    )
    subwords = sentencepiece.SentencePieceProcessor(model_file=f"{request['plain']}/{SUBWORDS_FILE}")

    most = read_plain(request["plain"])[0].max_length - 1

    def way(size: int, kind: str) -> Callable[[Sequence[str], int], list[str]]:
        def translate(lines: Sequence[str], beam: int) -> list[str]:
            pieces = subwords.encode(list(lines), out_type=str)
            found = translator.translate_batch(
                pieces,
                max_batch_size=size,
                batch_type=kind,
                beam_size=beam,
                length_penalty=request["length_penalty"],
                min_decoding_length=0,
                max_decoding_length=min(max(map(len, pieces)) + 1 + MORE_TOKENS, most),
                suppress_sequences=_SPECIALS,
            )
            limits = [len(source) + 1 + MORE_TOKENS for source in pieces]
            return [subwords.decode(r.hypotheses[0][:limit]) for r, limit in zip(found, limits, strict=True)]

        return translate

    ways = [way(size, kind) for size, kind in BATCHINGS]
    best = {beam: fastest(ways, request["sources"], beam) for beam in request["beams"]}
    facts = {
        "versions": {"ctranslate2": ctranslate2.__version__},
        "batches": {str(beam): "{} {}".format(*BATCHINGS[number]) for beam, number in best.items()},
    }
    return DecodingSession(lambda lines, beam: ways[best[beam]](lines, beam), request["sources"], facts)


if __name__ == "__main__":
    serve(prepare)
