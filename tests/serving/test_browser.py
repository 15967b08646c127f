"""The translator's page in a real browser, before a server that has no model but keeps to the API."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs

import pytest

from dragoman.serving import page
from tests.browser import ActionChains, Axe, By, Keys, complaints, overflow, until, window

pytestmark = pytest.mark.slow

NAMES = {"en": "English", "fr": "French", "he": "Hebrew", "xx": "Of Nowhere"}
TEXTS = [
    "the dog and the cat and the bird",
    "a dog sees\na cat\n\nand a  dog",
    "👩‍👩‍👧 dog 👍🏽 dog 👍🏽",
    "כלב רואה כלב",
]
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
LONG = "The old black dog sees a green bird in the garden, {name}. " * 20


def translation(text: str) -> dict[str, Any]:
    """The words of each line in capitals and in reverse, linked to what they come from."""
    source, target, links, lines = [], [], [], []
    for line in text.split("\n"):
        words = line.split()
        links += [(len(source) + len(words) - 1 - i, len(target) + i) for i in range(len(words))]
        source += words
        target += [word.upper() for word in reversed(words)]
        lines.append("  ".join(target[len(target) - len(words) :]))
    return {
        "text": "\n".join(lines),
        "alternatives": [{"text": f"{name}: {text}", "score": -1.0, "log_prob": -2.0} for name in ("B", "C")],
        "alignment": {"source": source, "target": target, "links": links},
        "lost": [],
    }


@dataclass
class StandIn:
    """What the server has, and what it was asked."""

    targets: dict[str, list[str]] = field(default_factory=lambda: {"en": ["en", "fr", "he"], "fr": ["fr", "en"]})
    settings: dict[str, Any] = field(default_factory=lambda: {"apiKeys": False, "charLimit": 2000})
    failures: list[tuple[int, Any]] = field(default_factory=list)
    """Answers to the next requests, before those that succeed: a status and its JSON."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What is added to each translation."""
    held: dict[str, threading.Event] = field(default_factory=dict)
    """Texts whose answer waits for an event."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=page.files)
    static: bool = False
    address: str = ""

    def get(self, path: str) -> Any:
        """The answer to GET: bytes or JSON; None if there is nothing."""
        if path == "":
            return page.render("Dragoman", self.static).encode()
        if path == "languages":
            return [{"code": code, "name": NAMES[code], "targets": targets} for code, targets in self.targets.items()]
        return self.settings if path == "frontend/settings" else self.files.get(path)

    def translate(self, request: dict[str, Any]) -> tuple[int, Any]:
        """The status and the answer to POST /v1/translate."""
        self.asked.append(request)
        if self.failures:
            return self.failures.pop(0)
        if request["q"] in self.held:
            self.held[request["q"]].wait(20)
        return 200, {"translations": [translation(request["q"]) | self.extra]}


class Handler(BaseHTTPRequestHandler):
    stand_in: StandIn

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        found = self.stand_in.get(path)
        kind = page.CONTENT_TYPES.get(PurePosixPath(path or "index.html").suffix)
        self.answer(404 if found is None else 200, found, kind)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/v1/inspect":
            self.stand_in.asked.append({name: value for name, (value,) in parse_qs(body).items()})
            self.answer(200, b"<!doctype html><link rel=icon href=/icon.svg><title>Opened</title>", "text/html")
            return
        request = json.loads(body)
        self.answer(*self.stand_in.translate(request))
        self.stand_in.answered.append(request["q"])

    def answer(self, status: int, content: Any, kind: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind or "application/json")
        if not self.stand_in.static:
            self.send_header("Content-Security-Policy", page.policy())
        if status == 503:
            self.send_header("Retry-After", "0.1")
        self.end_headers()
        with suppress(ConnectionError):  # the page no longer waits for it
            self.wfile.write(content if isinstance(content, bytes) else json.dumps(content).encode())

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[StandIn]:
    stand_in = StandIn()
    handler = type("Bound", (Handler,), {"stand_in": stand_in})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        stand_in.address = f"http://127.0.0.1:{http.server_address[1]}/"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield stand_in
        for event in stand_in.held.values():
            event.set()
        http.shutdown()
        thread.join()


def visit(browser: Any, server: StandIn, pair: str = "en-fr", width: int = 1280, dark: bool = False) -> None:
    """Open the page, and forget what the browser has said before."""
    window(browser, width)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    browser.get("about:blank")
    complaints(browser)
    browser.get(f"{server.address}#{pair}")
    until(lambda: not shown(browser, "loading"), "the page does not start")


def find(browser: Any, name: str) -> Any:
    return browser.find_element(By.ID, name)


def shown(browser: Any, name: str) -> bool:
    return bool(find(browser, name).is_displayed())


def write(browser: Any, text: str) -> None:
    """Put a text into the field, as pasting does; WebDriver can't type emoji."""
    browser.execute_script(
        """const field = document.getElementById("source");
        field.value = arguments[0];
        field.dispatchEvent(new Event("input"));""",
        text,
    )


