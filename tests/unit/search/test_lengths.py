"""Lengths: what fits, and how sentences of similar length are put together."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from transformer_cli.search.batches import group_by_length
from transformer_cli.text.vocabulary import N_SOS_EOS


@given(lengths=st.lists(st.integers(0, 60), max_size=80).map(np.array), most=st.integers(1, 200))
def test_group_by_length_groups_are_disjoint_and_full(lengths: NDArray[np.int64], most: int) -> None:
    groups = group_by_length(lengths, most)
    order = [index for group in groups for index in group.tolist()]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths)
    assert all(len(group) == 1 or len(group) * (lengths[group].max() + N_SOS_EOS) <= most for group in groups)
    for group, following in pairwise(groups):
        assert (len(group) + 1) * (lengths[following[0]] + N_SOS_EOS) > most
