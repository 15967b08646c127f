"""The static site: its graphs answer as the model does, and its folder has what a browser needs.

PyTorch takes about ten seconds to export a model; test_web_browser.py runs a site in a real browser.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, PAD, ConfigError, DragomanError
from dragoman.interop import onnx, web
from dragoman.interop.parity import Sample, prove
from dragoman.text.batches import pad_right
from tests.small_models import LINES, TARGETS, small_model

for module in ("onnxruntime", "onnxscript", "tokenizers"):
    pytest.importorskip(module, reason=f"needs {module}: pip install 'dragoman[web]'")


KINDS: list[dict[str, Any]] = [
    {},
    {"joint": False, "norm": "pre", "positions": "learned", "activation": "swish", "softmax_bias": True},
    {"positions": "halves", "activation": "gelu", "tie_softmax": False, "softmax_bias": True, "num_decoder_layers": 1},
]


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_the_graphs_compute_the_logits_and_the_attention_of_the_model(settings: dict[str, Any]) -> None:
    loaded = small_model(**settings)
    model, vocabulary = loaded.model, loaded.vocabulary
    source = torch.from_numpy(pad_right([[*ids, EOS] for ids in vocabulary.source.encode(LINES[5:8])], 64))
    target = torch.from_numpy(pad_right([[BOS, *ids] for ids in vocabulary.target.encode(TARGETS[5:8])], 64))
    maps: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        expected = model(source, target, maps)
        mask = (source != PAD).long()
        memory = onnx.EncoderGraph(model)(source, mask)
        decoder, past = onnx.DecoderGraph(model), [torch.zeros(3, 4, 0, 8)] * (2 * len(model.decoder.layers))
        steps = []
        for place in range(target.size(1)):
            logits, weights, *past = decoder(mask, target[:, place : place + 1], memory, *past)
            steps.append((logits, weights))
    logits, weights = (torch.cat(rows, dim=1) for rows in zip(*steps, strict=True))
    torch.testing.assert_close(logits, expected, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(
        weights, maps[f"decoder.{len(model.decoder.layers) - 1}.cross_attention"].mean(dim=1), atol=1e-5, rtol=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_the_written_graphs_and_tokenizers_answer_alike(settings: dict[str, Any], tmp_path: Path) -> None:
    loaded = small_model(**settings)
    backend = web.export(loaded, tmp_path, "float32")
    parity = prove(loaded, backend, Sample(LINES[:12], LINES[:12], "lines"))
    assert parity.passed, parity
    assert parity.identical == {"1": 12, "4": 12}
    assert parity.logits == "logits"
    assert parity.largest_difference < 1e-4


@pytest.mark.slow
def test_8_bits_are_a_quarter_of_the_size_with_one_table_and_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    loaded = small_model(d_model=128)
    backend = web.export(loaded, tmp_path, "int8")
    graphs = sorted((tmp_path / "model" / "onnx").iterdir())
    assert [path.name for path in graphs] == ["decoder_model_merged_quantized.onnx", "encoder_model_quantized.onnx"]
    learned = [*loaded.model.decoder.parameters(), loaded.model.softmax.weight]
    bytes_ = sum(weight.numel() for weight in learned) + 4 * loaded.model.target_positions.table.numel()
    assert graphs[0].stat().st_size < 1.3 * bytes_
    parity = prove(loaded, backend, Sample(LINES[:12], LINES[:12], "lines"))
    assert parity.passed, parity
    assert not parity.exact
    assert parity.identical["1"] >= 10
    sources = backend.encode(LINES[:9])
    limits = [40 for _ in sources]
    assert backend.search(sources, 1, limits) == [backend.search([source], 1, [40])[0] for source in sources]


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node_modules folder whose files pass for the pinned ones."""
    folder = tmp_path / "node_modules"
    for name in web.ASSETS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    monkeypatch.setattr(web, "ASSETS", {name: hashlib.sha256(name.encode()).hexdigest() for name in web.ASSETS})
    return folder


def write(loaded: ModelFolder, folder: Path, assets: Path) -> dict[str, Any]:
    """Write a site without a model, and return its settings."""
    folder.mkdir()
    (folder / "model").mkdir()
    (folder / "model" / "model.onnx").write_bytes(b"weights")
    web.write_site(loaded, folder, str(assets), "int8")
    return json.loads((folder / "site.json").read_text())  # type: ignore[no-any-return]


def test_a_site_has_everything_that_it_asks_for(assets: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    settings = write(small_model(symbols=True), site, assets)
    scripts = [path.read_text() for path in site.glob("*.js")]
    for name in re.findall(r'"(?:\./)?((?:runtime/)?[\w.-]+\.(?:js|mjs|wasm|json))"', "".join(scripts)):
        assert name in ("tokenizer.json", "target_tokenizer.json") or (site / name).is_file()
    for name in re.findall(r'(?:src|href)="([^":]+)"', (site / "index.html").read_text()):
        assert (site / name).is_file()
    assert {path.name for path in site.iterdir()} == {*settings["light"], "site.json", "model", "runtime"}
    assert {path.name for path in (site / "runtime").iterdir()} == {Path(name).name for name in web.ASSETS}
    (wasm,) = (site / "runtime").glob("*.wasm")
    assert settings["bytes"] == len(b"weights") + wasm.stat().st_size
    assert json.loads((site / "manifest.webmanifest").read_text())["name"] == "Dragoman en → ne"


def test_another_model_has_another_version(assets: Path, tmp_path: Path) -> None:
    first, same = (write(small_model(), tmp_path / name, assets)["version"] for name in "ab")
    assert first == same
    (assets / next(iter(web.ASSETS))).write_text("another")
    assert write(small_model(), tmp_path / "c", assets)["version"] != first


def test_other_files_than_the_pinned_ones_are_refused(assets: Path) -> None:
    web.check_assets(str(assets))
    install = re.escape(f"run npm install --ignore-scripts {web.PACKAGE} and name its node_modules with --assets")
    with pytest.raises(ConfigError, match=install):
        web.check_assets("")
    for name in web.ASSETS:
        (assets / name).write_text("of another version")
        with pytest.raises(DragomanError, match=rf"{re.escape(name)}: not the one that comes with .*{install}"):
            web.check_assets(str(assets))
        (assets / name).unlink()
        with pytest.raises(DragomanError, match=rf"{re.escape(name)}: no such file; {install}"):
            web.check_assets(str(assets))
        (assets / name).write_text(name)
