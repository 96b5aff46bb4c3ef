"""Runs on a cluster: what is said where something is wrong, and what travels."""

import pytest

from sgmcmc.distributed.chains import cut

distributed = pytest.importorskip("distributed")


@pytest.mark.parametrize(
    ("chains", "share", "lengths"),
    [(8, 8, [8]), (8, 4, [4, 4]), (8, 3, [3, 3, 2]), (5, 3, [3, 2]), (3, 2, [3]), (2, 1, [2])],
)
def test_a_group_is_cut_by_its_share(chains, share, lengths):
    parts = cut(range(7, 7 + chains), share)
    assert [len(part) for part in parts] == lengths
    assert sum(parts, []) == list(range(7, 7 + chains))
