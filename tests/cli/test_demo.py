"""The demo, as a user calls it."""

import os
import re
import shutil
from pathlib import Path

import pytest

from dragoman.cli.demo import demo
from dragoman.cli.main import main
from dragoman.cli.options import DemoConfig
from dragoman.inference.translator import Translator

SHOWN = {
    "Where is the station?": "Où est la gare ?",
    "Where is the station, please, madam?": "Où est la gare, s'il vous plaît, madame ?",
    "Where are the toilets?": "Où sont les toilettes ?",
    "I don't understand.": "Je ne comprends pas.",
    "I'd like to change some money.": "Je voudrais changer de l'argent.",
    "We have been married for twelve years.": "Nous sommes mariés depuis douze ans.",
}
"""What the demo, the README and the documents show, with the translations that readers expect."""
_ENOUGH_STEPS = 1400  # which all but slow or busy machines make in the demo's time
FINISHED = Path(os.environ.get("DRAGOMAN_DEMO", "none")).resolve()
"""What `make demo` has made, to save its training; resolved before a fixture changes the working folder."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_learns_to_translate_what_it_has_never_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if FINISHED.is_dir():
        shutil.copytree(FINISHED, tmp_path, dirs_exist_ok=True)
    assert demo(DemoConfig(out=str(tmp_path))) == 0
    output = capsys.readouterr().out
    recombined, everyday = map(float, re.findall(r"^BLEU ([\d.]+) on", output, re.M))
    translator = Translator.load(tmp_path / "en-fr")
    found = {line: one.text for line, one in zip(SHOWN, translator.translate(list(SHOWN)), strict=True)}
    if translator.direction.facts["steps"] >= _ENOUGH_STEPS:
        assert min(recombined - 10.0, everyday) >= 50.0
        assert found.items() >= SHOWN.items()
    else:
        assert min(recombined, everyday) >= 30.0
        assert len(found.items() & SHOWN.items()) >= len(SHOWN) / 2
    metrics = (tmp_path / "en-fr" / "metrics.jsonl").read_bytes()
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "en-fr" / "metrics.jsonl").read_bytes() == metrics, "a second run must not train again"
    assert capsys.readouterr().out == output
