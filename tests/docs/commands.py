"""The commands and programs of a page, and a shell to run them in."""

import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def blocks(page: Path, language: str) -> list[str]:
    """What stands between the fences of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def commands(page: Path) -> list[str]:
    """The lines of the ```sh fences of a page, continued lines joined."""
    return [line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines() if line.strip()]


@contextmanager
def background(command: str, folder: Path, address: str) -> Iterator[None]:
    """Run a server in a folder for as long as the block lasts, which begins when the address answers."""
    path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    running = subprocess.Popen(shlex.split(command), cwd=folder, env=os.environ | path, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with suppress(OSError), urllib.request.urlopen(address, timeout=10):
                break
            time.sleep(0.2)
        yield
    finally:
        running.terminate()
        running.wait(30)


def shell(command: str, folder: Path) -> str:
    """What a command prints that succeeds in a folder."""
    path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=os.environ | path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout
