"""The drawn masks are the model's masks."""

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection, QuadMesh
from matplotlib.colors import to_rgba

from dragoman.figures import masks, style
from dragoman.model.masks import causal_mask, padding_mask

IDS = torch.tensor(masks.SENTENCES)


def drawn(ax: Axes) -> np.ndarray:
    """The mask in the picture: (T, S), True where a cell has the colour of "may attend"."""
    (mesh,) = (artist for artist in ax.collections if isinstance(artist, QuadMesh))
    shape = np.array(mesh.get_coordinates().shape[:2]) - 1
    colours = mesh.to_rgba(np.asarray(mesh.get_array()).reshape(shape))
    visible = (colours == to_rgba(style.BLUE)).all(axis=-1)
    hidden = (colours == to_rgba(style.PALE)).all(axis=-1)
    assert (visible ^ hidden).all()
    return visible


def hatched(ax: Axes) -> set[tuple[int, int]]:
    """Rows and columns of the hatched cells."""
    (collection,) = (artist for artist in ax.collections if isinstance(artist, PatchCollection))
    assert collection.get_hatch()
    centres = [path.vertices[:4].mean(axis=0) for path in collection.get_paths()]
    return {(round(y), round(x)) for x, y in centres}


def axes(number: int = 1) -> list[Axes]:
    with style.styled():
        return list(style.new_figure((6, 3)).subplots(1, number, squeeze=False)[0])


def test_padding_is_hidden_and_only_padding() -> None:
    (ax,) = axes()
    masks.padding_grid(ax)
    assert np.array_equal(drawn(ax), padding_mask(IDS, 0)[:, 0, 0])
    assert [text.get_text() for text in ax.texts] == [str(token) for row in masks.SENTENCES for token in row]


def test_another_pad_symbol_hides_other_cells() -> None:
    (ax,) = axes()
    masks.padding_grid(ax, [[9, 1, 2], [9, 9, 3]], pad=9)
    assert drawn(ax).tolist() == [[False, True, True], [False, False, True]]


def test_the_future_is_hidden() -> None:
    (ax,) = axes()
    masks.causal_grid(ax)
    assert np.array_equal(drawn(ax), causal_mask(7)[0, 0])
    assert ax.yaxis_inverted()  # the first query on top: the triangle is the lower one


def test_target_masks_hide_the_future_and_the_padding() -> None:
    panels = axes(3)
    masks.target_grids(panels)
    for ax, mask in zip(panels, padding_mask(IDS, 0) & causal_mask(7), strict=True):
        assert np.array_equal(drawn(ax), mask[0])


def test_padding_on_the_right_changes_nothing_for_real_queries() -> None:
    # What the caption says: compared with the causal mask alone, only the rows of padding differ.
    panels = axes(3)
    masks.target_grids(panels)
    for ax, ids in zip(panels, IDS, strict=True):
        differs = (drawn(ax) != causal_mask(7)[0, 0].numpy()).any(axis=1)
        assert np.array_equal(differs, (ids == 0).numpy())


def test_hatching_marks_what_is_hidden_for_those_who_see_no_colour() -> None:
    for ax in axes(3):
        masks.mask_cells(ax, causal_mask(4)[0, 0])
        assert hatched(ax) == {tuple(cell) for cell in np.argwhere(~drawn(ax))}
    visible, hidden = (np.dot(to_rgba(colour)[:3], [0.3, 0.59, 0.11]) for colour in (style.BLUE, style.PALE))
    assert hidden - visible > 0.5  # and in grey


def test_the_legend_says_what_the_cells_mean() -> None:
    (ax,) = axes()
    masks.causal_grid(ax)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["may attend", "hidden"]
    plain, hatch = masks.legend_handles()
    assert not plain.get_hatch()
    assert hatch.get_hatch()


@pytest.mark.parametrize("mask", [padding_mask(IDS, 0), causal_mask(7)], ids=["padding", "causal"])
def test_a_block_repeats_the_mask_for_every_head_as_attention_does(mask: torch.Tensor) -> None:
    with style.styled():
        grid = style.new_figure((6, 6)).subplots(3, 2)
    masks.mask_block(grid, mask)
    scores = torch.zeros(3, 2, 7, 7)
    masked = scores.masked_fill(~mask, 1.0) == 0  # what attention sees after broadcasting
    for i in range(3):
        for j in range(2):
            assert np.array_equal(drawn(grid[i, j]), masked[i, j])


def test_each_step_sees_one_token_more_and_finds_the_next() -> None:
    (ax,) = axes()
    masks.decoding_steps(ax, "动物没", ["dòng", "wù", "méi"])
    assert drawn(ax).astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    cells = [text.get_text() for text in ax.texts[:16]]
    tokens = ["<s>", "动", "物", "没"] if style.can_write("动物没") else ["<s>", "dòng", "wù", "méi"]
    for step in range(4):
        assert cells[4 * step : 4 * step + 4] == tokens[: step + 1] + [""] * (3 - step)
    found = [text.get_text() for text in ax.texts if "→" in text.get_text()]
    assert found == [f"→ {token}" for token in [*tokens[1:], "</s>"]]


def test_without_a_chinese_font_the_readings_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "installed_fallbacks", list)
    (ax,) = axes()
    masks.decoding_steps(ax)
    written = "".join(text.get_text() for text in [*ax.texts, *ax.get_xticklabels()])
    assert not set(written) & set(masks.SENTENCE)
    assert "U+" not in written
    assert [label.get_text() for label in ax.get_xticklabels()] == ["<s>", *masks.READINGS]


def test_the_sentence_has_a_reading_for_every_character() -> None:
    assert len(masks.READINGS) == len(masks.SENTENCE) == 13


def test_masked_scores_are_minus_infinity_and_get_no_weight() -> None:
    with style.styled():
        axes = list(style.new_figure((7, 3)).subplots(1, 3))
        masks.masked_weights(axes)
    scores = torch.tensor(masks.SCORES)
    weights = scores.masked_fill(~causal_mask(4)[0, 0], -torch.inf).softmax(dim=1)
    drawn = next(artist.get_array() for artist in axes[2].collections if isinstance(artist, QuadMesh))
    assert torch.from_numpy(np.asarray(drawn)).view(4, 4) == pytest.approx(weights.double(), abs=1e-6)
    written = [[text.get_text() for text in ax.texts] for ax in axes]
    assert written[0] == [f"{score:g}" for row in masks.SCORES for score in row]
    assert [text == "−∞" for text in written[1]] == (~causal_mask(4)).flatten().tolist()
    assert written[2] == [f"{weight:.2f}" for weight in weights.flatten().tolist()]
    (hatched,) = (artist for artist in axes[1].collections if isinstance(artist, PatchCollection))
    assert len(hatched.get_paths()) == written[1].count("−∞") == 6
