"""Model cards of exported folders, from `templates/`: what they are, a program that runs them, and the proof."""

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jinja2

from dragoman.checkpoint import ModelFolder
from dragoman.config import DragomanError, SearchConfig
from dragoman.folder import LONGEST_FACT
from dragoman.inference.translator import Translator
from dragoman.interop.argos import Package
from dragoman.interop.parity import Parity
from dragoman.interop.web import PACKAGE
from dragoman.text.languages import base_code, sentence_gap, target_tag

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("dragoman.interop"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # Markdown and Python
)
_TEMPLATES.filters["json"] = partial(json.dumps, ensure_ascii=False)
_LOOP = "\nimport json, sys\nfor text in json.load(sys.stdin):\n    print(json.dumps(translate(text)))\n"


def card(
    loaded: ModelFolder,
    target: str,
    quantization: str,
    parity: Parity,
    package: Package | None = None,
    example: str = "…",
    same: str = "",
) -> str:
    """README.md of a folder exported to this target, with the front matter that model hubs read.

    example is what its program translates; same is a sentence on how often the program agrees with Dragoman.
    """
    targets = loaded.direction.target.split(",")
    return _TEMPLATES.get_template(f"{target}.md.jinja").render(
        model=loaded,
        tag=target_tag(targets[-1]) if len(targets) > 1 else "",
        max_length=loaded.model.config.max_length,
        longest=loaded.direction.facts.get(LONGEST_FACT),
        language=base_code(loaded.direction.source.split(",")[0]),
        joiner=sentence_gap(targets[-1]),
        quantization=quantization,
        parity=parity,
        package=package,
        files=loaded.vocabulary.files(),
        symbols=loaded.vocabulary.has_symbols,
        runtime=PACKAGE,
        example=example,
        same=same,
    )


def compare_program(readme: str, folder: Path, loaded: ModelFolder, texts: Sequence[str]) -> str:
    """Run the program of a card in its folder; how often it prints the same as `dragoman translate`, in a sentence.

    Raises:
        DragomanError: the program fails.
    """
    program = readme.split("```python\n")[1].split("\nprint(translate(")[0]
    is_greedy = "greedily" in program
    command = [sys.executable, "-c", program + _LOOP]
    done = subprocess.run(command, input=json.dumps(list(texts)), cwd=folder, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise DragomanError(f"the program of the card fails ({last})")
    expected = Translator(loaded).translate(texts, SearchConfig(beam=1 if is_greedy else 4))
    pairs = zip(map(json.loads, done.stdout.splitlines()), expected, strict=True)
    same = sum(found == translation.text for found, translation in pairs)
    options = "--precision fp32" + " --beam 1" * is_greedy
    share = f"{same:,} of {len(texts):,}"
    return f"The program above printed what `dragoman translate {options}` prints for {share} of them."
