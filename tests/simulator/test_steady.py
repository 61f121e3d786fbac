"""The placement rule "steady" avoids machines that crash often."""

import numpy as np
import pytest

from gpusched_env.problem.cluster import Cluster
from gpusched_env.simulator import ClusterView, Simulation, Start
from tests.support.helpers import unit_instance


def gang_on(crashes: list[int], gang: int, rule: str = "steady") -> set[int]:
    """Nodes of 4 GPUs, two in a rack, on which a gang is placed after so many crashes of each."""
    cluster = Cluster.homogeneous(len(crashes), 4, 2)
    simulation = Simulation(unit_instance([0.0], [gang], [10.0], cluster))
    simulation.advance()
    simulation.arrays.nodes["crashes"][: len(crashes)] = crashes
    free = simulation.arrays.free.copy()
    assert len(ClusterView(simulation).where(0, rule)) == gang
    assert (simulation.arrays.free == free).all()
    assert simulation.apply(Start(0, rule)) == ""
    return set(np.flatnonzero(simulation.arrays.free[: len(crashes)] < 4).tolist())


@pytest.mark.parametrize(
    ("crashes", "gang", "nodes"),
    [
        ([0, 0, 0, 0], 4, {0}),
        ([9, 0, 0, 0], 4, {1}),  # 10 / (1 + 9 / 4) is at least 3
        ([2, 0, 0, 0], 4, {0}),  # 3 / 1.5 = 2: one crash more or less is chance
        ([9, 9, 9, 9], 4, {0}),  # all alike
        ([9, 0, 0, 0], 8, {2, 3}),  # a whole rack of steady machines
        ([9, 0, 0, 0], 12, {1, 2, 3}),
        ([9, 0, 0, 0], 16, {0, 1, 2, 3}),  # the rest, because it must
        ([9, 0, 0, 9, 0, 0, 0, 0, 0, 0], 36, {0, 1, 2, 4, 5, 6, 7, 8, 9}),
    ],
)
def test_machines_that_crash_often_are_the_last_choice(crashes, gang, nodes):
    assert gang_on(crashes, gang) == nodes


def test_without_crashes_it_is_pack():
    for gang in range(1, 17):
        assert gang_on([0, 0, 0, 0], gang) == gang_on([0, 0, 0, 0], gang, "pack")
