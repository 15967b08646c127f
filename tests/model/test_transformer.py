"""The whole model: PyTorch's own Transformer as a second opinion, and what masks, caches and sharing promise."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.config import BOS, PAD, ModelConfig
from dragoman.model.attention import AttentionMaps, MultiHeadAttention
from dragoman.model.layers import ACTIVATIONS
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from tests.model.small_transformers import NORMS, SEPARATE, Norm, assert_close, batch, loss, sentences, tiny

POSITIONS = ["interleaved", "halves", "learned"]


# ---------------------------------------------------------------------------------------------- PyTorch's model


class Reference(nn.Module):
    """The same model built from torch.nn.Transformer, with masks of the opposite polarity: True = blocked."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d, h, pre = config.d_model, config.num_heads, config.norm == "pre"
        options: dict[str, Any] = {
            "dim_feedforward": config.d_ff,
            "dropout": 0.0,
            "activation": ACTIVATIONS[config.activation],
            "layer_norm_eps": config.layer_norm_eps,
            "batch_first": True,
            "norm_first": pre,
        }

        def final_norm() -> nn.Module | None:
            return nn.LayerNorm(d, eps=config.layer_norm_eps) if pre else None

        self.source = nn.Embedding(config.source_vocab_size, d)
        self.target = self.source if config.share_embeddings else nn.Embedding(config.target_vocab_size, d)
        self.transformer = nn.Transformer(
            d,
            h,
            custom_encoder=nn.TransformerEncoder(
                nn.TransformerEncoderLayer(d, h, **options),
                config.num_encoder_layers,
                final_norm(),
                enable_nested_tensor=False,
            ),
            custom_decoder=nn.TransformerDecoder(
                nn.TransformerDecoderLayer(d, h, **options), config.num_decoder_layers, final_norm()
            ),
            batch_first=True,
        )
        self.generator = nn.Linear(d, config.target_vocab_size, bias=False)
        if config.tie_softmax:
            self.generator.weight = self.target.weight
        self.double()

    def forward(self, source: Tensor, target: Tensor, table: Tensor) -> Tensor:
        scale = math.sqrt(self.config.d_model)
        blocked = torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(1)
        states = self.transformer(
            self.source(source) * scale + table[: source.size(1)],
            self.target(target) * scale + table[: target.size(1)],
            tgt_mask=blocked,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,  # which ours does without
            memory_key_padding_mask=source == PAD,
        )
        return self.generator(states)


def correspondence(model: Transformer, reference: Reference) -> Iterator[tuple[list[Tensor], Tensor]]:
    """Each parameter of the reference after those of ours that, put together, must equal it."""

    def attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Iterator[tuple[list[Tensor], Tensor]]:
        inputs = (ours.query, ours.key, ours.value)
        yield [p.weight for p in inputs], theirs.in_proj_weight
        yield [p.bias for p in inputs], theirs.in_proj_bias
        yield from same(ours.output, theirs.out_proj)

    def same(ours: nn.Module, theirs: nn.Module | None) -> Iterator[tuple[list[Tensor], Tensor]]:
        if theirs is not None:
            for x, y in zip(ours.parameters(), theirs.parameters(), strict=True):
                yield [x], y

    yield [model.source_embedding.weight], reference.source.weight
    yield [model.target_embedding.weight], reference.target.weight
    yield [model.softmax.weight], reference.generator.weight
    for stack, other in (
        (model.encoder, reference.transformer.encoder),
        (model.decoder, reference.transformer.decoder),
    ):
        yield from same(stack.final_norm, other.norm)
        for x, y in zip(stack.layers, other.layers, strict=True):
            yield from attention(x.self_attention, y.self_attn)
            connections, norms = [x.self_attention_connection], [y.norm1, y.norm2]
            if other is reference.transformer.decoder:
                yield from attention(x.cross_attention, y.multihead_attn)
                connections.append(x.cross_attention_connection)
                norms.append(y.norm3)
            for connection, norm in zip([*connections, x.feed_forward_connection], norms, strict=True):
                yield from same(connection.layer_norm, norm)
            yield from same(x.feed_forward.inner, y.linear1)
            yield from same(x.feed_forward.outer, y.linear2)


