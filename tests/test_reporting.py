"""Lines about progress come now and then."""

from __future__ import annotations

import pytest

from dragoman.reporting import NowAndThen


def test_a_line_is_passed_on_where_enough_seconds_have_gone_by(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = [100.0], list[str]()
    monkeypatch.setattr("dragoman.reporting.time.monotonic", lambda: clock[0])
    tell = NowAndThen(said.append, seconds=5.0)
    for now in (101.0, 104.9, 105.0, 106.0, 109.9, 117.0, 121.0, 122.0):
        clock[0] = now
        tell(f"{now:g}")
    assert said == ["105", "117", "122"]
