"""The speed benchmark's own parts: what it compares must be the same work, and who fails must not stop the others."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from dragoman import ModelConfig, SearchConfig, Transformer, Translator
from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, PAD, UNK, OptimizerConfig, TextConfig
from dragoman.folder import Direction
from dragoman.text.subwords import Vocabulary
from dragoman.training.distributed import Processes
from dragoman.training.loss import label_smoothed_cross_entropy
from dragoman.training.step import Stepper
from tests.sample_run import sentences
from tests.training.small_runs import configure, random_batch, share

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import gpu
import operations
import speed
from peers import batches, convert, decoding_contest, sessions, training_contest
from peers.annotated import AnnotatedTransformer, smoothed_divergence
from peers.settings import Settings
from peers.shape import step_flops
from peers.stepping import smoothed_cross_entropy, torch_step
from peers.text import choose_batches, prepare
from peers.torch_transformer import TorchTransformer

CONFIG = ModelConfig(
    d_model=16,
    d_ff=24,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=2,
    max_length=64,
    source_vocab_size=300,
    target_vocab_size=300,
)
SHAPE = training_contest.shape_of(CONFIG)


def random_model() -> Transformer:
    torch.manual_seed(3)
    model = Transformer(CONFIG).eval()
    for parameter in model.parameters():  # biases and LayerNorms must matter
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def plain_weights(model: Transformer) -> dict[str, Tensor]:
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return weights | {convert.POSITIONS: model.source_positions.table.clone()}


def example() -> batches.Arrays:
    source = np.array([[7, 8, 9, EOS], [5, EOS, PAD, PAD]])
    target = np.array([[11, 12, EOS, PAD], [13, 14, 15, EOS]])
    shifted = np.concatenate((np.full((2, 1), BOS), target[:, :-1]), axis=1)
    return batches.Arrays(source, shifted * (target != PAD), target)


def test_the_workers_know_the_packages_constants() -> None:
    assert (batches.PAD, batches.UNK, batches.BOS, batches.EOS) == (PAD, UNK, BOS, EOS)
    defaults = OptimizerConfig()
    assert (defaults.beta1, defaults.beta2) == batches.BETAS
    assert (defaults.epsilon, defaults.clip_norm) == (batches.EPSILON, batches.CLIP_NORM)
    assert defaults.label_smoothing == batches.LABEL_SMOOTHING


def test_batches_come_from_the_whole_range_of_lengths(tmp_path: Path) -> None:
    for part, count in (("train", 400), ("val", 4)):
        for side, language in enumerate(("en", "de")):
            lines = [f"{pair[side]} " * (1 + i % 8) for i, pair in enumerate(sentences(count))]
            (tmp_path / f"{part}.{language}").write_text("\n".join(lines) + "\n")
    store = prepare(tmp_path, tmp_path / "work").train
    chosen = choose_batches(store, 3, limit=512)
    widths = [max(batch.source.shape[1], batch.target_output.shape[1]) for batch in chosen]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]
    for batch in chosen:
        assert batch.source.shape[1] % 4 == 0
        assert len(batch.source) * batch.source.shape[1] <= 4096
        assert (batch.target_input[:, 0] == BOS).all()


def test_operations_are_counted_as_pytorch_counts_them() -> None:
    batch = random_batch([(8, 12)] * 3)
    stepper = Stepper(Transformer(CONFIG), configure(Path("nowhere")), False, Processes())
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # others are counted on GPUs alone
        stepper.gradients(share(batch), print)
    arrays = batches.Arrays(batch.source, batch.target_input, batch.target_output)
    assert step_flops(SHAPE, [arrays]) == counter.get_total_flops()
    assert step_flops(SHAPE, [arrays, arrays]) == 2 * counter.get_total_flops()
    padded = batches.Arrays(*(np.pad(x, ((0, 2), (0, 3)), constant_values=PAD) for x in vars(arrays).values()))
    assert step_flops(SHAPE, [padded]) == step_flops(SHAPE, [arrays]), "padding does not count"


def test_every_kind_of_operation_takes_some_of_a_step() -> None:
    kinds = operations.shares("tiny", bf16=False, steps=1)
    assert sum(kinds.values()) == pytest.approx(100)
    assert all(kinds.values())  # no name of an operation is out of date
    assert operations.kind_of("aten::_log_softmax") == "softmax and loss" != operations.kind_of("aten::clone")


def test_the_annotated_transformer_is_the_same_function() -> None:
    model, peer, arrays = random_model(), AnnotatedTransformer(SHAPE).eval(), example()
    peer.load_state_dict(convert.to_annotated(plain_weights(model)))
    source, target_input = torch.from_numpy(arrays.source), torch.from_numpy(arrays.target_input)
    real = torch.from_numpy(arrays.target_output) != PAD
    ours, theirs = model(source, target_input).log_softmax(dim=-1), peer(source, target_input)
    torch.testing.assert_close(theirs[real], ours[real], rtol=1e-4, atol=1e-4)


def test_torchs_transformer_is_the_same_function() -> None:
    model, peer, arrays = random_model(), TorchTransformer(SHAPE).eval(), example()
    peer.load_state_dict(convert.to_torch(plain_weights(model)))
    source, target_input = torch.from_numpy(arrays.source), torch.from_numpy(arrays.target_input)
    real = torch.from_numpy(arrays.target_output) != PAD
    ours = model(source, target_input)
    torch.testing.assert_close(peer(source, target_input)[real], ours[real], rtol=1e-4, atol=1e-4)
    peer.train()  # another path through PyTorch; without dropout the same
    peer.dropout.p = 0.0
    dropouts = [m for m in peer.modules() if isinstance(m, torch.nn.Dropout)]
    assert sum(m.p > 0 for m in dropouts) == 2 + 3 * 2, "sub-layers' outputs alone are dropped"
    for module in dropouts:
        module.p = 0.0
    torch.testing.assert_close(peer(source, target_input)[real], ours[real], rtol=1e-4, atol=1e-4)


def test_the_losses_are_the_same_or_nearly() -> None:
    torch.manual_seed(5)
    logits, target = torch.randn(2, 4, 300), torch.from_numpy(example().target_output)
    loss, count = label_smoothed_cross_entropy(logits, target, batches.LABEL_SMOOTHING)
    assert float(smoothed_cross_entropy(logits, target)) == pytest.approx(float(loss) / count, rel=1e-5)
    # The Annotated Transformer's divergence lacks the smoothed targets' own entropy and gives PAD no share.
    eps, others = batches.LABEL_SMOOTHING, 298
    entropy = -(1 - eps) * math.log(1 - eps) - eps * math.log(eps / others)
    divergence = float(smoothed_divergence(logits.log_softmax(dim=-1), target))
    assert divergence + entropy == pytest.approx(float(loss) / count, rel=0.01)


def test_a_step_of_plain_pytorch_learns() -> None:
    torch.manual_seed(1)
    model = TorchTransformer(SHAPE)

    def loss(source: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        return smoothed_cross_entropy(model(source, target_input), target_output)

    ids = [torch.from_numpy(x) for x in (example().source, example().target_input, example().target_output)]
    before = loss(*ids).item()
    session = sessions.TrainingSession(torch_step(model.parameters(), loss, bf16=False), [example()], {})
    answers = [session.measure({"do": "steps"}) for _ in range(20)]
    assert loss(*ids).item() < before
    assert answers[0]["tokens"] == 7
    assert answers[0]["seconds"] > 0


def settings(folder: Path, **changes: object) -> Settings:
    options = speed.parse([str(folder), "--work", str(folder), "--model", str(folder / "model"), "--threads", "2"])
    found = speed.settings_from(options)
    return Settings(**{**found.__dict__, **changes})  # type: ignore[arg-type]


def plain_model(tmp_path: Path) -> tuple[Translator, Path]:
    """A random model as its folder, and as export makes it for the peers."""
    pairs = sentences(40)
    vocabulary = Vocabulary.learn(
        ([s for s, _ in pairs], [t for _, t in pairs]), TextConfig(vocab_size=300, placeholders=0.0)
    )
    assert len(vocabulary.source) == CONFIG.source_vocab_size
    folder = ModelFolder(random_model(), vocabulary, Direction("en", "de"))
    folder.save(tmp_path / "model")
    plain, _ = decoding_contest.make_model(settings(tmp_path, report=lambda line: None))
    return Translator.load(tmp_path / "model", "cpu", precision="fp32"), plain


def test_the_exported_model_is_complete(tmp_path: Path) -> None:
    _, plain = plain_model(tmp_path)
    shape, weights = convert.read_plain(plain)
    assert shape == SHAPE
    inside = [name for name in weights if name not in (convert.EMBEDDING, convert.POSITIONS)]
    assert len(list(convert.of_layers(weights))) == len(inside)
    for state in (convert.to_marian(weights), convert.to_joeynmt(weights)):
        tensors = [t for name, t in state.items() if ".layers." in name]
        assert sum(t.numel() for t in tensors) == sum(weights[name].numel() for name in inside)
    embedding = convert.to_joeynmt(weights)["src_embed.lut.weight"]
    assert (embedding[PAD] == weights[convert.EMBEDDING][UNK]).all()


def test_marian_translates_the_same(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from peers import marian

    translator, plain = plain_model(tmp_path)
    check_translations(translator, plain, marian.prepare_decoding)


def test_ctranslate2_translates_the_same(tmp_path: Path) -> None:
    from peers import ctranslate2_peer

    translator, plain = plain_model(tmp_path)
    check_translations(translator, plain, ctranslate2_peer.prepare)


def check_translations(translator: Translator, plain: Path, prepare_peer: object) -> None:
    """One line at a time: then the limits of the lengths are the same, too, which random models run into."""
    sources = [source for source, _ in sentences(6)]
    request = {"task": "decoding", "plain": str(plain), "precision": "fp32", "workers": 1, "threads": 1}
    request |= {"sources": sources, "beams": [1, 4], "length_penalty": 0.0}
    session = prepare_peer(request)  # type: ignore[operator]
    for beam in (1, 4):
        found = translator.translate(sources, SearchConfig(beam=beam, length_penalty=0.0, batch_tokens=1))
        assert session.measure({"beam": beam, "each": True})["lines"] == [t.text for t in found]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_benchmark_of_a_gpu_runs_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "MODULES", {gpu.OURS: "dragoman_worker", "nn.Transformer": "torch_transformer"})
    plain_model(tmp_path)
    for side, language in enumerate(("en", "de")):
        lines = [pair[side] for pair in sentences(4)]
        (tmp_path / f"{decoding_contest.TEST}.{language}").write_text("\n".join(lines) + "\n")
    options = f"{tmp_path} --model {tmp_path / 'model'} --work {tmp_path} --device cpu --tiny --sizes base"
    assert gpu.main([*options.split(), "--batch-tokens", "100", "--repeats", "1"]) == 0
    captured = capsys.readouterr()
    assert "left out" not in captured.err
    printed = {line.rsplit("  ", 4)[0].strip() for line in captured.out.splitlines()}
    for name in ("dragoman", "nn.Transformer", "dragoman bf16", "ctranslate2 fp32"):
        assert any(line.startswith(f"{name} ") for line in printed), name
