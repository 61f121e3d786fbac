"""Failures of nodes: rates, repairs, lemons, bursts and files against closed forms; scenarios and the option."""

import csv
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import get_scenario
from gpusched_env.cli.changing import with_failures
from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.failures import DAY_S, FAILURE_PRESETS, SLACK, Burst, Failures, _gamma
from gpusched_env.scenarios import load_scenario, save_scenario, scenario_from_dict
from tests.support.published import TRACES

YEAR_S = 365 * DAY_S
RACKS = Cluster.homogeneous(2_048, 8, 32)


def between(count: int, mean: float, sigmas: float = 4.0) -> bool:
    return abs(count - mean) < sigmas * math.sqrt(mean)


@pytest.mark.parametrize("seed", range(3))
def test_failures_of_a_year_are_a_poisson_process_of_their_rate(seed):
    rows = Failures(6.5, repair_s=60.0).draw(seed, RACKS, YEAR_S).rows
    assert between(len(rows), 6.5 * 2.048 * 365)
    gaps = np.diff(rows["start_s"])
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.06)  # exponential


@pytest.mark.parametrize(("shape", "low", "high"), [(0.5, 1.9, 2.6), (1.0, 0.9, 1.1), (4.0, 0.25, 0.31)])
def test_weibull_keeps_the_mean_rate_and_has_its_spread(shape, low, high):
    """Of a Weibull time, deviation / mean follows from its shape: 2.24, 1 and .28."""
    rows = Failures(5_000.0, shape, repair_s=0.0).draw(1, Cluster.homogeneous(16, 8), 600 * DAY_S).rows
    assert len(rows) == pytest.approx(5_000 * 0.016 * 600, rel=0.03)
    gaps = np.diff(rows["start_s"][rows["node"] == 3])
    assert low < gaps.std() / gaps.mean() < high


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_availability_is_that_of_an_alternating_renewal_process(sigma):
    """Up time / (up time + repair): a failure a day, repairs of 6 h: 0.8."""
    rows = Failures(1_000.0, repair_s=DAY_S / 4, repair_sigma=sigma).draw(1, Cluster.homogeneous(64, 8), YEAR_S).rows
    down_s = (np.minimum(rows["end_s"], YEAR_S) - rows["start_s"]).sum()
    assert 1 - down_s / (64 * YEAR_S) == pytest.approx(0.8, abs=0.01)


def test_lemons_keep_the_mean_rate():
    rows = Failures(6.5, repair_s=0.0, lemon_share=0.01, lemon_factor=100.0).draw(5, RACKS, 4 * YEAR_S).rows
    assert between(len(rows), 6.5 * 2.048 * 4 * 365)
    counts = np.sort(np.bincount(rows["node"], minlength=2_048))[::-1]
    base = 6.5 * 4 * 365 / 1_000 * 2_048 / (2_048 + 20 * 99)
    assert counts[:20].mean() == pytest.approx(100 * base, rel=0.05)
    assert counts[20:].mean() == pytest.approx(base, rel=0.05)


def test_a_burst_takes_a_share_of_a_rack_down_together():
    rows = Failures(0.0, bursts=(Burst(50.0, name="leaf", share=0.5),)).draw(1, RACKS, YEAR_S).rows
    moments, size = np.unique(rows["start_s"], return_counts=True)
    assert between(len(moments), 50 * 0.064 * 365)
    assert size.mean() == pytest.approx(16, rel=0.03)
    for moment in moments[:20]:
        together = rows[rows["start_s"] == moment]
        assert len(np.unique(RACKS.nodes["rack"][together["node"]])) == len(np.unique(together["end_s"])) == 1
    whole = Failures(0.0, bursts=(Burst(50.0, nodes=16),)).draw(1, RACKS, YEAR_S).rows
    assert set(np.unique(whole["start_s"], return_counts=True)[1].tolist()) == {16}


def test_draws_depend_on_nothing_else():
    """A longer horizon adds outages; bursts, lemons of factor 1 and a file change no draw of the nodes."""
    plain = Failures(100.0, repair_sigma=1.0)
    long, short = (plain.draw(7, RACKS, days * DAY_S).rows for days in (60, 20))
    assert (long[long["start_s"] < 20 * DAY_S] == short).all()
    more = Failures(100.0, repair_sigma=1.0, lemon_share=0.5, bursts=(Burst(1e-6),)).draw(7, RACKS, 20 * DAY_S).rows
    assert (more == short).all()
    assert len(plain.draw(8, RACKS, 20 * DAY_S).rows) != len(short)


