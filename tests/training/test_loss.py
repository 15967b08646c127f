"""The loss: smoothed targets, and the blockwise objective against plain autograd."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.config import BOS, PAD, ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.training import loss as loss_module
from dragoman.training.loss import TrainingObjective, label_smoothed_cross_entropy, measure

SMOOTHINGS = [0.0, 0.1, 0.9]
TIED = {"source_vocab_size": 23, "target_vocab_size": 23}
BIASED = {**TIED, "softmax_bias": True}
SEPARATE = {"share_embeddings": False, "tie_softmax": False, "source_vocab_size": 19, "target_vocab_size": 29}


def logits_and_targets(rows: int = 40, vocab_size: int = 11) -> tuple[Tensor, Tensor]:
    """Logits (5, rows / 5, V) and targets, a third of them PAD."""
    torch.manual_seed(0)
    targets = torch.randint(1, vocab_size, (5, rows // 5))
    targets.view(-1)[::3] = PAD
    return torch.randn(5, rows // 5, vocab_size) * 3, targets


def pytorchs(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=smoothing
    )


def tiny(**changes: Any) -> Transformer:
    torch.manual_seed(1)
    shape: dict[str, Any] = {"d_model": 8, "d_ff": 12, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(ModelConfig(**shape, dropout=0.0, max_length=64, **changes))
    if model.softmax.bias is not None:
        torch.nn.init.normal_(model.softmax.bias)
    return model


def batch(sentences: int = 6, length: int = 9, vocab_size: int = 19) -> tuple[Tensor, Tensor, Tensor]:
    """Source, target input and target output of sentences of many lengths, padded."""
    torch.manual_seed(2)
    source, output = (torch.randint(1, vocab_size, (sentences, length)) for _ in range(2))
    for row in range(sentences):
        source[row, 2 + row :] = PAD
        output[row, length - row :] = PAD
    return source, torch.cat([torch.full((sentences, 1), BOS), output[:, :-1]], dim=1), output


def gradients(model: Transformer) -> dict[str, Tensor]:
    result = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return result


def assert_close(actual: Any, expected: Any, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------------------------------------- the formula


def test_three_words_by_hand() -> None:
    # p = (1/2, 1/4, 1/4) and the target is word 1, so q = (0.1, 0.8, 0.1) with smoothing 0.3 over three words.
    # -Σ q log p = 0.1 ln 2 + 0.8 ln 4 + 0.1 ln 4 = 1.9 ln 2
    logits = torch.tensor([[0.5, 0.25, 0.25]]).log() + 7.0  # a constant changes no probability
    loss, count = label_smoothed_cross_entropy(logits, torch.tensor([1]), 0.3)
    assert loss.item() == pytest.approx(1.9 * math.log(2), rel=1e-6)
    assert count == 1


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_value_and_gradient_are_those_of_pytorchs_cross_entropy(smoothing: float) -> None:
    logits, targets = logits_and_targets()
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss, count = label_smoothed_cross_entropy(ours, targets, smoothing)
    expected = pytorchs(theirs, targets, smoothing)
    loss.backward()
    expected.backward()
    assert_close(loss, expected)
    assert_close(ours.grad, theirs.grad)
    assert count == (targets != PAD).sum()


def test_padding_contributes_neither_loss_nor_gradient() -> None:
    logits, targets = logits_and_targets()
    logits.requires_grad_()
    loss, count = label_smoothed_cross_entropy(logits, targets, 0.1)
    loss.backward()
    assert logits.grad is not None
    assert (logits.grad[targets == PAD] == 0).all()
    assert (logits.grad[targets != PAD] != 0).all()
    real = targets != PAD
    alone, alone_count = label_smoothed_cross_entropy(logits[real], targets[real], 0.1)
    assert_close(loss, alone)
    assert count == alone_count


# ---------------------------------------------------------------------------------------------- the objective


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("changes", [TIED, SEPARATE, BIASED], ids=["tied", "separate", "biased"])
def test_the_objective_and_the_gradient_of_every_parameter_are_those_of_plain_autograd(
    changes: dict[str, Any], smoothing: float
) -> None:
    model, (source, target_input, target_output) = tiny(**changes), batch()
    expected = pytorchs(model(source, target_input), target_output, smoothing)
    expected.backward()
    expected_gradients = gradients(model)
    loss = TrainingObjective(model, smoothing)(source, target_input, target_output)
    loss.backward()
    assert_close(loss, expected)
    assert expected_gradients.keys() == dict(model.named_parameters()).keys()
    assert_close(gradients(model), expected_gradients)


@pytest.mark.parametrize(("block", "piece"), [(1, 1), (7, 3), (39, 39), (5, 1000)])
def test_the_ends_of_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch, block: int, piece: int) -> None:
    model, inputs = tiny(**TIED), batch()
    assert (inputs[2] != PAD).sum() == 39
    whole = TrainingObjective(model, 0.1)(*inputs)
    whole.backward()
    whole_gradients = gradients(model)
    monkeypatch.setattr(loss_module, "_BLOCK", block)
    monkeypatch.setattr(loss_module, "_SLICE", piece)
    loss = TrainingObjective(model, 0.1)(*inputs)
    loss.backward()
    assert_close(loss, whole)
    assert_close(gradients(model), whole_gradients)


def test_compiled_or_not_loss_and_gradients_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    # Traced only: machine code takes a compiler and a minute.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    model = tiny(**TIED).train()
    compiled = TrainingObjective(model, 0.1, compiled=True)
    for inputs in (batch(), tuple(ids[:2, :-1] for ids in batch())):  # of two sizes
        expected = TrainingObjective(model, 0.1)(*inputs)
        expected.backward()
        expected_gradients = gradients(model)
        loss = compiled(*inputs)
        loss.backward()
        assert_close(loss, expected)
        assert_close(gradients(model), expected_gradients)


def test_a_factor_on_the_loss_is_a_factor_on_the_gradients_and_calls_accumulate() -> None:
    model, inputs = tiny(**TIED), batch()
    objective = TrainingObjective(model, 0.1)
    objective(*inputs).backward()
    once = gradients(model)
    (objective(*inputs) * 3.0).backward()
    (objective(*inputs) / 2).backward()
    assert_close(gradients(model), {name: gradient * 3.5 for name, gradient in once.items()}, tolerance=1e-4)


def test_huge_logits_cost_much_but_stay_finite() -> None:
    model, inputs = tiny(**SEPARATE), batch()
    with torch.no_grad():
        model.softmax.weight.mul_(1e4)
    loss = TrainingObjective(model, 0.1)(*inputs)
    loss.backward()
    assert_close(loss, pytorchs(model(*inputs[:2]), inputs[2], 0.1), tolerance=1e-5 * loss.item())
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())


@pytest.mark.parametrize("changes", [TIED, SEPARATE, BIASED], ids=["tied", "separate", "biased"])
def test_in_bfloat16_loss_and_gradients_are_float32_and_as_close_as_plain_autograd(changes: dict[str, Any]) -> None:
    model, inputs = tiny(**changes), batch()

    def outcome(bf16: bool, blockwise: bool) -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            if blockwise:
                loss = TrainingObjective(model, 0.1)(*inputs)
            else:
                loss = pytorchs(model(*inputs[:2]).float(), inputs[2], 0.1)
        loss.backward()
        return loss.detach(), torch.cat([gradient.flatten() for gradient in gradients(model).values()])

    exact, exact_gradient = outcome(bf16=False, blockwise=False)
    plain, plain_gradient = outcome(bf16=True, blockwise=False)
    rounded, rounded_gradient = outcome(bf16=True, blockwise=True)
    error, plain_error = (
        (g - exact_gradient).norm() / exact_gradient.norm() for g in (rounded_gradient, plain_gradient)
    )
    assert rounded.dtype == rounded_gradient.dtype == torch.float32
    assert rounded.item() == pytest.approx(exact.item(), rel=0.01)
    assert rounded.item() == pytest.approx(plain.item(), rel=1e-5)  # all but the mean of the logits is rounded alike
    assert 1e-4 < error < 0.1  # without any error, nothing was computed in bf16
    assert error < 1.3 * plain_error


# ---------------------------------------------------------------------------------------------- R-Drop


def r_drop_by_the_paper(model: Transformer, inputs: tuple[Tensor, Tensor, Tensor], alpha: float) -> Tensor:
    """Half of Liang et al.'s equation 3, by PyTorch's functions, over two passes that draw their own dropout."""
    source, target_input, target_output = (ids.repeat(2, 1) for ids in inputs)
    real = target_output != PAD
    logits, ids = model(source, target_input)[real], target_output[real]
    first, second = (half.log_softmax(-1) for half in logits.chunk(2))
    kl = F.kl_div(second, first, reduction="sum", log_target=True)
    kl += F.kl_div(first, second, reduction="sum", log_target=True)
    return 0.5 * (F.cross_entropy(logits, ids, reduction="sum", label_smoothing=0.1) + alpha / 2 * kl)


@pytest.mark.parametrize("alpha", [0.5, 5.0])
@pytest.mark.parametrize(("block", "piece"), [(4096, 64), (7, 3)])
@pytest.mark.parametrize("changes", [TIED, SEPARATE, BIASED], ids=["tied", "separate", "biased"])
def test_r_drop_and_its_gradients_are_those_of_the_paper(
    changes: dict[str, Any], block: int, piece: int, alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "_BLOCK", block)
    monkeypatch.setattr(loss_module, "_SLICE", piece)
    model, inputs = tiny(**changes, attention_dropout=0.4), batch()
    torch.manual_seed(5)
    expected = r_drop_by_the_paper(model, inputs, alpha)
    expected.backward()
    expected_gradients = gradients(model)
    torch.manual_seed(5)
    loss = TrainingObjective(model, 0.1, alpha)(*inputs)
    loss.backward()
    assert_close(loss, expected)
    assert_close(gradients(model), expected_gradients, tolerance=5e-5)
    torch.manual_seed(5)
    assert loss > TrainingObjective(model, 0.1, alpha / 10)(*inputs) + 0.1  # the passes do differ


# ---------------------------------------------------------------------------------------------- measuring


@pytest.mark.parametrize("changes", [TIED, SEPARATE, BIASED], ids=["tied", "separate", "biased"])
@pytest.mark.parametrize("block", [7, 4096])
def test_measuring_is_plain_cross_entropy_and_counts_the_most_probable(
    changes: dict[str, Any], block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, (source, target_input, target_output) = tiny(**changes).eval(), batch()
    real = target_output != PAD
    with torch.no_grad():
        logits = model(source, target_input)
    agreeing = (torch.arange(target_output.size(1)) % 3 == 0) & real  # a third of the targets are what the model says
    target_output = torch.where(agreeing, logits.argmax(dim=-1), target_output)
    monkeypatch.setattr(loss_module, "_BLOCK", block)
    loss, correct = measure(model, source, target_input, target_output)
    assert_close(loss, pytorchs(logits, target_output, 0.0))
    assert int(correct) == int((logits.argmax(dim=-1) == target_output)[real].sum())
    assert agreeing.sum() <= correct < real.sum()
