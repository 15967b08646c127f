import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.inference.translator import Translator
from tests.small_models import LINES, small_model
from tests.waiting import is_listening, wait_for

EXPECTED: dict[str, str] = {}  # answer to BODY, once there are models
BODY = json.dumps({"q": LINES[3], "source": "en", "target": "ne"}).encode()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model folders: right, and wrong, which has other languages."""
    place = tmp_path_factory.mktemp("models")
    loaded = small_model()
    EXPECTED["translatedText"] = Translator(loaded).translate([LINES[3]])[0].text
    loaded.save(place / "right")
    replace(loaded, direction=replace(loaded.direction, target="xx")).save(place / "other")
    return place


@contextmanager
def served(*arguments: object) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A running `dragoman serve` and its port."""
    words = [sys.executable, "-m", "dragoman", "serve", *map(str, arguments), "--precision", "fp32", "--port", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "2"})
    assert process.stderr
    try:
        while not (line := process.stderr.readline()).startswith(b"translating at"):
            assert line, "it ended"
        port = int(line.split(b":")[2].split()[0])
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield process, port
    finally:
        process.kill()
        process.wait()


def ask(port: int, path: str = "/translate", body: bytes | None = BODY) -> dict[str, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())  # type: ignore[no-any-return]


def keep_asking(port: int, ending: threading.Event, wrong: list[object]) -> None:
    """Ask again and again on open connections, as clients do, until the server accepts no more."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        is_new = connection.sock is None
        try:
            connection.connect() if is_new else None
        except OSError:
            return  # not accepted
        try:
            connection.request("POST", "/translate", BODY, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200 or json.loads(text) != EXPECTED:
                wrong.append((answer.status, text))
        except (OSError, http.client.HTTPException) as error:
            if not (is_new and ending.is_set()):  # a new connection may wait when the server stops to accept any
                wrong.append(error)
            return


@pytest.mark.slow
def test_sigterm_answers_what_was_accepted_and_sighup_loses_nothing(models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(models / "right", folder)
    with served(folder) as (process, port):
        assert ask(port) == EXPECTED
        ending, wrong = threading.Event(), list[object]()
        clients = [threading.Thread(target=keep_asking, args=(port, ending, wrong)) for _ in range(16)]
        for client in clients:
            client.start()
        shutil.rmtree(folder)
        shutil.copytree(models / "right", folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "facts": {"new": True}}))
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: (folder / "ctranslate2").is_dir())
        time.sleep(1.5)
        assert not wrong
        ending.set()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        for client in clients:
            client.join(60)
        assert not wrong


def test_several_directions_and_processes(models: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("secret\n")
    options = ["--processes", 2, "--api-keys", tmp_path / "keys"]
    with served(models / "right", models / "other", *options) as (process, port):
        body = {**json.loads(BODY), "api_key": "secret"}
        for target in ("ne", "xx"):
            assert ask(port, body=json.dumps({**body, "target": target}).encode()) == EXPECTED
        metrics, both = f"http://127.0.0.1:{port}/metrics", b'requests_total{path="/translate",status="200"} 2.0'
        wait_for(lambda: both in urllib.request.urlopen(metrics, timeout=20).read())  # counted after the answer
        process.kill()  # its processes end too, and the port is free
        wait_for(lambda: not is_listening(port))


@pytest.mark.parametrize("seconds", [0, 0.5])
def test_ctrl_c_while_it_starts_ends_it_without_a_word(models: Path, seconds: float) -> None:
    words = [sys.executable, "-m", "dragoman", "serve", str(models / "right"), "--port", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stderr
    while not (line := process.stderr.readline()).startswith(b"translating at"):
        assert line, "it ended"
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all its processes
    assert b"Traceback" not in process.stderr.read()
    assert process.wait(60) == 0


def test_what_is_wrong_is_said_before_anything_is_served(
    models: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for words, message in (
            ([models], f"name a model in it: {models / 'other'}, {models / 'right'}"),
            ([models / "right", models / "right"], "two models translate from en to ne"),
            ([models / "right", "--api-keys", tmp_path / "keys"], "has no key"),
            ([models / "right", "--port", taken.getsockname()[1]], "can't listen there"),
            ([models / "right", "--host", "nowhere.invalid"], "can't listen there"),
        ):
            assert main(["serve", *map(str, words)]) == 1
            assert message in capfd.readouterr().err.strip().splitlines()[-1]
