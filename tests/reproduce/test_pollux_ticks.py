"""The reference of Pollux's simulator gives the published mean JCT of Tiresias and Optimus; it says why ours differ."""

from __future__ import annotations

import pytest
from pollux_simulator import Optimus, fewest_nodes, mean_jct_s, place, workload_at
from published import here

from gpusched_env.reproduce import load_card

DATA = load_card("pollux").data["data"]
MEAN_JCT_S = DATA["MEAN_JCT_S"]
PUBLISHED_S = {1.0: MEAN_JCT_S["tiresias"][0], **dict(zip(DATA["LOADS"], DATA["AT_LOAD_S"]["tiresias"], strict=True))}


@here
@pytest.mark.parametrize("load", sorted(PUBLISHED_S))
def test_the_reference_gives_the_published_mean_jct(load: float) -> None:
    assert mean_jct_s(workload_at(load)) == pytest.approx(PUBLISHED_S[load], abs=0.5)


@here
def test_times_of_the_fewest_machines_make_tiresias_faster_at_load_2() -> None:
    assert mean_jct_s(workload_at(2.0), fewest=True) == pytest.approx(9_712, abs=1)


@here
def test_the_reference_gives_the_published_mean_jct_of_optimus() -> None:
    """The published simulator draws nothing for Optimus."""
    found = mean_jct_s(workload_at(1, 3), policy=Optimus())
    assert found == pytest.approx(MEAN_JCT_S["optimus"][2], rel=1e-3)


def test_placements_by_hand() -> None:
    assert fewest_nodes(10) == (4, 4, 2)
    free = [1, 3, 0, 3]
    assert place(free, 5) == [1, 1, 1, 3, 3]
    assert free == [1, 0, 0, 1]