def translated(browser: Any, text: str) -> None:
    """Wait until the page shows this translation, and does not wait for another."""
    state = "const it = document.getElementById('target'); return [it.textContent, it.ariaBusy]"
    until(lambda: browser.execute_script(state) == [text, "false"], f"the page does not show {text!r}")


def translate(browser: Any, text: str) -> None:
    write(browser, text)
    translated(browser, translation(text)["text"])


def words(browser: Any) -> list[Any]:
    return browser.find_elements(By.CSS_SELECTOR, "#target .word")  # type: ignore[no-any-return]


def lit(browser: Any, side: str) -> list[int]:
    """Numbers of the words that are lit."""
    script = "return [...document.querySelectorAll(arguments[0])].map((word) => Number(word.dataset.index))"
    return browser.execute_script(script, f".lit[data-side={side}]")  # type: ignore[no-any-return]


def test_it_translates_what_is_typed(browser: Any, server: StandIn) -> None:
    visit(browser, server)
    find(browser, "source").send_keys("the dog", Keys.ENTER, "sleeps")
    translated(browser, "DOG  THE\nSLEEPS")
    assert server.asked[-1] == {
        "q": "the dog\nsleeps", "source": "en", "target": "fr", "alternatives": 3, "alignments": True
    }  # fmt: skip
    find(browser, "clear").click()
    translated(browser, "")
    assert not shown(browser, "alternatives")
    translate(browser, HOSTILE)
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert complaints(browser) == []


def test_a_late_answer_does_not_replace_a_later_one(browser: Any, server: StandIn) -> None:
    server.held = {"one": threading.Event(), "one two": threading.Event()}
    visit(browser, server)
    translate(browser, "before")
    for text in server.held:
        write(browser, text)
        until(lambda text=text: server.asked[-1]["q"] == text, "the page does not ask")  # type: ignore[misc]
        assert find(browser, "target").text == "BEFORE"
        assert find(browser, "target").get_attribute("aria-busy") == "true"
    server.held["one two"].set()
    translated(browser, "TWO  ONE")
    server.held["one"].set()
    until(lambda: "one" in server.answered, "the server does not answer")
    translated(browser, "TWO  ONE")
    assert complaints(browser) == []


@pytest.mark.parametrize("text", TEXTS)
def test_pointing_at_a_word_lights_what_it_comes_from(browser: Any, server: StandIn, text: str) -> None:
    visit(browser, server)
    translate(browser, text)
    links = translation(text)["alignment"]["links"]
    shown_words = words(browser)
    assert len(shown_words) == len(links)
    for source, target in links:
        ActionChains(browser).move_to_element(shown_words[target]).perform()
        assert (lit(browser, "source"), lit(browser, "target")) == ([source], [target])
    places = browser.execute_script(
        """return [...document.querySelectorAll("#backdrop .word")].map((word) => {
          const [before] = [document.createRange()];
          before.setStart(document.getElementById("backdrop"), 0);
          before.setEndBefore(word);
          return before.toString() + word.textContent;
        })"""
    )
    assert all(text.startswith(place) for place in places)  # the words of the field, where they stand in it
    ActionChains(browser).move_to_element(browser.find_elements(By.CSS_SELECTOR, "#backdrop .word")[1]).perform()
    assert lit(browser, "target") == [target for source, target in links if source == 1]
    ActionChains(browser).move_to_element(find(browser, "count")).perform()
    assert lit(browser, "source") == lit(browser, "target") == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_field_grows_with_its_text_and_lights_lie_behind_its_words(
    browser: Any, server: StandIn, width: int
) -> None:
    visit(browser, server, width=width)
    for text in [*TEXTS, LONG, "w" * 300, "\n" * 9, "one  two\n" * 4]:
        write(browser, text)
        heights = browser.execute_script(
            """const [field, backdrop] = ["source", "backdrop"].map((id) => document.getElementById(id));
            return [field.scrollHeight, field.offsetHeight, backdrop.scrollHeight];"""
        )
        assert len(set(heights)) == 1, text  # lines break at the same places