def test_a_file_of_outages(tmp_path):
    path = tmp_path / "outages.csv"
    path.write_text("node,start_s,end_s,cause\n0-1,10,20,switch\n3,15,,power\n")
    found = Failures(0.0, path=str(path)).draw(0, Cluster.homogeneous(4, 8), 100.0)
    told = [(row["node"], row["start_s"], row["end_s"], found.causes[row["cause"]]) for row in found.rows]
    assert told == [(0, 10, 20, "switch"), (1, 10, 20, "switch"), (3, 15, math.inf, "power")]
    scenario = get_scenario("tiny-v1").replace(failures=Failures(0.0, path=str(path)))
    before = scenario.fingerprint()
    path.write_text(path.read_text().replace("10,20", "10,21"))
    assert scenario.fingerprint() != before


@pytest.mark.parametrize("line", ["0,1", "0,1,2,a,b"])
def test_lines_of_another_length_are_no_outages(tmp_path, line):
    """A line that was cut could mean that a node never comes back."""
    path = tmp_path / "outages.csv"
    path.write_text(f"node,start_s,end_s,cause\n0,5,,x\n{line}\n")
    with pytest.raises(ScenarioError, match=r"line 3: it (ends before 'end_s'|is longer); write as many fields"):
        Failures(rate=0.0, path=str(path)).draw(0, get_scenario("tiny-v1").cluster, 1e6)


@pytest.mark.parametrize(
    ("line", "told"),
    [("4,1,2", "field 'node': '4': give numbers from 0 to 3"), ("x,1,2", "field 'node': 'x': give numbers"),
     ("2-1,1,2", "field 'node': '2-1'"), (",1,2", "field 'node' is empty"), ("0-9,1,2", "field 'node': '0-9'"),
     ("1,5,5", "field 'end_s': 5 is not after start_s, 5: give seconds"), ("1,-1,5", "field 'start_s': '-1': expected"),
     ("1,1e300,", "field 'start_s': '1e300': expected seconds from 0 to"), ("1,inf,", "field 'start_s': 'inf'"),
     ("1,x,5", "field 'start_s': 'x'"), ("1,,5", "field 'start_s': ''"), ("1,nan,5", "field 'start_s': 'nan'"),
     ("1,1,inf", "field 'end_s': 'inf': expected seconds .* or nothing"), ("1,1,1e300", "field 'end_s': '1e300'")],
)  # fmt: skip
def test_bad_lines_are_named(tmp_path, line, told):
    path = tmp_path / "outages.csv"
    path.write_text(f"node,start_s,end_s\n{line}\n")
    with pytest.raises(ScenarioError, match=f"line 2.*{told}"):
        Failures(0.0, path=str(path)).draw(0, Cluster.homogeneous(4, 8), 100.0)


INTERRUPTIONS = TRACES.parent / "measured/llm/interruptions.csv"


@pytest.mark.skipif(not INTERRUPTIONS.is_file(), reason="the measured rates are not here")
def test_presets_have_the_measured_rates():
    with INTERRUPTIONS.open(encoding="utf-8", newline="") as file:
        rates = {row["event"]: float(row["per_1000_node_days"] or "nan") for row in csv.DictReader(file)}
    for name, event in (
        ("llama3", "unexpected"), ("llama3-planned", "all interruptions"), ("rsc-1-jobs", "MTTF of 8-GPU jobs"),
        ("rsc-1-jobs-1024", "MTTF of 1,024-GPU jobs"), ("rsc-1", "MTTF of 16,384 GPUs, projected"),
    ):  # fmt: skip
        assert FAILURE_PRESETS[name]["rate"] == pytest.approx(rates[event], abs=0.05)
    lemons = Failures.preset("rsc-1-lemons")
    lower = 1 + lemons.lemon_share * (lemons.lemon_factor - 1)
    assert lower == pytest.approx(math.log(1 - 0.14) / math.log(1 - 0.04), rel=0.01)


def test_a_scenario_with_failures(tmp_path):
    plain = get_scenario("tiny-v1")
    failing = plain.with_failures(Failures.preset("rsc-1", bursts=(Burst(3.0, name="leaf"),)))
    assert failing.fingerprint() != plain.fingerprint()
    assert "failures" not in plain.as_dict()
    save_scenario(failing, tmp_path / "mine.json")
    assert load_scenario(tmp_path / "mine.json") == failing
    told = plain.as_dict() | {"failures": {"preset": "rsc-1", "bursts": [{"rate": 3.0, "name": "leaf"}]}}
    assert scenario_from_dict(told) == failing
    one, other = failing.instance(3), plain.instance(3)
    assert one.workload.fingerprint() == other.workload.fingerprint()
    jobs, gpus = other.workload.jobs, other.cluster.gpus
    bound = jobs["arrival_s"].max() + (jobs["gpus"] * other.ideal_s).sum() / gpus + other.ideal_s.max()
    assert one.semantics.time_limit_s == pytest.approx(SLACK * bound)
    assert failing.replace(failures=Failures(until_s=50.0)).instance(3).semantics.time_limit_s == 50.0


