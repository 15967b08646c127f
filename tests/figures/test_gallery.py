"""Writing figures: all of them, the same every time, and with one clear sentence when it fails."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from dragoman.config import DragomanError
from dragoman.figures import gallery, style
from dragoman.figures.catalogue import GALLERY, GalleryFigure
from dragoman.figures.gallery import TranslatorMaps, save_figure, save_gallery

from .legibility import assert_legible

FEW = {name: GALLERY[name] for name in ("padding-mask", "learning-rate")}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "GALLERY", FEW)


@pytest.fixture
def maps() -> TranslatorMaps:
    random = np.random.default_rng(0)
    source, target = ["Hello", "world", "</s>"], ["<s>", "Bonjour", "le", "monde"]
    lengths = {
        "encoder.{}.self_attention": (3, 3),
        "decoder.{}.self_attention": (4, 4),
        "decoder.{}.cross_attention": (4, 3),
    }
    weights = {
        name.format(layer): random.dirichlet(np.ones(keys), (2, queries))
        for layer in (0, 2, 10)
        for name, (queries, keys) in lengths.items()
    }
    return TranslatorMaps(weights, source, target, [*target[1:], "</s>"])


def settings() -> dict[str, object]:
    """Matplotlib's, but for the backend: looking at it would load one."""
    return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}


def a_figure() -> GalleryFigure:
    return GALLERY["padding-mask"]


@pytest.mark.usefixtures("few")
def test_every_figure_is_written_in_every_format_in_order(tmp_path: Path) -> None:
    paths = save_gallery(tmp_path / "new" / "folder", ("png", "svg"), dpi=30)
    assert [path.name for path in paths] == [f"{name}.{kind}" for name in FEW for kind in ("png", "svg")]
    assert all(path.stat().st_size > 500 for path in paths)
    assert sorted(paths) == sorted((tmp_path / "new" / "folder").iterdir())  # and nothing else


@pytest.mark.usefixtures("few")
def test_the_same_call_writes_the_same_bytes_whatever_the_readers_settings(tmp_path: Path) -> None:
    first = save_gallery(tmp_path / "a", ("png", "svg"), dpi=30)
    with matplotlib.rc_context({"svg.hashsalt": "other", "font.size": 20, "savefig.facecolor": "red"}):
        second = save_gallery(tmp_path / "b", ("png", "svg"), dpi=30)
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_the_whole_gallery_is_the_same_every_time(tmp_path: Path, maps: TranslatorMaps) -> None:
    first, second = (save_gallery(tmp_path / name, ("png", "svg"), dpi=60, maps=maps) for name in "ab")
    assert len(first) == 2 * (len(GALLERY) + 3)
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_a_figure_carries_its_caption_for_screen_readers(tmp_path: Path) -> None:
    entry = a_figure()
    save_figure(entry.figure(), tmp_path / "a.svg", title=entry.title, caption=entry.caption)
    image = ET.parse(tmp_path / "a.svg").getroot()
    assert image.findtext("{http://www.w3.org/2000/svg}title") == entry.title
    assert entry.caption in (text for text in image.itertext())


def test_dpi_is_pixels_per_inch(tmp_path: Path) -> None:
    save_figure(a_figure().figure(), tmp_path / "a.png", dpi=50)
    header = (tmp_path / "a.png").read_bytes()[16:24]
    size = (int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big"))
    assert size == tuple(int(50 * side) for side in a_figure().size)


@pytest.mark.parametrize("name", ["a.gif", "a"])
def test_an_unknown_format_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(DragomanError, match=rf"{name}: figures are written as png or svg"):
        save_figure(a_figure().figure(), tmp_path / name)
    with pytest.raises(DragomanError, match="not gif"):
        save_gallery(tmp_path / "folder", ("png", "gif"))
    assert not (tmp_path / "folder").exists()


@pytest.mark.usefixtures("few")
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DragomanError, match="file") as error:
        save_gallery(tmp_path / "file" / "folder")
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("few")
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "padding-mask.png").mkdir()
    with pytest.raises(DragomanError, match=r"padding-mask\.png"):
        save_gallery(tmp_path)


def test_a_translators_maps_add_their_figures_at_the_end(maps: TranslatorMaps) -> None:
    names = list(gallery.gallery(maps))
    assert names[: len(GALLERY)] == list(GALLERY) == list(gallery.gallery())
    assert names[len(GALLERY) :] == ["translator-attention", "translator-heads", "translator-overview"]
    assert all(entry.caption.endswith(".") for entry in gallery.gallery(maps).values())


def test_a_translators_figures_show_its_last_layers(maps: TranslatorMaps) -> None:
    figures = gallery.gallery(maps)
    kinds = {ax.get_title(loc="left"): ax for ax in figures["translator-attention"].figure().axes if ax.images}
    # The last layer is number 11, though its name comes before that of number 3.
    for title, block in (
        ("encoder self-attention", "encoder.10.self_attention"),
        ("decoder self-attention", "decoder.10.self_attention"),
        ("cross-attention", "decoder.10.cross_attention"),
    ):
        mean = np.asarray(maps.weights[block]).mean(axis=0)
        assert np.asarray(kinds[title].images[0].get_array()) == pytest.approx(mean)
    heads = [ax.images[0].get_array() for ax in figures["translator-heads"].figure().axes if ax.images]
    assert np.array_equal(heads, maps.weights["decoder.10.cross_attention"])
    overview = [ax.images[0] for ax in figures["translator-overview"].figure().axes if ax.images]
    assert len(overview) == 2 * len(maps.weights)


@pytest.mark.parametrize("name", ["translator-attention", "translator-heads", "translator-overview"])
def test_a_translators_figures_are_legible(maps: TranslatorMaps, name: str) -> None:
    with style.styled():
        assert_legible(gallery.gallery(maps)[name].figure(), name)


def test_queries_and_keys_are_labelled_by_block(maps: TranslatorMaps) -> None:
    assert maps.labels("encoder.0.self_attention") == (maps.source, maps.source)
    assert maps.labels("decoder.0.self_attention") == (maps.steps, maps.target)
    assert maps.labels("decoder.0.cross_attention") == (maps.steps, maps.source)
    with pytest.raises(ValueError, match="no decoder cross_attention"):
        TranslatorMaps({"encoder.0.self_attention": []}, [], [], []).last("decoder", "cross_attention")


def test_a_step_names_what_is_read_and_what_is_written() -> None:
    read, written = ["<s>", "Straßenmusiker", "و"], ["Straßenmusiker", "Menschenmenge", "."]
    steps = TranslatorMaps({}, [], read, written).steps
    # The marks of direction keep the arrow between what is read and what is written, whatever their scripts.
    assert steps[2] == "\u200eو\u200e → \u200e."
    assert [step.replace("\u200e", "") for step in steps[:2]] == ["<s> → Straßenmusiker", "Straßenmu… → Menschenmenge"]


def test_pyplot_stays_out_of_it(tmp_path: Path) -> None:
    # Importing pyplot chooses a window system; without a screen, or in someone's notebook, that must not happen.
    script = (
        "import sys\n"
        "from dragoman.figures.gallery import GALLERY, save_figure\n"
        f"save_figure(GALLERY['padding-mask'].figure(), {str(tmp_path / 'a.png')!r})\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_settings_are_as_before(tmp_path: Path) -> None:
    before = settings()
    assert before["font.size"] != style.TEXT
    save_figure(a_figure().figure(), tmp_path / "a.png", dpi=30)
    assert settings() == before
