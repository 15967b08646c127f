"""The gallery: complete, legible, the same every time, and one clear sentence when it can't be written."""

import logging
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib
import pytest

from dragoman.config import DragomanError
from dragoman.figures import gallery, style
from dragoman.figures.gallery import GALLERY, save_attention, save_figure, save_gallery
from tests.inspection.records import an_inspection

from .legibility import assert_legible, warnings_are_errors

INSPECTION = an_inspection(["▁a"], ["▁b"])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names = ["padding-mask", "learning-rate"]
    monkeypatch.setattr(gallery, "GALLERY", {name: GALLERY[name] for name in names})
    return names


@pytest.mark.parametrize("name", GALLERY)
def test_every_picture_is_legible_and_fits_on_a_page(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with warnings_are_errors(), caplog.at_level(logging.WARNING, "matplotlib"):
        figure = GALLERY[name].draw()
        assert_legible(figure, name)
    assert not caplog.records
    assert 3.4 <= figure.get_figwidth() <= style.FULL_WIDTH
    assert 0 < len(GALLERY[name].title) <= 40
    assert 60 <= len(GALLERY[name].caption) <= 320
    assert GALLERY[name].caption.endswith(".")


def test_without_a_chinese_font_the_chinese_figure_is_as_legible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "families", lambda: ["DejaVu Sans"])
    with warnings_are_errors():
        assert_legible(GALLERY["decoding-steps"].draw())


def test_every_figure_is_written_in_every_format_in_order(few: list[str], tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    paths = [path for kind in ("png", "svg") for path in save_gallery(out, kind, dpi=30, inspection=INSPECTION)]
    names = [*few, "translator-attention", "translator-heads", "translator-overview"]
    assert [path.name for path in paths] == [f"{name}.{kind}" for kind in ("png", "svg") for name in names]
    assert all(path.stat().st_size > 500 for path in paths)
    assert sorted(paths) == sorted(out.iterdir())  # and nothing else


def test_every_block_and_an_overview_are_written(tmp_path: Path) -> None:
    paths = save_attention(tmp_path / "folder", INSPECTION)
    assert [path.name for path in paths] == [*(f"{block}.png" for block in INSPECTION.maps), "overview.png"]
    assert {path.read_bytes()[:4] for path in paths} == {b"\x89PNG"}


@pytest.mark.parametrize("suffix", ["png", "svg"])
@pytest.mark.usefixtures("few")
def test_the_same_call_writes_the_same_bytes_whatever_the_readers_settings(suffix: str, tmp_path: Path) -> None:
    first = save_gallery(tmp_path / "a", suffix, dpi=30)
    own = {"svg.hashsalt": "other", "font.size": 20, "savefig.facecolor": "red", "axes.grid": True}
    with matplotlib.rc_context(own):
        before = {name: matplotlib.rcParams[name] for name in own}
        second = save_gallery(tmp_path / "b", suffix, dpi=30)
        assert {name: matplotlib.rcParams[name] for name in own} == before
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_figure_carries_its_caption_for_screen_readers(tmp_path: Path) -> None:
    picture = GALLERY["padding-mask"]
    save_figure(picture.draw(), tmp_path / "a.svg", title=picture.title, caption=picture.caption)
    image = ET.parse(tmp_path / "a.svg").getroot()
    assert image.findtext("{http://www.w3.org/2000/svg}title") == picture.title
    assert picture.caption in (text for text in image.itertext())


def test_what_cannot_be_written_is_named(few: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DragomanError, match="file"):
        save_gallery(tmp_path / "file" / "folder")
    (tmp_path / "padding-mask.png").mkdir()
    with pytest.raises(DragomanError, match=r"padding-mask\.png"):
        save_gallery(tmp_path)


def test_pyplot_stays_out_of_it(tmp_path: Path) -> None:
    # Importing pyplot chooses a window system; without a screen, or in someone's notebook, that must not happen.
    script = (
        "import sys\n"
        "from dragoman.figures.gallery import GALLERY, save_figure\n"
        f"save_figure(GALLERY['padding-mask'].draw(), {str(tmp_path / 'a.png')!r})\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
