"""The scheduler prudent: windows, spares and flaky nodes, by hand."""

import numpy as np
import pytest

from gpusched_env.errors import SchedulerError
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.partitions import Partitions, Reservation
from gpusched_env.problem.workload import Workload
from tests.support.helpers import finish, first_starts, unit_instance


def in_window(estimate: list[float], nodes: str = "0", drain: bool = False) -> Instance:
    """Jobs of one node of two, of 50 s each; maintenance of ``nodes`` from 60 s to 100 s."""
    jobs = Workload.from_columns([0.0, 20.0], [4, 4], [50.0, 50.0], estimate_s=estimate)
    rules = Partitions(reservations=(Reservation("maintenance", 60.0, 100.0, nodes, drain=drain),), by="")
    semantics = Semantics(checkpoint_s=0.0, restore_s=0.0)
    return Instance(Cluster.parse("2x4"), jobs, Network("none"), semantics, partitions=rules)


def test_no_gang_starts_into_a_window():
    assert first_starts(in_window([50.0, 50.0]), "prudent") == [0.0, 20.0]
    assert finish(in_window([50.0, 50.0]), "prudent") == [50.0, 70.0]  # the second on node 1
    assert finish(in_window([50.0, 30.0]), "prudent:placement=count") == [50.0, 70.0]
    assert first_starts(in_window([50.0, 50.0], "0-1"), "prudent") == [0.0, 100.0]
    assert first_starts(in_window([50.0, 39.0], "0-1"), "prudent") == [0.0, 20.0]  # it says that it can leave
    assert first_starts(in_window([50.0, np.nan], "0-1"), "prudent") == [0.0, 20.0]  # nobody knows
    assert first_starts(in_window([50.0, 50.0], "0-1", drain=True), "prudent") == [0.0, 20.0]
    assert first_starts(in_window([50.0, 50.0], "0-1"), "prudent:windows=off") == [0.0, 20.0]


def test_spares_are_not_for_new_jobs():
    jobs = unit_instance([0.0, 0.0, 0.0], [4, 4, 4], [10.0, 10.0, 10.0], "3x4")
    assert first_starts(jobs, "prudent") == [0, 0, 0]
    assert first_starts(jobs, "prudent:spares=1") == [0, 0, 10]
    assert first_starts(jobs, "prudent:spares=3") == [0, 10, 20]  # without a running job, there are none


def test_bad_parameters_are_refused():
    with pytest.raises(SchedulerError, match="spares is -1"):
        first_starts(unit_instance([0.0], [1], [1.0]), "prudent:spares=-1")