def test_a_tap_lights_a_word_until_it_is_tapped_again(browser: Any, server: StandIn) -> None:
    visit(browser, server, width=390)
    translate(browser, "the dog sleeps")
    for expected in ([2], []):
        words(browser)[0].click()
        ActionChains(browser).move_to_element(find(browser, "count")).perform()
        assert lit(browser, "source") == expected


def test_it_needs_no_mouse(browser: Any, server: StandIn) -> None:
    visit(browser, server)
    active = "const it = document.activeElement; return it.id || it.textContent"
    assert browser.execute_script(active) == "source"
    browser.switch_to.active_element.send_keys("the dog")
    translated(browser, "DOG  THE")
    stops = []
    for _ in range(6):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        stops.append(browser.execute_script(active))
    assert stops == ["clear", "DOG", "copy", "open", "B: the dog", "C: the dog"]
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    translated(browser, "C: the dog")
    assert browser.execute_script(active) == "DOG  THE"
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    ActionChains(browser).key_down(Keys.SHIFT).send_keys(Keys.TAB * 4).key_up(Keys.SHIFT).perform()
    assert (lit(browser, "source"), find(browser, "readout").text) == ([1], "DOG comes from dog.")
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    assert (lit(browser, "source"), find(browser, "readout").text) == ([0], "THE comes from the.")
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert lit(browser, "source") == []


def test_an_alternative_is_shown_without_links_that_it_does_not_have(browser: Any, server: StandIn) -> None:
    visit(browser, server)
    translate(browser, "the dog")
    alternatives = find(browser, "others")
    alternatives.find_elements(By.TAG_NAME, "button")[1].click()
    translated(browser, "C: the dog")
    assert alternatives.text == "B: the dog\nDOG  THE"
    assert words(browser) == []
    assert not shown(browser, "hint")
    alternatives.find_elements(By.TAG_NAME, "button")[1].click()
    translated(browser, "DOG  THE")
    assert len(words(browser)) == 2
    translate(browser, LONG)
    assert server.asked[-1]["alternatives"] == 0


def test_an_error_stays_until_the_next_success(browser: Any, server: StandIn) -> None:
    visit(browser, server)
    translate(browser, "dog")
    for status, content, message in [
        (400, {"error": "The text is too odd."}, "The text is too odd."),
        (502, b"<h1>Bad gateway</h1>", "The server failed (502). Try again later."),
    ]:
        server.failures = [(status, content)]
        write(browser, f"dog {status}")
        until(lambda: find(browser, "message").text, "there is no message")
        assert find(browser, "message").text == message
        assert not shown(browser, "actions")  # nothing can be done with the translation of another text
        translate(browser, "cat")
        assert find(browser, "message").text == ""


def test_a_busy_server_is_asked_once_more_without_a_word(browser: Any, server: StandIn) -> None:
    visit(browser, server)
    server.failures = [(503, {"error": "Busy."})]
    translate(browser, "dog")
    assert [request["q"] for request in server.asked] == ["dog", "dog"]
    server.failures = [(503, {"error": "Busy."})] * 2
    write(browser, "cat")
    until(lambda: find(browser, "message").text == "Busy.", "the page does not say that the server is busy")


def test_it_says_when_the_server_is_out_of_reach_and_goes_on_when_it_is_back(browser: Any, server: StandIn) -> None:
    visit(browser, server)
    browser.set_network_conditions(offline=True, latency=0, throughput=0)
    try:
        write(browser, "dog")
        until(lambda: "can't be reached" in find(browser, "message").text, "there is no message")
    finally:
        browser.delete_network_conditions()
    translated(browser, "DOG")


