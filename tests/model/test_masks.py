"""Who may attend to whom."""

import pytest
import torch

from dragoman.model.masks import causal_mask, padding_mask


def test_every_pad_symbol_is_hidden_and_nothing_else() -> None:
    ids = torch.tensor([[5, 7, 0, 0], [0, 6, 5, 9]])
    assert padding_mask(ids, 0)[:, 0, 0].tolist() == [[True, True, False, False], [False, True, True, True]]


def test_several_ids_may_all_count_as_padding() -> None:
    ids = torch.tensor([[5, 7, 0, 0], [0, 6, 5, 7]])
    assert padding_mask(ids, {0, 7})[:, 0, 0].tolist() == [[True, False, False, False], [False, True, True, False]]


@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_a_query_sees_itself_and_all_before_it_and_nothing_after(length: int, offset: int) -> None:
    # The lower triangle with its diagonal. Some say "i <= j", which would show only the future.
    mask = causal_mask(length, offset)[0, 0]
    for query in range(length):
        for key in range(offset + length):
            assert mask[query, key].item() == (key <= offset + query)
    assert mask.shape == (length, offset + length)
