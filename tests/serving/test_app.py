import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException
from libretranslatepy import LibreTranslateAPI

from dragoman.config import DragomanError
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.serving.limits import Keys
from tests.serving.fakes import Server, Upside, serving
from tests.small_models import LINES, small_model

FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(Upside(), Upside("de", "fr"), Upside("pt-BR", "de"), pivot=True) as running:
        yield running


def ask(server: Server, **content: Any) -> Any:
    answer = server.ask("/translate", {"source": "en", "target": "de", **content})
    return answer.json if answer.status == 200 else (answer.status, answer.json["error"])


# ---- LibreTranslate's API


def test_a_text_a_list_and_alternatives(server: Server) -> None:
    assert ask(server, q="a b\nc") == {"translatedText": "B A\nC"}
    assert ask(server, q=["a b", ""]) == {"translatedText": ["B A", ""]}
    assert ask(server, q="a b", alternatives=2) == {"translatedText": "B A", "alternatives": ["B A!", "B A!!"]}
    assert ask(server, q=["a", "b"], alternatives=1) == {"translatedText": ["A", "B"], "alternatives": [["A!"], ["B!"]]}
    assert ask(server, q="a b", format="", api_key=None) == {"translatedText": "B A"}


def test_forms_of_both_kinds_and_parameters_in_the_address(server: Server) -> None:
    expected = {"translatedText": "B É A\nC"}
    assert server.ask("/translate", "q=a+é+b%0D%0Ac&source=en&target=de".encode(), FORM).json == expected
    assert server.ask("/translate?q=a+%C3%A9+b%0Ac&source=en&target=de", b"", FORM).json == expected
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("q", "a é b\r\nc"), ("source", "en"), ("target", "de"))
    )
    assert server.ask("/translate", f"{parts}--x--\r\n".encode(), "multipart/form-data; boundary=x").json == expected


def test_markup(server: Server) -> None:
    found = ask(server, q=["<p>a <b>b</b></p>", "c &lt; d"], format="html", alternatives=1)
    assert found == {"translatedText": ["<p><b>B</b> A</p>", "D &lt; C"], "alternatives": [[], []]}


def test_languages_are_found_by_their_codes_and_joined_by_a_third(server: Server) -> None:
    assert server.ask("/languages").json == [
        {"code": "de", "name": "German", "targets": ["de", "fr"]},
        {"code": "en", "name": "English", "targets": ["de", "en", "fr"]},
        {"code": "fr", "name": "French", "targets": ["fr"]},
        {"code": "pt-BR", "name": "Brazilian Portuguese", "targets": ["de", "fr", "pt-BR"]},
    ]
    assert ask(server, q="a b", target="fr") == {"translatedText": "A B"}  # twice backwards
    assert ask(server, q="a b", source="PT_br") == ask(server, q="a b", source="pt") == {"translatedText": "B A"}
    assert ask(server, q="a b", target="en") == {"translatedText": "a b"}
    with serving(Upside(), Upside("de", "fr")) as plain:
        assert ask(plain, q="a", target="fr") == (400, "fr is not available as a target language from en")


