"""The whole model: PyTorch's own Transformer as a second opinion, and what masks, caches and sharing promise."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.config import BOS, EOS, PAD, ModelConfig
from dragoman.model.attention import AttentionMaps, MultiHeadAttention
from dragoman.model.layers import ACTIVATIONS
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.presets import model_preset

Norm = Literal["post", "pre"]
NORMS: list[Norm] = ["post", "pre"]
POSITIONS = ["interleaved", "halves", "learned"]
TINY = ModelConfig(
    d_model=8,
    d_ff=20,
    num_heads=2,
    num_encoder_layers=2,
    num_decoder_layers=3,
    dropout=0.0,
    max_length=48,
    layer_norm_eps=1e-2,
    source_vocab_size=13,
    target_vocab_size=13,
)
SEPARATE = {"share_embeddings": False, "source_vocab_size": 11, "target_vocab_size": 17}


def tiny(**changes: Any) -> Transformer:
    """A tiny model in float64 whose biases and LayerNorms are not at their inert starting values."""
    torch.manual_seed(0)
    model = Transformer(dataclasses.replace(TINY, **changes)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model


def sentences(lengths: list[int], vocab_size: int = 11, seed: int = 1) -> Tensor:
    """Random ids (B, longest), padded on the right."""
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(EOS, vocab_size, (len(lengths), max(lengths)), generator=g)
    return torch.where(torch.arange(max(lengths)) < torch.tensor(lengths)[:, None], ids, PAD)


def batch(vocab_size: int = 11) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, target inputs and target outputs of different lengths."""
    source, target = sentences([5, 2, 4], vocab_size), sentences([3, 6, 4], vocab_size, seed=2)
    target_input = torch.cat([torch.full((3, 1), BOS), target[:, :-1]], dim=1)
    return source, target_input.masked_fill(target == PAD, PAD), target


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def loss(logits: Tensor, target_output: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), target_output.flatten(), ignore_index=PAD, reduction="sum")


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
    assert cache.length == 40


