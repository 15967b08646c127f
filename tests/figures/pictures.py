"""What a picture shows, read from its artists."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection, QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from dragoman.figures import style


def tables(ax: Axes) -> list[np.ndarray]:
    """Values of the tables of cells, in the order in which they were drawn."""
    meshes = [artist for artist in ax.collections if isinstance(artist, QuadMesh)]
    return [np.asarray(m.get_array()).reshape(np.array(m.get_coordinates().shape[:2]) - 1) for m in meshes]


def shown_mask(ax: Axes) -> np.ndarray:
    """The mask in the picture (T, S): True where a cell has the colour of "may attend". Hidden cells are hatched."""
    (mesh,) = (artist for artist in ax.collections if isinstance(artist, QuadMesh))
    colours = mesh.to_rgba(tables(ax)[0])
    visible = (colours == to_rgba(style.BLUE)).all(axis=-1)
    assert (visible ^ (colours == to_rgba(style.PALE)).all(axis=-1)).all()
    assert hatched(ax) == {tuple(cell) for cell in np.argwhere(~visible)}
    return visible


def hatched(ax: Axes) -> set[tuple[int, int]]:
    """Rows and columns of the hatched cells."""
    (collection,) = (artist for artist in ax.collections if isinstance(artist, PatchCollection))
    assert collection.get_hatch()
    centres = [path.vertices[:4].mean(axis=0) for path in collection.get_paths()]
    return {(round(y), round(x)) for x, y in centres}


def maps(figure: Figure) -> list[Axes]:
    """The attention maps of a figure, without its colour bar."""
    return [ax for ax in figure.axes if ax.images]


def labels(ax: Axes, axis: str) -> list[str]:
    ticks = ax.get_xticklabels() if axis == "x" else ax.get_yticklabels()
    return [label.get_text() for label in ticks]


def written(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def random_weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(shape[-1]), shape[:-1])
