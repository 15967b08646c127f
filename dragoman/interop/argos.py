"""Argos Translate and LibreTranslate: a `.argosmodel` package, a zipped CTranslate2 model with its subwords."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

from dragoman.checkpoint import ModelFolder, imported_from
from dragoman.config import DragomanError
from dragoman.extras import needed
from dragoman.text.subword import JOINT_FILE

_ARGOS_VERSION = "1.10"  # the first that puts characters together which subwords spell in bytes


def package_name(loaded: ModelFolder, version: str) -> str:
    """The name that Argos itself would give the package, without its ending."""
    direction = loaded.direction
    return f"translate-{direction.source}_{direction.target}-{version.replace('.', '_')}"


def write_package(loaded: ModelFolder, model: Path, path: Path, version: str, readme: str) -> None:
    """Write a package.

    Args:
        loaded: a model with one subword model for both languages.
        model: the folder of the same model for CTranslate2.
        path: the file to write.
        version: of the package, such as 1.0.
        readme: what the package says of itself.

    Raises:
        DragomanError: the model has a subword model for each language, or babel is not installed.
    """
    require_packable(loaded)
    codes = (loaded.direction.source, loaded.direction.target)
    metadata = {
        "package_version": version,
        "argos_version": _ARGOS_VERSION,
        "from_code": codes[0],
        "from_name": _english_name(codes[0]),
        "to_code": codes[1],
        "to_name": _english_name(codes[1]),
        "type": "translate",
    }
    folder, content = package_name(loaded, version), io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr(f"{folder}/metadata.json", json.dumps(metadata, indent=2, ensure_ascii=False) + "\n")
        package.writestr(f"{folder}/README.md", readme)
        package.writestr(f"{folder}/{JOINT_FILE}", loaded.vocabulary.source.serialized)
        for file in sorted(model.iterdir()):
            if file.name in ("config.json", "model.bin") or file.name.endswith("_vocabulary.json"):
                package.write(file, f"{folder}/model/{file.name}")
    path.write_bytes(content.getvalue())


def require_packable(loaded: ModelFolder) -> None:
    """Raise DragomanError unless one subword model serves both languages, and Babel is there to call them by name."""
    needed("babel", "argos")
    if not loaded.vocabulary.joint:
        other_way = "" if imported_from(loaded.direction.facts) else ", or train with --text.vocabulary joint"
        raise DragomanError(
            "an Argos package has one subword model for both languages, this model has one for each: export it with "
            f"--to ctranslate2{other_way}"
        )


def _english_name(code: str) -> str:
    babel = needed("babel", "argos")
    try:
        return str(babel.Locale.parse(code.replace("-", "_")).english_name)
    except (ValueError, babel.UnknownLocaleError):
        return code