def test_languages_swap_where_the_reverse_exists_and_stay_in_the_address(browser: Any, server: StandIn) -> None:
    visit(browser, server)
    translate(browser, "the dog")
    find(browser, "swap").click()
    translated(browser, "THE  DOG")
    assert find(browser, "source").get_property("value") == "DOG  THE"
    assert [server.asked[-1][side] for side in ("source", "target")] == ["fr", "en"]
    assert browser.current_url == f"{server.address}#fr-en"
    assert not shown(browser, "target-language")  # a name, as there is nothing to choose
    browser.execute_script("location.hash = '#en-he'")
    until(lambda: not shown(browser, "swap"), "he-en does not exist")
    translated(browser, "THE  DOG")
    assert server.asked[-1]["target"] == "he"


def test_a_server_of_one_direction_offers_no_choice(browser: Any, server: StandIn) -> None:
    server.targets = {"xx": ["xx", "en"], "en": ["en"]}
    visit(browser, server, pair="")
    assert [find(browser, f"{side}-language").is_displayed() for side in ("source", "target")] == [False, False]
    assert [name.text for name in browser.find_elements(By.CSS_SELECTOR, ".languages b")] == ["Of Nowhere", "English"]
    assert find(browser, "source").get_attribute("dir") == "auto"


def test_the_detected_language_is_named(browser: Any, server: StandIn) -> None:
    server.extra = {"detectedLanguage": {"language": "fr", "confidence": 90.0}}
    server.settings |= {"language": {"source": {"code": "auto"}, "target": {"code": "en"}}}
    visit(browser, server, pair="")
    assert not shown(browser, "swap")
    translate(browser, "le chien")
    chosen = "return document.getElementById('source-language').selectedOptions[0].textContent"
    assert browser.execute_script(chosen) == "French (detected)"
    assert find(browser, "source").get_attribute("lang") == "fr"
    assert [server.asked[-1][side] for side in ("source", "target")] == ["auto", "en"]
    find(browser, "swap").click()
    translated(browser, "LE  CHIEN")
    assert [server.asked[-1][side] for side in ("source", "target")] == ["en", "fr"]


def test_each_side_runs_in_its_own_direction(browser: Any, server: StandIn) -> None:
    visit(browser, server, pair="en-he")
    server.extra = translation("כלב שחור") | {"text": "כלב  שחור"}
    write(browser, "black dog")
    translated(browser, "כלב  שחור")
    sides = [(find(browser, name).get_attribute("lang"), find(browser, name).get_attribute("dir")) for name in SIDES]
    assert sides == [("en", "ltr"), ("en", "ltr"), ("he", "rtl"), ("he", "rtl")]
    target = find(browser, "target").rect
    word = browser.execute_script(
        """const range = document.createRange();
        range.selectNodeContents(document.getElementById("target"));
        const box = range.getBoundingClientRect();
        return [box.left, box.right];"""
    )
    assert target["x"] + target["width"] - word[1] < word[0] - target["x"]


SIDES = ("source", "backdrop", "target", "others")


def test_open_it_up_shows_the_sentence_of_the_caret(browser: Any, server: StandIn) -> None:
    visit(browser, server)
    for text, caret, sentence, given in [
        ("the dog", 3, "the dog", {"translation": "DOG  THE"}),
        ("One dog. Two dogs!\nThree", 12, "Two dogs!", {}),
        ("\n\nOne dog. Two", 0, "One dog.", {}),
    ]:
        translate(browser, text)
        browser.execute_script("document.getElementById('source').setSelectionRange(...arguments)", caret, caret)
        until(lambda s=sentence: s in find(browser, "open").get_attribute("title"), "the title")  # type: ignore[misc]
        find(browser, "open").click()
        until(lambda: "q" in server.asked[-1] and "alignments" not in server.asked[-1], "nothing is opened")
        assert server.asked[-1] == {"source": "en", "target": "fr", "q": sentence} | given
        until(lambda: len(browser.window_handles) == 2, "there is no new page")
        first, second = browser.window_handles
        browser.switch_to.window(second)
        until(lambda: browser.title == "Opened", "the new page is empty")
        browser.close()
        browser.switch_to.window(first)
    assert complaints(browser) == []