@pytest.mark.parametrize(
    ("norm", "activation", "sharing"),
    [
        ("post", "relu", {}),
        ("pre", "relu", {}),
        ("post", "gelu", SEPARATE),
        ("pre", "swish", SEPARATE | {"tie_softmax": False}),
    ],
)
def test_logits_and_all_gradients_equal_those_of_torch_nn_transformer(
    norm: Norm, activation: str, sharing: dict[str, Any]
) -> None:
    model = tiny(norm=norm, activation=activation, **sharing)
    reference = Reference(model.config)
    pairs = list(correspondence(model, reference))
    assert {id(p) for ours, _ in pairs for p in ours} == {id(p) for p in model.parameters()}
    assert {id(p) for _, theirs in pairs for p in [theirs]} == {id(p) for p in reference.parameters()}
    with torch.no_grad():
        for ours, theirs in pairs:
            theirs.copy_(torch.cat(ours))
    source, target_input, target_output = batch()
    logits = model(source, target_input)
    expected = reference(source, target_input, model.source_positions.table)
    real = target_output != PAD
    assert_close(logits[real], expected[real])
    loss(logits, target_output).backward()
    loss(expected, target_output).backward()
    for ours, theirs in pairs:
        assert theirs.grad is not None
        assert_close(torch.cat([p.grad for p in ours if p.grad is not None]), theirs.grad)


# ---------------------------------------------------------------------------------------------- decoding


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("pieces", [[1] * 40, [1, 3, 1, 2, 33], [40]])
@torch.no_grad()
def test_cached_decoding_gives_the_logits_of_the_whole_pass_at_every_step(
    norm: Norm, positions: str, pieces: list[int]
) -> None:
    model = tiny(norm=norm, positions=positions)
    source, target = sentences([5, 2]), sentences([40, 40], seed=3)
    whole = model(source, target)
    mask = padding_mask(source, PAD)
    memory = model.encode(source, mask)
    cache = model.start_cache(memory)
    steps = [model.decode(piece, memory, mask, cache) for piece in target.split(pieces, dim=1)]
    assert_close(torch.cat(steps, dim=1), whole)
    assert {layer.past.length for layer in cache} == {40}


@torch.no_grad()
def test_logits_are_the_states_projected_onto_the_vocabulary() -> None:
    model, (source, target, _) = tiny(), batch()
    assert_close(model.states(source, target) @ model.softmax.weight.T, model(source, target))


@torch.no_grad()
def test_a_sentence_longer_than_the_model_takes_is_refused_on_both_sides_and_with_a_cache() -> None:
    model = tiny(max_length=6)
    fits, too_long = sentences([6]), sentences([7])
    model(fits, fits)
    with pytest.raises(ValueError, match="7 positions"):
        model(too_long, fits)
    with pytest.raises(ValueError, match="7 positions"):
        model(fits, too_long)
    memory = model.encode(fits, None)
    cache = model.start_cache(memory)
    model.decode(fits, memory, None, cache)
    with pytest.raises(ValueError, match="7 positions"):
        model.decode(fits[:, :1], memory, None, cache)


# ---------------------------------------------------------------------------------------------- masks at work


@pytest.mark.parametrize("norm", NORMS)
@torch.no_grad()
def test_a_batch_gives_each_pair_what_it_would_get_alone(norm: Norm) -> None:
    model, (source, target, _) = tiny(norm=norm), batch()
    together = model(source, target)
    for i in range(len(source)):
        alone = model(source[i, source[i] != PAD][None], target[i, target[i] != PAD][None])
        assert_close(together[i, : alone.size(1)], alone[0])


@torch.no_grad()
def test_more_padding_on_either_side_changes_nothing() -> None:
    model, (source, target, _) = tiny(), batch()
    padded = model(F.pad(source, (0, 4), value=PAD), F.pad(target, (0, 3), value=PAD))
    assert_close(padded[:, : target.size(1)], model(source, target))


