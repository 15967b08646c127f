"""Waiting for what another thread or process does."""

import http.client
import time
from collections.abc import Callable


def wait_for(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_listening(port: int) -> bool:
    try:
        http.client.HTTPConnection("127.0.0.1", port, timeout=10).connect()
    except ConnectionRefusedError:
        return False
    return True