def test_copying_works_or_selects(browser: Any, server: StandIn) -> None:
    visit(browser, server)
    translate(browser, "the dog")
    browser.execute_script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    find(browser, "copy").click()
    until(lambda: find(browser, "readout").text == "Copied.", "it is not said")
    assert browser.execute_script("return window.copied") == "DOG  THE"
    browser.execute_script("navigator.clipboard.writeText = async () => { throw new Error(); }")
    find(browser, "copy").click()
    until(lambda: "selected" in find(browser, "readout").text, "it is not said")
    assert browser.execute_script("return String(getSelection())") == "DOG  THE"


def test_a_text_beyond_the_limit_is_not_sent(browser: Any, server: StandIn) -> None:
    server.settings["charLimit"] = 10
    visit(browser, server)
    translate(browser, "👍" * 10)
    assert find(browser, "count").text == "10 / 10"
    write(browser, "👍" * 11)
    assert find(browser, "message").text == "The text is longer than 10 characters. Translate it in parts."
    translate(browser, "👍" * 9)
    assert find(browser, "message").text == ""
    assert [len(request["q"]) for request in server.asked] == [10, 9]


def test_a_key_is_remembered_only_if_it_is_wished(browser: Any, server: StandIn) -> None:
    server.settings["keyRequired"] = True
    for remembered in (False, True):
        visit(browser, server)
        assert find(browser, "api-key").get_property("value") == ""
        find(browser, "api-key").send_keys("secret")
        if remembered:
            find(browser, "remember").click()
        translate(browser, "dog")
        assert server.asked[-1]["api_key"] == "secret"
    visit(browser, server)
    assert find(browser, "api-key").get_property("value") == "secret"
    find(browser, "remember").click()
    visit(browser, server)
    assert find(browser, "api-key").get_property("value") == ""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 640, 1280])  # 640: a window of 1280 pixels at 200 %
def test_everybody_can_use_it(browser: Any, server: StandIn, width: int, dark: bool) -> None:
    server.settings["apiKeys"] = True
    server.extra = {"lost": ["{name}"]}
    visit(browser, server, width=width, dark=dark)
    for text in ("", "w" * 300, "the dog"):
        translate(browser, text)
        assert overflow(browser) == 0
    words(browser)[0].click()
    assert find(browser, "message").text == "The translation has lost {name}."
    found = Axe().run(browser)
    assert {one["id"]: [node["html"] for node in one["nodes"]] for one in found["violations"]} == {}
    assert complaints(browser) == []


def test_a_static_page_shows_its_download_and_says_why_it_can_not_start(browser: Any, server: StandIn) -> None:
    server.static = True
    server.files["manifest.webmanifest"] = b'{"name": "Dragoman"}'
    server.files["backend.js"] = b"""
      export const features = { inspect: false, detect: false, apiKeys: false, offline: true, maxAlternatives: 0 };
      export function start(onProgress) {
        onProgress({ loaded: 2_500_000, total: 10_000_000 });
        return new Promise((resolve, reject) => Object.assign(window, { resolve, reject }));
      }
      export const languages = async () => [{ code: "en", name: "English", rtl: false, targets: ["fr"] }];
      export async function translate({ text }) {
        return { text: text.toUpperCase(), alternatives: [], alignment: null, detected: null, lost: [] };
      }"""
    for ends in ("resolve()", "reject(new Error('This browser has no WebAssembly.'))"):
        browser.get("about:blank")
        complaints(browser)
        browser.get(server.address)
        until(lambda: "2.5 of 10.0 MB" in find(browser, "loading").text, "there is no progress")
        assert find(browser, "progress").get_property("position") == 0.25
        write(browser, "dog")
        assert "Nothing leaves your browser." in browser.find_element(By.TAG_NAME, "footer").text
        browser.execute_script(ends)
        until(lambda: not shown(browser, "loading"), "the download does not end")
        if ends == "resolve()":
            translated(browser, "DOG")
            assert not shown(browser, "inspect")
        else:
            assert find(browser, "message").text == "This browser has no WebAssembly."
        assert complaints(browser) == []