@torch.no_grad()
def test_hypotheses_side_by_side_decode_as_each_would_alone() -> None:
    model = tiny()
    source, mask = sentences([5, 3, 4]), padding_mask(sentences([5, 3, 4]), PAD)
    memory = model.encode(source, mask)
    cache = model.start_cache(memory)
    target = sentences([5] * 6, seed=4)  # two hypotheses for each of three sentences
    steps = [model.decode(piece, memory, mask, cache) for piece in target.split([4, 1], dim=1)]
    for row, logits in enumerate(torch.cat(steps, dim=1)):
        assert_close(logits, model(source[row // 2][None], target[row][None])[0])


@torch.no_grad()
def test_forward_is_encode_then_decode() -> None:
    model, (source, target, _) = tiny(), batch()
    mask = padding_mask(source, PAD)
    assert_close(model.decode(target, model.encode(source, mask), mask), model(source, target))


@torch.no_grad()
def test_logits_are_the_states_projected_onto_the_vocabulary() -> None:
    model, (source, target, _) = tiny(), batch()
    assert_close(model.states(source, target) @ model.softmax.weight.T, model(source, target))


@torch.no_grad()
def test_no_mask_is_a_mask_that_hides_nothing() -> None:
    model, source, target = tiny(), sentences([4, 4]), sentences([3, 3], seed=2)
    memory = model.encode(source, None)
    assert_close(memory, model.encode(source, torch.ones(2, 1, 1, 4, dtype=torch.bool)))
    assert_close(model.decode(target, memory, None), model(source, target))


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


@torch.no_grad()
def test_without_positions_a_source_would_be_a_bag_of_words_and_with_them_it_is_not() -> None:
    model, source, target = tiny(), sentences([5]), sentences([4], seed=2)
    shuffled = source[:, [4, 2, 0, 1, 3]]
    assert not torch.allclose(model(source, target), model(shuffled, target))
    model.source_positions.table.zero_()
    assert_close(model(source, target), model(shuffled, target))


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


# ---------------------------------------------------------------------------------------------- sharing and size


def test_shared_embeddings_and_tied_softmax_are_one_tensor_whose_gradients_add_up() -> None:
    model, (source, target, output) = tiny(), batch()
    assert model.source_embedding.weight is model.target_embedding.weight
    assert model.softmax.weight is model.target_embedding.weight
    apart = tiny(share_embeddings=False, tie_softmax=False)
    missing, unexpected = apart.load_state_dict(model.state_dict(), strict=False)
    assert (missing, unexpected) == ([], [])
    loss(model(source, target), output).backward()
    loss(apart(source, target), output).backward()
    parts = [m.weight.grad for m in (apart.source_embedding, apart.target_embedding, apart.softmax)]
    assert all(part is not None and part.abs().max() > 0 for part in parts)
    assert_close(model.softmax.weight.grad, sum(parts))  # type: ignore[arg-type]


@pytest.mark.parametrize("tie_softmax", [True, False])
@pytest.mark.parametrize("share_embeddings", [True, False])
def test_each_sharing_option_shares_what_it_says_and_nothing_else(share_embeddings: bool, tie_softmax: bool) -> None:
    model = tiny(share_embeddings=share_embeddings, tie_softmax=tie_softmax)
    assert (model.source_embedding.weight is model.target_embedding.weight) == share_embeddings
    assert (model.softmax.weight is model.target_embedding.weight) == tie_softmax
    table = 13 * 8
    fewest = tiny().num_parameters
    assert model.num_parameters == fewest + table * ((not share_embeddings) + (not tie_softmax))


def test_sharing_survives_loading_and_a_change_of_precision() -> None:
    model = tiny()
    model.load_state_dict(tiny(norm="post").state_dict())
    model.float().double()
    assert model.softmax.weight is model.target_embedding.weight is model.source_embedding.weight


@pytest.mark.parametrize("tie_softmax", [True, False])
def test_separate_vocabularies_may_differ_in_size(tie_softmax: bool) -> None:
    model = tiny(share_embeddings=False, tie_softmax=tie_softmax, source_vocab_size=30, target_vocab_size=20)
    logits = model(torch.tensor([[29, EOS]]), torch.tensor([[BOS, 19, 18]]))
    assert logits.shape == (1, 3, 20)
    with pytest.raises(IndexError):
        model(torch.tensor([[5]]), torch.tensor([[BOS, 29]]))


@pytest.mark.parametrize(("preset", "papers_count"), [("base", 65e6), ("big", 213e6)])
def test_base_and_big_have_the_number_of_parameters_of_table_3(preset: str, papers_count: float) -> None:
    with torch.device("meta"):
        model = Transformer(model_preset(preset))
    assert model.num_parameters == pytest.approx(papers_count, rel=0.03)


def test_heads_divide_the_width_of_the_model_among_themselves() -> None:
    for preset in ("tiny", "small", "base", "big"):
        assert model_preset(preset).d_k * model_preset(preset).num_heads == model_preset(preset).d_model
    assert model_preset("base").d_k == model_preset("big").d_k == 64
    one, many = tiny(num_heads=1), tiny(num_heads=8)
    assert one.num_parameters == many.num_parameters


# ---------------------------------------------------------------------------------------------- training mode


@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_matrices_start_within_glorots_bound_and_biases_at_zero(gain: float) -> None:
    model = Transformer(dataclasses.replace(TINY, d_model=32, d_ff=96, tie_softmax=False, init_gain=gain))
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(linear) == 2 * (4 + 2) + 3 * (8 + 2) + 1
    for module in linear:
        bound = gain * math.sqrt(6 / (module.in_features + module.out_features))
        assert 0.9 * bound < module.weight.abs().max().item() <= bound
        assert module.bias is None or (module.bias == 0).all()


@pytest.mark.parametrize("gain", [1.0, 0.3])
@pytest.mark.parametrize("shared", [True, False])
def test_tying_leaves_the_embedding_its_own_starting_values(gain: float, shared: bool) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 64, "source_vocab_size": 500, "target_vocab_size": 500}
    model = Transformer(dataclasses.replace(TINY, **sizes, embedding_gain=gain, share_embeddings=shared))
    assert model.softmax.weight is model.target_embedding.weight
    for embedding in model.source_embedding, model.target_embedding:
        assert embedding.weight.std().item() == pytest.approx(gain * 64**-0.5, rel=0.03)


def test_dropout_is_noise_in_training_that_a_seed_repeats_and_is_absent_in_evaluation() -> None:
    source, target, _ = batch()
    noisy, quiet = tiny(dropout=0.3), tiny()

    def logits(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return noisy(source, target)

    assert torch.equal(logits(1), logits(1))
    assert not torch.allclose(logits(1), logits(2))
    noisy.eval()
    assert torch.equal(logits(1), quiet(source, target))


def test_both_sums_of_embeddings_and_positions_are_dropped_from() -> None:
    model = tiny(dropout=0.5)
    for positions in (model.source_positions, model.target_positions):
        assert 0.3 < (positions(torch.full((9, 9, 8), 5.0).double()) == 0).double().mean() < 0.7


def test_fixed_positions_let_saved_weights_serve_a_longer_model() -> None:
    short, long = tiny(max_length=10), tiny(max_length=40)
    assert not any("table" in name for name in short.state_dict())
    with torch.no_grad():
        for parameter in long.parameters():
            parameter.zero_()
    long.load_state_dict(short.state_dict())
    source, target, _ = batch()
    assert torch.equal(long(source, target), short(source, target))
    long(sentences([40]), sentences([40]))


def test_every_parameter_takes_part() -> None:
    # All but the biases of the keys, which add the same to every score of a query.
    model, (source, target, output) = tiny(positions="learned", **SEPARATE, tie_softmax=False, norm="pre"), batch()
    loss(model(source, target), output).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad.abs().max() > 1e-9) != name.endswith("key.bias"), name
