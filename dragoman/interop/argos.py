"""Argos Translate and LibreTranslate: a `.argosmodel` package, a zipped CTranslate2 model with its helpers."""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

from dragoman.checkpoint import ModelFolder
from dragoman.interop.sentence_ends import build_splitter
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.languages import english_name
from dragoman.text.subwords import JOINT_FILE

PACKAGE_SUFFIX = ".argosmodel"
_ARGOS_VERSION = "1.10"  # the first that joins characters which subwords spell in bytes
_ARGOS_CODES = {"fil": "tl", "no": "nb"}
_ARGOS_NAMES = {"pb": "Portuguese (Brazil)", "zt": "Chinese (traditional)"}


@dataclass(frozen=True)
class Package:
    """What a package says about itself; its languages have Argos's codes, which let it join other packages."""

    name: str
    file: str
    version: str
    source: str
    target: str
    tag: str = ""
    """What the model puts before each source, if it has several target languages."""


def plan_package(loaded: ModelFolder, version: str, file: str = "", tag: str = "") -> Package:
    """The package of a model; its file has Argos's own name unless another one is given."""
    source, target = _argos_code(loaded.direction.source), _argos_code(loaded.direction.target)
    name = f"translate-{source}_{target}-{version.replace('.', '_')}"
    return Package(name, file or f"{name}{PACKAGE_SUFFIX}", version, source, target, tag)


def write_package(package: Package, loaded: ModelFolder, model: Path, folder: Path, readme: str) -> None:
    """Write a package into a folder, with the card `readme`; `model` is the same model for CTranslate2."""
    metadata = {
        "package_version": package.version,
        "argos_version": _ARGOS_VERSION,
        "from_code": package.source,
        "from_name": _english_name(package.source),
        "to_code": package.target,
        "to_name": _english_name(package.target),
        "type": "translate",
    }
    subwords = loaded.vocabulary.source
    words = (piece.removeprefix("▁") for piece in subwords.pieces(range(len(subwords))))
    splitter = build_splitter(loaded.direction.source, words)
    with zipfile.ZipFile(folder / package.file, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{package.name}/metadata.json", json.dumps(metadata, indent=2) + "\n")  # ASCII: any encoding
        file.writestr(f"{package.name}/README.md", readme)
        # Argos reads and joins subwords with one model; to join them, it need not know them.
        file.writestr(f"{package.name}/{JOINT_FILE}", subwords.serialized)
        file.writestr(f"{package.name}/minisbd/{package.source}.onnx", splitter)
        for path in sorted(model.iterdir()):
            if path.name in ("config.json", "model.bin") or path.name.endswith("_vocabulary.json"):
                file.write(path, f"{package.name}/model/{path.name}")


def _argos_code(code: str) -> str:  # two letters if there is such a code, without the country
    babel, (language, *rest) = import_optional("babel", "argos"), code.replace("_", "-").split("-")
    try:
        locale = babel.Locale.parse("_".join([language, *rest]))
    except (ValueError, babel.UnknownLocaleError):
        return code
    if locale.language == "pt" and "BR" in map(str.upper, rest):
        return "pb"
    if locale.language == "zh" and locale.script == "Hant":
        return "zt"
    return _ARGOS_CODES.get(locale.language, str(locale.language))


def _english_name(code: str) -> str:
    return _ARGOS_NAMES.get(code) or english_name(code)
