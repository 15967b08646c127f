import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice

import pytest

from tests.serving.fakes import Server, Upside, serving

ASKED = {"q": "a b", "source": "en", "target": "de"}


def send(server: Server, content: bytes, then: Callable[[socket.socket], None] = lambda connection: None) -> bytes:
    """What the server answers to raw bytes, and to what comes then."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(content)
        then(connection)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def post(length: int) -> bytes:
    head = "POST /translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {length}\r\n\r\n".encode()


def test_what_is_too_large_is_refused_and_heard() -> None:
    with serving(Upside(), max_kilobytes=10) as server:
        refused = server.ask("/translate", b"x" * 100_000)
        assert (refused.status, refused.json) == (413, {"error": "The request has more than 10 kB"})
        assert server.ask("/translate", ASKED).json == {"translatedText": "B A"}


def test_overload_is_refused_at_once_and_the_accepted_are_answered() -> None:
    translator = Upside(hold=threading.Event())
    with serving(translator, max_requests=4) as server, ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(server.ask, "/translate", {**ASKED, "q": f"a {number}"}) for number in range(12)]
        refused = [answered.result() for answered in islice(as_completed(asked), 8)]  # while the others are held
        assert {answer.status for answer in refused} == {503}
        assert refused[0].headers["Retry-After"] == "1"
        assert "busy" in refused[0].json["error"]
        translator.hold.set()  # type: ignore[union-attr]
        assert Counter(answered.result().status for answered in asked) == {200: 4, 503: 8}
        assert server.ask("/translate", ASKED).status == 200


def test_pages_and_health_are_answered_under_overload() -> None:
    translator = Upside(hold=threading.Event())
    with serving(translator, max_requests=1) as server, ThreadPoolExecutor() as pool:
        first = pool.submit(server.ask, "/translate", ASKED)
        while not translator.calls:
            time.sleep(0.01)
        assert server.ask("/health").status == server.ask("/").status == 200
        assert b"dragoman_requests_in_flight 1.0" in server.ask("/metrics").body
        translator.hold.set()  # type: ignore[union-attr]
        assert first.result().status == 200


def test_a_translation_that_takes_too_long_is_given_up() -> None:
    translator = Upside(hold=threading.Event())
    with serving(translator, max_seconds=1) as server:
        refused = server.ask("/translate", ASKED)
        assert (refused.status, refused.json) == (504, {"error": "The translation took more than 1 seconds"})
        translator.hold.set()  # type: ignore[union-attr]
        assert server.ask("/translate", ASKED).status == 200


def test_slow_and_half_closed_senders_harm_nobody() -> None:
    with serving(Upside(), max_seconds=3, max_requests=1) as server:
        body = json.dumps(ASKED).encode()
        with ThreadPoolExecutor(20) as pool:
            slow = [pool.submit(send, server, post(len(body)) + body[:10]) for _ in range(20)]
            time.sleep(0.1)
            assert server.ask("/translate", ASKED).status == 200  # none of them counts
            assert all(b" 408 " in one.result() for one in slow)
        whole = post(len(body)) + body
        send(server, whole[:60], lambda connection: connection.shutdown(socket.SHUT_WR))
        send(server, whole, lambda connection: connection.shutdown(socket.SHUT_WR))
        # That one may count for a moment after its client has left.
        assert any(b" 200 " in send(server, whole) for _ in range(100))
        assert b" 400 " in send(server, b"NONSENSE\r\n\r\n")


def test_the_log_has_no_texts(capfd: pytest.CaptureFixture[str]) -> None:
    with serving(Upside()) as server:
        server.ask("/translate?q=secret&source=en&target=de", {**ASKED, "q": "secret"})
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [("POST", "/translate", 200)]
    assert 0 < lines[0]["ms"] < 5000
    assert "secret" not in str(lines)


def test_other_origins_are_let_in_by_name() -> None:
    with serving(Upside(), cors=["https://ours.example"]) as server:
        for origin, allowed in (("https://ours.example", "https://ours.example"), ("https://other.example", None)):
            for asked in (ASKED, ASKED | {"q": "x" * 2**22}):  # also what is refused can be read
                answer = server.ask("/translate", asked, Origin=origin)
                assert answer.headers["Access-Control-Allow-Origin"] == allowed
