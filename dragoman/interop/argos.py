"""Argos Translate and LibreTranslate: a `.argosmodel` package, a zipped CTranslate2 model with its subwords."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

from dragoman.checkpoint import ModelFolder, imported_from
from dragoman.config import DragomanError
from dragoman.runtime.optional_imports import needed
from dragoman.text.subwords import JOINT_FILE

_ARGOS_VERSION = "1.10"  # the first that puts characters together which subwords spell in bytes

_ARGOS_CODES = {"fil": "tl", "no": "nb"}
_ARGOS_NAMES = {"pb": "Portuguese (Brazil)", "zt": "Chinese (traditional)"}


def argos_codes(loaded: ModelFolder) -> tuple[str, str]:
    """Both languages as Argos calls them: packages only join where they have the same codes.

    Raises:
        DragomanError: babel is not installed.
    """
    return _argos_code(loaded.direction.source), _argos_code(loaded.direction.target)


def package_name(loaded: ModelFolder, version: str) -> str:
    """The name that Argos itself would give the package, without its ending."""
    source, target = argos_codes(loaded)
    return f"translate-{source}_{target}-{version.replace('.', '_')}"


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
    codes = argos_codes(loaded)
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
        package.writestr(f"{folder}/metadata.json", json.dumps(metadata, indent=2) + "\n")  # read in any encoding
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


def _argos_code(code: str) -> str:
    """What Argos calls a language: by two letters where there are two, without its country."""
    babel, (language, *rest) = needed("babel", "argos"), code.replace("_", "-").split("-")
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
    babel = needed("babel", "argos")
    return _ARGOS_NAMES.get(code) or str(babel.Locale("en").languages.get(code, code))
