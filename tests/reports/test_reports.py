"""Reports: one self-contained file that shows the log and runs only its own scripts."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from helpers import linked_scenario, play, random_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import evaluate
from gpusched_env.evaluation.link_loads import link_loads
from gpusched_env.metrics import jobs_waiting
from gpusched_env.problem.instance import Instance
from gpusched_env.reports import write_report
from gpusched_env.reports.curves import BINS, POINTS, distribution, over_time, tenant_shares
from gpusched_env.reports.pages import LIBRARY, asset
from gpusched_env.reports.run_data import LINK_TIMES, MOST_LINKS, run_data
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate

pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "out.html"
    results = evaluate("tiny-v1", ["fifo", "srtf"], [0], progress=False, keep_logs=True)
    write_report(get_scenario("tiny-v1").instance(0), results, path, "<script>alert(1)</script>", ["a <b>note</b>"])
    assert [one.name for one in path.parent.iterdir()] == ["out.html"]
    return path.read_text(encoding="utf-8")


def test_a_report_runs_its_own_scripts_and_no_others(report: str) -> None:
    assert "<script>alert(1)" not in report
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in report
    assert "a &lt;b&gt;note&lt;/b&gt;" in report
    scripts = re.findall(r"<script>(.*?)</script>", report, re.DOTALL)
    sums = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts}
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', report)
    assert policy is not None
    packed = re.search(r'<script type="application/gzip" id="library">(.*?)</script>', report)
    assert packed is not None
    library = gzip.decompress(base64.b64decode(packed[1]))
    assert b"plotly.js" in library[:100]
    sums.add(base64.b64encode(hashlib.sha256(library).digest()).decode())
    assert set(re.findall(r"sha256-([^&']+)", policy[1])) == sums
    assert "default-src &#39;none&#39;" in policy[1]
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", report)


def test_the_library_has_the_traces_that_reports_draw_and_no_others() -> None:
    folder = Path(str(files("gpusched_env.reports") / "assets"))
    scripts = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.js"))
    drawn = set(re.findall(r'\btype: "(\w+)"', scripts)) - {"log", "line"}  # axes, and shapes
    assert set(re.findall(r'moduleType:"trace",name:"(\w+)"', asset(LIBRARY))) == drawn


def test_a_report_fits_an_email(report: str) -> None:
    assert len(report.encode()) < 600_000


def test_a_report_holds_its_runs(report: str) -> None:
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', report, re.DOTALL)
    assert data is not None
    told = json.loads(data[1])
    assert [run["label"] for run in told["runs"]] == ["fifo", "srtf"]
    for run in told["runs"]:
        assert len(run["jobs"]["id"]) == 12
        assert None not in run["jobs"]["finish"]
        assert run["links"] is None


def test_the_ratios_of_a_report_refer_to_the_label_that_is_named(tmp_path: Path) -> None:
    results = evaluate("tiny-v1", ["fifo", "srtf"], [0], progress=False, keep_logs=True)
    for label in ("fifo", "srtf"):
        write_report(get_scenario("tiny-v1").instance(0), results, tmp_path / "out.html", reference=label)
        heads = re.findall(r"x (fifo|srtf)\b", (tmp_path / "out.html").read_text(encoding="utf-8"))
        assert set(heads) == {label}


def test_a_report_needs_a_log(tmp_path: Path) -> None:
    results = evaluate("tiny-v1", ["fifo"], [0], progress=False)
    with pytest.raises(GpuschedError, match="keep_logs=True"):
        write_report(get_scenario("tiny-v1").instance(0), results, tmp_path / "out.html")


@settings(max_examples=5)
@given(st.integers(0, 1_000), st.sampled_from(["fifo", "las", "tiresias"]))
def test_the_queue_at_any_time_is_that_of_the_log(seed: int, scheduler: str) -> None:
    instance = random_instance(seed, jobs=25)
    log = play(instance, scheduler)
    told = run_data(instance, log, "x")
    first = float(instance.workload.jobs["arrival_s"].min())
    changes = np.unique(log.events["time_s"])
    gaps = np.flatnonzero(np.diff(changes) > 4 * told["tick_s"])
    for time in (changes[gaps] + changes[gaps + 1]) / 2:
        tick = (time - first) / told["tick_s"]
        waits = zip(told["waits"]["start"], told["waits"]["end"], strict=True)
        waiting = sum(start <= tick and (end is None or tick < end) for start, end in waits)
        assert waiting == jobs_waiting(log).at(time)


def test_links_are_those_of_the_log() -> None:
    instance = linked_scenario(jobs=15).instance(0)
    log = play(instance, "srtf")
    links = run_data(instance, log, "x")["links"]
    assert len(links["load"]) == len(links["names"]) == min(MOST_LINKS, len(instance.links))
    assert {len(row) for row in links["load"]} == {LINK_TIMES}
    first = float(instance.workload.jobs["arrival_s"].min())
    tick_s = run_data(instance, log, "x")["tick_s"]
    loads = link_loads(instance, log, first + np.array(links["at"]) * tick_s)
    rows = [instance.links["name"].tolist().index(name) for name in links["names"]]
    share = 100 * (loads / instance.links["capacity"])[:, rows].T
    assert share.max() > 50
    np.testing.assert_allclose(links["load"], share, atol=0.51)


@settings(max_examples=30)
@given(st.lists(st.one_of(st.floats(0.001, 1e6), st.just(float("nan"))), max_size=600))
def test_a_thinned_distribution_is_still_a_distribution(values: list[float]) -> None:
    jct_s = np.array(values)
    told = distribution(jct_s)
    done = jct_s[np.isfinite(jct_s)]
    assert len(told["jct_s"]) == len(told["share"]) <= POINTS
    for time, share in zip(told["jct_s"], told["share"], strict=True):
        assert (done <= time * (1 - 1e-5)).mean() * len(done) / len(jct_s) <= share + 1e-6
        assert (done <= time * (1 + 1e-5)).mean() * len(done) / len(jct_s) >= share - 1e-6
    if len(done):
        assert told["share"][-1] == pytest.approx(len(done) / len(jct_s), abs=1e-6)


def test_links_of_jobs_that_share_gpus() -> None:
    """Gangs on the same GPUs and links: bars show the sharing jobs, and link loads are computed."""
    plain = linked_scenario(jobs=20).instance(0)
    sharing = get_scenario("bsbf-sim-240-v1").instance(200_000).sharing
    instance = Instance(plain.cluster, plain.workload, plain.network, plain.semantics, sharing)
    told = run_data(instance, simulate(instance, make_scheduler("sjf-bsbf")), "x")
    assert set(told["bars"]["lanes"]) == {1, 2}
    assert max(told["lines"]["held"]["value"]) <= 100.0
    assert max(map(max, told["links"]["load"])) > 50


def test_the_shares_of_tenants_add_up_to_the_held_gpus() -> None:
    instance = get_scenario("cohort-256-v0:jobs=80").instance(0)
    log = simulate(instance, make_scheduler("fifo-skip"))
    shares, held = tenant_shares(instance, log), over_time(instance, log)["held"]
    assert [one["label"] for one in shares["tenants"]] == ["research", "product", "students"]
    total = np.sum([one["value"] for one in shares["tenants"]], axis=0)
    assert len(total) == len(shares["at_s"]) == BINS
    # Both lines are means over the same bins; the held GPUs are drawn as steps, which may have more points.
    mean = np.average(held["value"][:-1], weights=np.diff(held["at_s"]))
    assert total.mean() == pytest.approx(mean, rel=0.01)
