from pathlib import PurePosixPath

from dragoman.serving import page
from tests.test_package import ROOT


def test_every_file_of_the_page_has_a_type() -> None:
    assert {PurePosixPath(name).suffix for name in page.files()} <= page.CONTENT_TYPES.keys()


def test_a_title_stays_text() -> None:
    shown = page.render('</title><script>"\u202e')
    assert "&lt;/title&gt;&lt;script&gt;&#34;⟨U+202E⟩" in shown
    assert shown.count("<script") == 2


def test_only_a_static_page_has_its_policy_in_its_head_and_may_run_webassembly() -> None:
    assert "Content-Security-Policy" not in page.render("Dragoman")
    assert "wasm" not in page.policy()
    assert page.policy(static=True).replace("'", "&#39;") in page.render("Dragoman", static=True)
    assert "'wasm-unsafe-eval'" in page.policy(static=True)
    for static in (False, True):
        assert "'unsafe-inline'" not in page.policy(static)
        assert page.policy(static).startswith("default-src 'none'; ")


def test_the_page_has_the_icon_of_the_documentation() -> None:
    assert page.files()["icon.svg"] == (ROOT / "docs" / "assets" / "favicon.svg").read_bytes()
