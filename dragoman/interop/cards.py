"""Model cards of exported folders, from `templates/`: what they are, a program that runs them, and the proof."""

from __future__ import annotations

import json

import jinja2

from dragoman.checkpoint import ModelFolder
from dragoman.interop.argos import Package
from dragoman.interop.parity import Parity
from dragoman.text.subwords import JOINT_FILE, LIST_FILE, SOURCE_FILE, TARGET_FILE, TARGET_LIST_FILE

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("dragoman.interop"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # Markdown and Python
)
_TEMPLATES.filters["json"] = json.dumps


def card(
    loaded: ModelFolder,
    target: str,
    quantization: str,
    parity: Parity,
    package: Package | None = None,
) -> str:
    """README.md of an exported folder, with the front matter that model hubs read.

    Args:
        loaded: the model.
        target: ctranslate2, huggingface, argos or onnx.
        quantization: how the weights are stored.
        parity: the proof.
        package: for Argos.
    """
    files = loaded.vocabulary.files()
    return _TEMPLATES.get_template(f"{target}.md.jinja").render(
        model=loaded,
        max_length=loaded.model.config.max_length,
        quantization=quantization,
        parity=parity,
        package=package,
        source_model=JOINT_FILE if loaded.vocabulary.joint else SOURCE_FILE,
        target_model=JOINT_FILE if loaded.vocabulary.joint else TARGET_FILE,
        listed=LIST_FILE in files,  # subwords that are numbered by a list beside SentencePiece's models, as Marian's
        source_list=LIST_FILE,
        target_list=TARGET_LIST_FILE if TARGET_LIST_FILE in files else LIST_FILE,
    )