def test_padding_of_the_source_has_no_influence_and_gets_no_gradient() -> None:
    # Also in the encoder: "masking only exists in the decoder", as some say, is true of the future only.
    model, (source, target, output) = tiny(**SEPARATE), batch()
    logits = model(source, target)
    loss(logits, output).backward()
    gradient = model.source_embedding.weight.grad
    assert gradient is not None
    assert (gradient[PAD] == 0).all()
    assert gradient[source[0, 0]].abs().max() > 0
    with torch.no_grad():
        model.source_embedding.weight[PAD] += 10.0
        assert_close(model(source, target), logits.detach())


def test_padding_of_the_target_gets_no_gradient_although_no_mask_names_it() -> None:
    model, (source, target, output) = tiny(**SEPARATE, tie_softmax=False), batch()
    loss(model(source, target), output).backward()
    gradient = model.target_embedding.weight.grad
    assert gradient is not None
    assert (gradient[PAD] == 0).all()
    assert gradient[BOS].abs().max() > 0


@pytest.mark.parametrize("norm", NORMS)
@torch.no_grad()
def test_a_target_token_changes_no_logits_before_it_and_all_logits_from_it_on(norm: Norm) -> None:
    model, source, target = tiny(norm=norm), sentences([5]), sentences([7], seed=2)
    before = model(source, target)
    for j in range(7):
        changed = target.clone()
        changed[0, j] = 12
        difference = (model(source, changed) - before).abs().amax(dim=-1)[0]
        assert (difference[:j] < 1e-12).all(), j
        assert (difference[j:] > 1e-7).all(), j


@torch.no_grad()
def test_every_source_token_is_heard_at_every_position_of_memory_and_target() -> None:
    model, source, target = tiny(), sentences([5]), sentences([4], seed=2)
    memory, logits = model.encode(source, None), model(source, target)
    for j in range(5):
        changed = source.clone()
        changed[0, j] = 12
        assert (model.encode(changed, None) - memory).abs().amax(dim=-1).min().item() > 1e-7
        assert (model(changed, target) - logits).abs().amax(dim=-1).min().item() > 1e-7


# ---------------------------------------------------------------------------------------------- attention maps


@torch.no_grad()
def test_every_layer_and_block_returns_its_map_and_looking_changes_nothing() -> None:
    model, (source, target, _) = tiny(), batch()
    maps: AttentionMaps = {}
    assert_close(model(source, target, maps), model(source, target))
    s, t = source.size(1), target.size(1)
    encoder = {f"encoder.{i}.self_attention": (3, 2, s, s) for i in range(2)}
    decoder = {f"decoder.{i}.self_attention": (3, 2, t, t) for i in range(3)}
    cross = {f"decoder.{i}.cross_attention": (3, 2, t, s) for i in range(3)}
    assert {name: tuple(weights.shape) for name, weights in maps.items()} == encoder | decoder | cross
    assert len({weights[0, 0, -1, 0].item() for weights in maps.values()}) == len(maps)  # no two blocks share a map


@torch.no_grad()
def test_maps_are_distributions_that_show_neither_padding_nor_the_future() -> None:
    model, (source, target, _) = tiny(), batch()
    maps: AttentionMaps = {}
    model(source, target, maps)
    padding = (source == PAD)[:, None, None].expand(-1, 2, target.size(1), -1)
    for name, weights in maps.items():
        assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        if name.endswith("cross_attention"):
            assert (weights[padding] == 0).all()
            assert (weights[~padding] > 0).all()
        elif name.startswith("encoder"):
            hidden = (source == PAD)[:, None, None].expand_as(weights)
            assert (weights[hidden] == 0).all()
            assert (weights[~hidden] > 0).all()
        else:
            assert torch.equal(weights, weights.tril())
            assert (weights.diagonal(dim1=-2, dim2=-1) > 0).all()
