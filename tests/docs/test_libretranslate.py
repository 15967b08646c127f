"""The commands that lead from a model to Argos Translate and LibreTranslate, as the page prints them."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman.inference.translator import Translator
from tests.small_models import LINES, small_model
from tests.test_clean_environments import exported, run_the_card

# Folders of its own, so that nothing that Argos downloaded earlier helps.
ALONE = """
import os
os.environ |= {"XDG_DATA_HOME": "alone", "XDG_CONFIG_HOME": "alone", "XDG_CACHE_HOME": "alone"}
"""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "libretranslate.md"
pytest.importorskip("babel", reason="needs babel: pip install 'dragoman[argos]'")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_commands_lead_to_a_server_that_translates_offline(tmp_path: Path) -> None:
    package, argos, libre, request, newer = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S)
    small_model().save(tmp_path / "models" / "en-fr")
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "dragoman").write_text(f'#!/bin/sh\nexec {sys.executable} -m dragoman "$@" --sentences 3\n')
    (binaries / "dragoman").chmod(0o755)
    places = {f"XDG_{kind}_HOME": str(tmp_path / ".local" / kind.lower()) for kind in ("CONFIG", "CACHE")}
    path = os.pathsep.join([str(binaries), os.environ["PATH"]])
    root = str(PAGE.parents[1])
    environment = os.environ | places | {"HOME": str(tmp_path), "PATH": path, "PYTHONPATH": root}
    environment |= {"XDG_DATA_HOME": str(tmp_path / ".local" / "share")}
    # Not gigabytes of CUDA, and no bytecode of the thousands of modules that nobody imports.
    environment |= {"PIP_CONSTRAINT": f"{root}/constraints.txt", "PIP_COMPILE": "0"}

    def shell(commands: str) -> str:
        # the small model's languages are en and ne
        typed = commands.replace("en_fr", "en_ne").replace(" fr ", " ne ").replace("=fr", "=ne")
        done = subprocess.run(
            ["bash", "-ec", typed], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    shell(package)
    assert shell(argos).strip()
    argos_translates_what_dragoman_does(tmp_path / "argos" / "bin" / "python", tmp_path)
    install, _, serve = libre.rstrip().rpartition("\n")
    shell(install)
    server = subprocess.Popen(
        ["bash", "-c", serve.replace("en,fr", "en,ne")], cwd=tmp_path, env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(60):
            if (
                subprocess.run(["curl", "-s", "-o", os.devnull, "localhost:5000/languages"], check=False).returncode
                == 0
            ):
                break
            time.sleep(1)
        assert "translatedText" in shell(request)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()
    shell(newer)
    packages = tmp_path / ".local" / "share" / "argos-translate" / "packages"
    assert [path.name for path in packages.iterdir()] == ["translate-en_ne-1_1"]


def argos_translates_what_dragoman_does(python: Path, folder: Path) -> None:
    """The program of a package's card, with one vocabulary and with two, sentence by sentence."""
    for joint in (True, False):
        out = exported(folder / f"joint-{joint}", "argos", joint, "int8")
        (expected,) = Translator(small_model(joint)).translate(LINES[6:7])
        assert run_the_card(python, out, LINES[6], ALONE).strip() == expected.text
        sentences = ["The dog sees it.", "A bird sings!"]
        both, *each = (run_the_card(python, out, text, ALONE) for text in (" ".join(sentences), *sentences))
        assert both.split() == " ".join(each).split()
