"""Gangs larger than a machine: the cost of spreading is reported and can be ignored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.cli.playing import spread_note
from gpusched_env.errors import WorkloadError
from gpusched_env.evaluation import evaluate
from gpusched_env.problem.cluster import MACHINE, Cluster
from gpusched_env.scenarios import Scenario, get_scenario
from gpusched_env.traces import generate_workload, ignore_placement
from gpusched_env.traces.profile_tables import load_measured

LM = "LM (batch size 10)"
ROWS = f"{LM}\tpython3 main.py\t--steps\t1\t50000\t0\t4\n{LM}\tpython3 main.py\t--steps\t1\t50000\t0\t1\n"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    path = tmp_path / "jobs.trace"
    path.write_text(ROWS)
    base = get_scenario("gavel-continuous-v1").with_workload(f"gavel:{path}")
    return base.with_cluster(Cluster.parse("8x1@V100"))


def jct_of_the_gang(scenario: Scenario) -> float:
    (result,) = evaluate(scenario, ["fifo"], [0], keep_logs=True)
    return float(result.metrics["makespan_s"])


def ignoring(scenario: Scenario) -> Scenario:
    data = scenario.as_dict()
    data["workload"]["ignore_placement"] = True
    from gpusched_env.scenarios import scenario_from_dict

    return scenario_from_dict(data)


def test_ignored_placement_costs_as_much_as_one_machine(scenario: Scenario) -> None:
    together, apart = load_measured("gavel").models[LM].rates["V100"][4]
    assert together > apart
    big = scenario.with_cluster(Cluster.parse("2x4@V100"))
    assert jct_of_the_gang(scenario) > jct_of_the_gang(big)
    assert jct_of_the_gang(ignoring(scenario)) == jct_of_the_gang(ignoring(big)) == jct_of_the_gang(big)
    assert ignoring(scenario).fingerprint() != scenario.fingerprint()


def test_ignored_placement_equals_the_switch_of_the_generator() -> None:
    charged = generate_workload("gavel", 3, 100, multi_gpu=True)
    free = generate_workload("gavel", 3, 100, multi_gpu=True, ignore_placement=True)
    assert (charged.profiles.measured["tier"] > MACHINE).any()
    assert np.array_equal(ignore_placement(charged).profiles.measured, free.profiles.measured)


def test_models_that_were_not_measured_are_refused() -> None:
    with pytest.raises(WorkloadError, match="ignore_placement drops rates measured across machines"):
        ignore_placement(generate_workload("philly", 0, 10))


def test_the_cost_of_spreading_is_reported(scenario: Scenario) -> None:
    together, apart = load_measured("gavel").models[LM].rates["V100"][4]
    assert spread_note(scenario, 0) == (
        f"note: 1 of 2 jobs fit into no machine (at most 1 GPU) and run at the rates measured across machines, up to "
        f"{together / apart:.3g} times slower; with --ignore-placement they run as fast as in one machine, "
        "as in Gavel's simulator"
    )
    for quiet in (ignoring(scenario), scenario.with_cluster(Cluster.parse("2x4@V100")), get_scenario("philly-64-v1")):
        assert spread_note(quiet, 0) == ""


def test_the_command_reports_the_cost_and_has_the_switch(scenario: Scenario) -> None:
    command = ["run", "--scenario", "gavel-continuous-v1", "--workload", scenario.workload.source]
    command += ["--cluster", "8x1@V100", "--scheduler", "fifo"]
    charged, free = (CliRunner().invoke(app, [*command, *more]).output for more in ([], ["--ignore-placement"]))
    assert "note: 1 of 2 jobs fit into no machine" in charged
    assert "fit into no machine" not in free
    assert "+ ignore placement" in free