@pytest.mark.parametrize("text", ["llama3", "rsc-1,repair_s=60", "rate=9,shape=0.7", "mine.toml", "mine.csv", "none"])
def test_the_option(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('preset = "llama3"\nlemon_share = 0.1\n')
    expected = {
        "llama3": Failures(3.79), "rsc-1,repair_s=60": Failures(6.5, repair_s=60.0),
        "mine.csv": Failures(0.0, path=text), "rate=9,shape=0.7": Failures(9.0, 0.7),
        "mine.toml": Failures(3.79, lemon_share=0.1), "none": None,
    }  # fmt: skip
    found = with_failures(get_scenario("tiny-v1"), text)
    assert (found.failures, found.name) == (expected[text], f"tiny-v1 + failures {text}")


@pytest.mark.parametrize(
    ("text", "told"),
    [("rsc1", "did you mean 'rsc-1'"), ("rate=-1", "failures.rate is -1"), ("rate=9,sape=2", "did you mean 'shape'"),
     ("rate=1e9,repair_s=0", "lower the rate"), ("until_s=0", "until_s"), ("rate=9,bursts=3", "must be a list")],
)  # fmt: skip
def test_bad_options_are_refused(text, told):
    with pytest.raises(GpuschedError, match=told):
        with_failures(get_scenario("philly-64-v1"), text).instance(0)


@settings(max_examples=25, deadline=None)
@given(
    rate=st.floats(0, 1e5), shape=st.floats(0.1, 100), repair_s=st.floats(0, 1e7), sigma=st.floats(0, 5),
    share=st.floats(0, 1), factor=st.floats(1, 1e6), nodes=st.integers(1, 9), seed=st.integers(0, 10**12),
)  # fmt: skip
def test_any_numbers_give_outages_in_order(rate, shape, repair_s, sigma, share, factor, nodes, seed):
    """The constructor of Outages checks order and overlaps."""
    failures = Failures(
        rate, shape, repair_s, sigma, share, factor, (Burst(rate, shape, repair_s, sigma, share=share),)
    )
    found = failures.draw(seed, Cluster.homogeneous(nodes, 2, 2), DAY_S)
    assert (found.rows["start_s"] < DAY_S).all()


@pytest.mark.parametrize("shape", [0.1, 1.0, 20.0])
@pytest.mark.parametrize(("repair_s", "sigma"), [(0.0, 0.0), (3600.0, 1.0), (1e6, 3.0)])
def test_the_expected_failures_are_those_drawn(shape, repair_s, sigma):
    failures, cluster = Failures(2_000.0, shape, repair_s, sigma), Cluster.homogeneous(200, 8)
    for horizon_s in (1e5, 1e6):
        found = len(failures.draw(5, cluster, horizon_s)) / 200
        scale_s = 1_000 * DAY_S / 2_000.0 / math.gamma(1 + 1 / shape)
        expected = failures._expected(scale_s, horizon_s)
        assert 0.8 * expected < found + 1 < 4 * expected


@pytest.mark.parametrize(
    ("fields", "told"),
    [({"rate": 1e5, "shape": 0.1}, "failures: rate 100000, shape 0.1 and repair_s 0 let .* but 4,310 times"),
     ({"rate": 3e3, "lemon_share": 0.02, "lemon_factor": 1e6}, "lower the rate or lemon_factor, .* or set until_s"),
     ({"rate": 0, "bursts": (Burst(1e9, repair_s=0.0, nodes=8),)}, "burst: rate 1e.09")],
)  # fmt: skip
def test_too_many_failures_are_refused_before_they_are_drawn(monkeypatch, fields, told):
    monkeypatch.setattr("gpusched_env.portable.draws.exponential", None)
    with pytest.raises(ScenarioError, match=told):
        Failures(**{"repair_s": 0.0} | fields).draw(1, Cluster.homogeneous(64, 8), 30 * DAY_S)


def test_the_gamma_function():
    for x in (1.01, 1.5, 2.0, 3.7, 11.0):
        assert _gamma(x) == pytest.approx(math.gamma(x), rel=1e-12)