def test_the_language_is_detected_when_asked(server: Server) -> None:
    german = "Das ist doch ein deutscher Satz."
    first, *others = server.ask("/detect", {"q": german}).json
    assert first["language"] == "de"
    assert first["confidence"] > 90
    assert sum(one["confidence"] for one in (first, *others)) <= 101
    found = ask(server, q=[german, german], source="auto", target="fr")
    assert found["translatedText"] == [german.upper().replace(".", "") + "."] * 2 or found["translatedText"]
    assert found["detectedLanguage"] == [first, first]
    assert ask(server, q=f"<i>{german}</i>", source="auto", target="fr", format="html")["detectedLanguage"] == first


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": "a", "source": ""}, "Invalid request: missing source parameter"),
        ({"q": "a", "target": None}, "Invalid request: missing target parameter"),
        ({"q": "a", "target": "xx"}, "xx is not supported"),
        ({"q": "a", "source": "fr"}, "de is not available as a target language from fr"),
        ({"q": "x" * 5001}, "Invalid request: request (5001) exceeds text limit (5000)"),
        ({"q": ["x"] * 501}, "Invalid request: request (501) exceeds text limit (500)"),
        ({"q": "a", "alternatives": 11}, "Invalid request: alternatives parameter must be <= 10"),
        ({"q": "bad"}, "bad has too many subwords"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(server: Server, content: dict[str, Any], message: str) -> None:
    assert ask(server, **content) == (400, message)


def test_the_rest_of_the_api(server: Server) -> None:
    assert server.ask("/health").json == {"status": "ok"}
    settings = server.ask("/frontend/settings").json
    assert settings["charLimit"] == 5000
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert settings["apiKeys"] is settings["keyRequired"] is settings["filesTranslation"] is False
    schema = server.ask("/openapi.json").json["paths"]["/translate"]["post"]["requestBody"]["content"]
    assert schema["application/json"]["schema"]["required"] == ["q", "source", "target"]
    page = server.ask("/docs").body.decode()
    assert "://" not in page.replace("http://www.w3.org", "")  # everything comes from this server
    metrics = server.ask("/metrics").body.decode()
    assert 'dragoman_requests_total{path="/health",status="200"}' in metrics
    assert (server.ask("/translate").status, server.ask("/nothing").json) == (405, {"error": "Not Found"})


def test_clients_of_libretranslate_work_unchanged() -> None:
    with serving(Upside(), keys=Keys({"secret": 1000})) as server:
        client = LibreTranslateAPI(server.address, api_key="secret")
        assert client.translate("a é b", "en", "de") == "B É A"
        assert client.detect("Hello, my friend")[0]["language"] == "en"
        assert client.languages()[1]["targets"] == ["de", "en"]
        other = LibreTranslator("en", "de", api_key="secret", custom_url=server.address + "/")
        assert other.translate_batch(["a b", "c é"]) == ["B A", "É C"]
        with pytest.raises(AuthorizationException):
            LibreTranslator("en", "de", api_key="wrong", custom_url=server.address + "/").translate("a")


# ---- beyond it


def test_scores_alignments_and_inspections_are_those_of_the_translator() -> None:
    translator = Translator(small_model(symbols=True))
    source = f"{LINES[3]}\n\n{LINES[5]} {{name}}"
    expected = [translator.translate([line])[0] for line in source.split("\n")]
    with serving(translator) as server:
        content = {"q": source, "source": "en", "target": "ne", "alternatives": 1}
        (found,) = server.ask("/v1/translate", content).json["translations"]
        assert found["text"] == "\n".join(one.text for one in expected)
        assert found["score"] == pytest.approx(sum(one.score for one in expected), abs=1e-4)
        assert len(found["alternatives"]) == 1
        assert found["lost"] == []
        words = found["alignment"]
        assert words["source"] == source.split()
        assert words["target"] == found["text"].split()
        content = {"q": LINES[3], "source": "en", "target": "ne"}
        page = server.ask("/v1/inspect", content)
        assert page.headers["Content-Type"].startswith("text/html")
        assert page.body.decode() == inspect(translator, LINES[3]).to_html()
        record = server.ask("/v1/inspect", {**content, "format": "json", "translation": "eht"}).json
        assert record["target"] == "eht"


# ---- keys, limits


def test_keys_are_asked_for_and_have_their_rates(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# ours\nfirst 3\nsecond # no limit\n")
    with serving(Upside(), keys=Keys.read(tmp_path / "keys")) as server:
        assert ask(server, q="a")[0] == 400
        assert ask(server, q="a", api_key="firs") == (403, "Invalid API key")
        assert ask(server, q=["a", "b"], api_key="first")["translatedText"] == ["A", "B"]
        assert ask(server, q=["a", "b"], api_key="first") == (429, "Slowdown: 3 per 1 minute")
        refused = server.ask("/detect", {"q": ["a", "b"], "api_key": "first"})
        assert 1 <= int(refused.headers["Retry-After"]) <= 20
        assert ask(server, q=["a"] * 100, api_key="second")["translatedText"] == ["A"] * 100
        assert server.ask("/frontend/settings").json["keyRequired"]


@pytest.mark.parametrize(
    ("content", "message"),
    [("key many\n", "line 1: write KEY"), ("a\nb 0\n", "line 2"), ("# none\n", "has no key"), (None, "can't be read")],
)
def test_a_bad_file_of_keys_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "keys").write_text(content)
    with pytest.raises(DragomanError, match=message):
        Keys.read(tmp_path / "keys")


def damaged(draw: random.Random) -> tuple[str, bytes, str]:
    """A path, a body and its kind, wrong in some way."""
    value: Any = draw.choice(
        [5, -1, 1e400, True, None, [], {}, [[]], [1], ["a", None], "\ud800", "", "a" * 6000, {"a": "b"}]
    )
    content = {"q": "a", "source": "en", "target": "de", "alternatives": 1, "format": "text"}
    name = draw.choice([name for name in content if name != "alternatives" or value not in (-0, True)])
    body = json.dumps({**content, name: value}).encode()
    how = draw.randrange(8)
    if how == 0:
        body = body[: draw.randrange(len(body))]
    elif how == 1:
        place = draw.randrange(len(body))
        body = body[:place] + draw.randbytes(3) + body[place + 3 :]
    elif how == 2:
        body = draw.choice([b"[" * 100_000, b"{" * 5000, b"null", b"1" * 5000, b'"text"', b"", b"\xff\xfe{", b"[]"])
    elif how == 3:
        body = b"q=a&source=en&target=%FF&alternatives=x"
    kind = FORM if how == 3 else draw.choice(["application/json", "application/json; charset=utf-16"])
    if how == 4:
        kind, body = (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="q"; filename="f"\r\n\r\n',
        )
    return draw.choice(["/translate", "/v1/translate", "/v1/inspect"]), body, kind


@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_no_request_is_a_fault_of_the_server(server: Server, count: int) -> None:
    draw = random.Random(count)
    for _ in range(count):
        path, body, kind = damaged(draw)
        answer = server.ask(path, body, kind)
        assert answer.status < 500, (path, body[:200], kind, answer.body)
        assert answer.status == 200 or answer.json["error"]
    assert ask(server, q="a b") == {"translatedText": "B A"}
