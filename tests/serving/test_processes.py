"""How a server stops. tests/cli/test_serve.py has the rest: signals, crowds, several processes."""

import http.client
import threading

import pytest

pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'dragoman[serve]'")

from starlette.responses import PlainTextResponse
from uvicorn import Config, Server

from dragoman.serving import processes
from tests.waiting import is_listening, wait_for


def test_open_connections_get_one_more_answer_before_they_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_FAREWELL_SECONDS", 3.0)
    monkeypatch.setattr(processes._Connection, "_stopping", False)
    server = Server(
        Config(PlainTextResponse("yes"), http=processes._Connection, port=0, lifespan="off", log_config=None)
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_for(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    new, used, idle = (http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(3))
    for connection in (new, used, idle):
        connection.connect()
    wait_for(lambda: len(server.server_state.connections) == 3)
    for connection in (used, idle):
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"yes"
    server.should_exit = True
    wait_for(lambda: not is_listening(port))
    for connection in (new, used):
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Connection"], answer.read()) == (200, "close", b"yes")
    thread.join(30)
    assert not thread.is_alive()
    assert idle.sock.recv(1) == b""
