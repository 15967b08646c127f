"""The web: a folder of static files that translates in the visitor's browser.

`model/` holds ONNX graphs, tokenizers and settings as transformers.js reads them for its MarianMTModel.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, PAD, ConfigError, DragomanError
from dragoman.inference.hypotheses import NEVER_WRITTEN
from dragoman.interop.huggingface import marian_config
from dragoman.interop.onnx import OnnxBackend, write_graphs
from dragoman.interop.parity import Backend
from dragoman.interop.tokenizer_json import tokenizer_json
from dragoman.runtime.files import checksum
from dragoman.runtime.optional_imports import import_optional
from dragoman.serving import page
from dragoman.text.languages import has_spaces, sentence_gap
from dragoman.text.placeholders import PATTERN

PACKAGE = "@huggingface/transformers@4.3.1"
ASSETS = {
    "@huggingface/transformers/dist/transformers.min.js": (
        "8d6716d9086f57c30a4bf367dba61b887593573c770c454465e8019b2703e743"
    ),
    "onnxruntime-web/dist/ort-wasm-simd-threaded.mjs": (
        "c57ca56328877353a575e51bbca6f18450027d6c9bf2307a2cb2c41363b4de9f"
    ),
    "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm": (
        "06ba057753da3847e4c24f02d91ab133455b0817c69a44993a9a53a2146df9e3"
    ),
}
"""What browsers need of `node_modules` once PACKAGE is installed there: SHA-256 by path."""
MODEL, RUNTIME = "model", "runtime"
"""Folders of a site: the model, and ASSETS."""
TOKENIZER, TARGET_TOKENIZER = "tokenizer.json", "target_tokenizer.json"
MANIFEST, SETTINGS = "manifest.webmanifest", "site.json"
ENCODER, DECODER = "encoder_model", "decoder_model_merged"
_SUFFIXES = {"float32": "", "int8": "_quantized"}


def write_model(loaded: ModelFolder, out: Path, quantization: str) -> None:
    """Write graphs, tokenizers and settings into a new folder; the weights in float32 or int8."""
    import_optional("tokenizers", "web")
    out.mkdir()
    vocabulary, config = loaded.vocabulary, loaded.model.config
    symbols = {"decoder_start_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    files: dict[str, dict[str, Any]] = {
        TOKENIZER: tokenizer_json(vocabulary.source),
        "config.json": marian_config(config) | {"vocab_size": config.target_vocab_size, "forced_eos_token_id": None},
        # transformers.js has no beam search: with more beams it would search greedily as well, but not say so.
        "generation_config.json": {"num_beams": 1, "suppress_tokens": NEVER_WRITTEN, **symbols},
    }
    if not vocabulary.joint:
        files[TARGET_TOKENIZER] = tokenizer_json(vocabulary.target)
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "onnx").mkdir()
    write_graphs(loaded.model, *_graph_files(out, quantization), quantization)


def _graph_files(folder: Path, quantization: str) -> tuple[Path, Path]:
    suffix = f"{_SUFFIXES[quantization]}.onnx"
    return folder / "onnx" / f"{ENCODER}{suffix}", folder / "onnx" / f"{DECODER}{suffix}"


def export(loaded: ModelFolder, folder: Path, quantization: str) -> Backend:
    """Write the model of a site into an empty folder, and load it from there."""
    write_model(loaded, folder / MODEL, quantization)
    return WebBackend(folder / MODEL, quantization)


class WebBackend(OnnxBackend):
    """Graphs and tokenizers of a site, run by onnxruntime and tokenizers instead of a browser, for the proof."""

    def __init__(self, folder: Path, quantization: str) -> None:
        self._open(*_graph_files(folder, quantization))
        tokenizers = import_optional("tokenizers", "web")
        self.exact = quantization == "float32"
        self.name = f"the graphs in {self.name}, tokenizers {tokenizers.__version__}"
        source, target = folder / TOKENIZER, folder / TARGET_TOKENIZER
        self._source = tokenizers.Tokenizer.from_file(str(source))
        self._target = tokenizers.Tokenizer.from_file(str(target)) if target.is_file() else self._source

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """As Backend.encode."""
        return [[*found.ids, EOS] for found in self._source.encode_batch(list(lines))]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """As Backend.decode."""
        return [self._target.decode([i for i in ids if i > EOS]).replace("\n", " ") for ids in sentences]

    def search(self, sources: list[list[int]], beam: int, limits: list[int]) -> list[list[int]]:
        """As Backend.search; with rounded weights one by one, as in a browser, or they would depend on each other."""
        size = len(sources) if self.exact else 1
        parts = [slice(start, start + size) for start in range(0, len(sources), size)]
        return [found for one in parts for found in super(WebBackend, self).search(sources[one], beam, limits[one])]


def check_assets(assets: str) -> None:
    """Refuse a `node_modules` folder, "" if there is none, without the files that a site is made for."""
    install = f"run npm install --ignore-scripts {PACKAGE} and name its node_modules with --assets"
    if not assets:
        raise ConfigError(f"--to web needs transformers.js: {install}")
    for path, expected in ((Path(assets, name), expected) for name, expected in ASSETS.items()):
        if not path.is_file() or checksum(path) != expected:
            state = f"not the one that comes with {PACKAGE}" if path.is_file() else "no such file"
            raise DragomanError(f"{path}: {state}; {install}")


def write_site(loaded: ModelFolder, folder: Path, assets: str, quantization: str) -> None:
    """Complete a folder that has a model: the page, what it loads, and what check_assets found in `node_modules`."""
    (folder / RUNTIME).mkdir()
    for path in (Path(assets, name) for name in ASSETS):
        shutil.copyfile(path, folder / RUNTIME / path.name)
    direction, config = loaded.direction, loaded.model.config
    title = f"{direction.source} → {direction.target}"
    files = page.files(static=True) | {"index.html": page.render(title, static=True).encode()}
    manifest = json.loads(files[MANIFEST]) | {"name": f"Dragoman {title}", "short_name": title}
    files[MANIFEST] = json.dumps(manifest, ensure_ascii=False).encode()
    heavy = [path for name in (MODEL, RUNTIME) for path in sorted((folder / name).rglob("*")) if path.is_file()]
    settings = {
        "source": _language(direction.source),
        "target": _language(direction.target),
        "joint": loaded.vocabulary.joint,
        "dtype": "fp32" if quantization == "float32" else "q8",
        "maxLength": config.max_length,
        "longest": min(config.max_length, direction.longest),
        "placeholders": javascript_pattern() if loaded.vocabulary.has_symbols else None,
        "light": sorted(files),
        "bytes": sum(path.stat().st_size for path in heavy if path.suffix not in (".js", ".mjs")),
        "version": hashlib.sha256("".join(map(checksum, heavy)).encode()).hexdigest()[:12],
    }
    files[SETTINGS] = json.dumps(settings, ensure_ascii=False).encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _language(code: str) -> dict[str, Any]:
    return {"language": code, "locale": code.replace("_", "-"), "spaced": has_spaces(code), "gap": sentence_gap(code)}


def javascript_pattern() -> str:
    """The pattern of placeholders as JavaScript writes it, for the flags g and u."""
    letters = r"\p{L}\p{N}_"
    pattern = re.sub(r"(?<!\\)#.*|\s+", "", PATTERN)
    pattern = re.sub(r"\[[^\]]+\]", lambda found: found[0].replace(r"\w", letters), pattern)
    pattern = re.sub(r"\\U000(\w{5})", r"\\u{\1}", pattern.replace(r"\w", f"[{letters}]"))
    return pattern.replace(r"\#", "#")
