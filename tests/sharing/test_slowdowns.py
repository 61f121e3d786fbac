"""Jobs that share a GPU: sub-steps, memory, and sources of slowdowns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers import play
from hypothesis import given, settings
from hypothesis import strategies as st
from published import TRACES, here

from gpusched_env.errors import ScenarioError, WorkloadError
from gpusched_env.event_log import COMPLETE, START
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import ACCUMULATION_DTYPE, Profiles, Workload
from gpusched_env.sharing import LucidTable, Sharing, UserTable, synthetic
from gpusched_env.sharing.tabulated import sub_step_options
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Start
from gpusched_env.traces.profile_tables import load_fitted
from studies.profile_tables.measurements import relative_errors

FREE = Semantics(checkpoint_s=0.0, restore_s=0.0)
ONE_NODE = Cluster((NodeGroup(1, 4, "T4"),))


def t4_jobs(
    jobs: list[tuple[str, int, int, float]], cluster: Cluster = ONE_NODE, sharing: Sharing | None = None
) -> Instance:
    """Jobs of the table ``bsbf`` that all arrive at time 0: model, gang, samples on each GPU, iterations."""
    models, gangs, batches, iterations = zip(*jobs, strict=True)
    profiles, rows = load_fitted("bsbf").for_jobs(models, np.multiply(batches, gangs), gangs)
    workload = Workload.from_columns([0.0] * len(jobs), gangs, None, iterations, profiles, rows)
    return Instance(cluster, workload, Network("none"), FREE, sharing or Sharing(2, 1.2))


class Once(Scheduler):
    """Yields its decisions at the first decision point."""

    name = "once"

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = list(decisions)

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        while self.decisions:
            yield self.decisions.pop(0)


@pytest.mark.parametrize(
    ("model", "gpus", "nodes", "batch", "sub_steps", "seconds"),
    [
        ("bert", 1, 1, 8, 1, 0.640780),
        ("bert", 4, 1, 8, 1, 0.717901),
        ("bert", 4, 1, 8, 2, 0.922097),
        ("bert", 8, 2, 8, 1, 1.597168),
        ("bert", 8, 2, 8, 4, 2.345214),
        ("cifar10", 4, 1, 256, 1, 0.198653),
        ("imagenet", 16, 4, 100, 1, 0.606480),
        ("imagenet", 16, 4, 100, 2, 0.746408),
        ("imagenet", 1, 1, 100, 2, 0.576340),
        ("ncf", 2, 1, 1024, 1, 0.011876),
        ("yolov3", 4, 2, 8, 1, 1.091274),
        ("deepspeech2", 2, 2, 20, 1, 1.053165),
    ],
)
def test_seconds_of_an_iteration(
    model: str, gpus: int, nodes: int, batch: int, sub_steps: int, seconds: float
) -> None:  # fmt: skip
    """The formula of SJF-BSBF with the parameters fitted to T4, played by the simulator."""
    cluster = Cluster((NodeGroup(nodes, gpus // nodes, "T4"),))
    instance = t4_jobs([(model, gpus, batch, 1_000.0)], cluster)
    log = play(instance, Once(Start(0, gpus=tuple(range(gpus)), sub_steps=sub_steps)))
    end_s = float(log.events["time_s"][log.events["kind"] == COMPLETE][0])
    assert end_s / 1_000.0 == pytest.approx(seconds, abs=5.1e-7)
    if sub_steps == 1:
        assert instance.ideal_s[0] == pytest.approx(end_s, rel=1e-12)


@settings(max_examples=40)
@given(st.integers(1, 40_000), st.integers(1, 12))
def test_sub_steps_are_those_of_halved_batches(batch: int, passes: int) -> None:
    halves, b = [batch], batch
    while b > 1:
        b = math.ceil(batch / 2 ** len(halves))
        halves.append(b)
    known = {math.ceil(batch / b) for b in halves}
    found = sub_step_options(batch, passes)
    assert found[0] == passes
    assert found == sorted(set(found))
    assert set(found[1:]) == {steps for steps in known if steps > passes}


def test_a_batch_that_does_not_fit_takes_several_passes() -> None:
    """64 samples of bert: six passes, one of which overlaps communication; sub-steps add to that."""
    instance = t4_jobs([("bert", 6, 64, 50.0)], Cluster((NodeGroup(2, 4, "T4"),)))
    model = load_fitted("bsbf").fits["T4"]["bert"].throughput
    tables = instance.sharing_tables
    assert tables is not None
    assert tables.sub_steps[0].tolist() == [6, 8, 16, 32, 64]
    for steps, memory in zip(tables.sub_steps[0].tolist(), tables.memory[0, :, 0].tolist(), strict=True):
        assert memory == pytest.approx(0.25 + 0.75 * 64 / steps / 12)
        log = play(instance, Once(Start(0, gpus=tuple(range(6)), sub_steps=steps)))
        seconds = float(model.iteration_s(6, 2, 64 / steps, steps))
        assert log.events["time_s"][-1] == pytest.approx(50 * seconds, rel=1e-9)
    assert instance.ideal_s[0] == pytest.approx(50 * float(model.iteration_s(6, 2, 64 / 6, 6)), rel=1e-9)
    alone = Instance(instance.cluster, instance.workload, Network("none"), FREE)
    assert play(alone, "fifo").events["time_s"][-1] == pytest.approx(instance.ideal_s[0], rel=1e-9)


def named(*names: str, memory_bytes: float = 0.0) -> Workload:
    """One job for each profile."""
    row = dict(batch=8, gradient_bytes=0.0, memory_bytes=memory_bytes, skew=0.0, overlap=1.0, compute_s=1.0)
    profiles = Profiles.from_rows([{"name": name, **row} for name in names], ("T4",))
    ones = [1] * len(names)
    return Workload.from_columns([0.0] * len(names), ones, ones, None, profiles, range(len(names)))


def shared(workload: Workload, sharing: Sharing) -> Instance:
    return Instance(ONE_NODE, workload, Network("none"), FREE, sharing)


def test_memory_in_bytes() -> None:
    """Bytes count if the scenario gives the GPU's memory;
    bytes of the model take precedence over those of the profile.
    """
    workload = named("resnet18 (a)", "bert", memory_bytes=8e9)
    given = {"gpu_memory_GB": {"T4": 16.0}, "model_memory_GB": {"resnet18": 4.0}}
    for sharing, parts in ((Sharing(2, 1.0), [0.0, 0.0]), (Sharing(2, 1.0, **given), [0.25, 0.5])):
        tables = shared(workload, sharing).sharing_tables
        assert tables is not None
        assert tables.memory[:, 0, 0].tolist() == parts
    accumulating = np.array([(0, 1, 0.5, 0.1, 0.3)], ACCUMULATION_DTYPE)
    profiles = Profiles(workload.profiles.rows, np.ones((2, 1)), ("T4",), accumulation=accumulating)
    tables = shared(Workload(workload.jobs, profiles), Sharing(2, 1.0, {"T4": 16.0})).sharing_tables
    assert tables is not None
    assert tables.sub_steps.tolist() == [[1, 2, 4, 8], [1, 0, 0, 0]]
    np.testing.assert_allclose(tables.memory[0, :, 0], 0.5 * (0.25 + 0.75 / np.array([1, 2, 4, 8])))
    np.testing.assert_allclose(tables.compute_share[0], 0.5 + 0.5 / np.array([1, 2, 4, 8]))
    with pytest.raises(ScenarioError, match="give gpu_memory_GB"):
        Sharing(model_memory_GB={"bert": 1.0})
    wrong = np.array([(1, 1, 2, 0, 0)], ACCUMULATION_DTYPE)
    with pytest.raises(WorkloadError, match=r"'bert', accumulation: fixed_compute is 2\.0: .* 0 and at most 1"):
        Profiles(profiles.rows, profiles.compute_s, ("T4",), accumulation=wrong)


def test_a_saved_workload_keeps_the_effect_of_accumulation(tmp_path: Path) -> None:
    workload = t4_jobs([("bert", 4, 64, 1.0)]).workload
    workload.save(tmp_path / "w.npz")
    again = Workload.load(tmp_path / "w.npz")
    assert again.fingerprint() == workload.fingerprint()
    assert again.profiles.accumulation.tobytes() == workload.profiles.accumulation.tobytes()
    plain = Profiles(workload.profiles.rows, workload.profiles.compute_s, ("T4",), workload.profiles.measured)
    assert Workload(workload.jobs, plain).fingerprint() != workload.fingerprint()


def xi_of(workload: Workload, sharing: Sharing) -> np.ndarray:
    tables = shared(workload, sharing).sharing_tables
    assert tables is not None
    return tables.interference[:, :, 0]


def test_synthetic_slowdowns_follow_from_the_two_names() -> None:
    names = [f"model{i}" for i in range(60)]
    xi = xi_of(named(*names), Sharing(2, synthetic(1)))
    back = xi_of(named(*names[::-1]), Sharing(2, synthetic(1)))
    np.testing.assert_array_equal(back[::-1, ::-1], xi)
    np.testing.assert_array_equal(xi_of(named("model3 (8 a GPU)", "model5"), Sharing(2, synthetic(1)))[0, 1], xi[3, 5])
    # each ordered pair has its own value, except clipped ones
    assert (xi != xi.T)[np.triu_indices(60, 1)].mean() > 0.95
    assert (xi != xi_of(named(*names), Sharing(2, synthetic(2)))).mean() > 0.95
    assert xi.min() > 1.0
    assert xi.max() == 4.0
    excess = np.log(xi[xi < 4.0] - 1.0)
    assert np.exp(np.median(excess)) == pytest.approx(0.3, rel=0.1)  # 3,600 draws: standard error 1.7 %
    assert np.quantile(excess, 0.8413) - np.median(excess) == pytest.approx(0.8, rel=0.1)


def table(tmp_path: Path, text: str, **fields: object) -> Sharing:
    path = tmp_path / "xi.csv"
    path.write_text(text)
    return Sharing(2, UserTable(str(path), **fields))  # type: ignore[arg-type]


HEADER = "model_self,model_other,gpus_self,gpu_type,mps,xi\n"


def test_a_users_table(tmp_path: Path) -> None:
    text = HEADER + "a,b,,,,2\nb,a,,,,3\na,a,,,,1.5\nb,b,,,,1\na,b,1,,,2.5\nb,a,1,T4,,4\nb,a,1,K80,,9\nb,b,,,1,7\n"
    workload = named("a (8 a GPU)", "b")
    assert xi_of(workload, table(tmp_path, text)).tolist() == [[1.5, 2.5], [4.0, 1.0]]
    text = text.replace("b,b,,,,1\n", "b,b,,,0,1\n")
    assert xi_of(workload, table(tmp_path, text, mps=True))[1, 1] == 7.0
    assert xi_of(workload, table(tmp_path, text))[1, 1] == 1.0
    renamed = table(tmp_path, "model_self,model_other,xi\nq,q,1.25\n", names={"a": "q", "b": "q"})
    assert (xi_of(workload, renamed) == 1.25).all()


@pytest.mark.parametrize(("column", "value"), [("xi", "1.25"), ("lost_share", "0.2"), ("rate", "0.8")])
def test_the_header_says_the_meaning_of_the_numbers(tmp_path: Path, column: str, value: str) -> None:
    sharing = table(tmp_path, f"model_self,model_other,{column}\na,a,{value}\n")
    assert xi_of(named("a"), sharing)[0, 0] == pytest.approx(1.25, rel=1e-15)


def test_forbidden_clipped_and_missing_pairs(tmp_path: Path) -> None:
    text = "model_self,model_other,rate\na,a,0\na,b,1.25\n"
    with pytest.warns(UserWarning, match="line 3: xi is below 1.*1 of 2 entries"):
        xi = xi_of(named("a", "b"), table(tmp_path, text, missing="default", default_xi=3.0))
    assert xi.tolist() == [[math.inf, 1.0], [3.0, 3.0]]
    text = text.replace("1.25", "1.0")
    assert xi_of(named("a", "b"), table(tmp_path, text, missing="forbid"))[1].tolist() == [math.inf, math.inf]
    with pytest.raises(ScenarioError, match=r"xi.csv: no xi for 'b' on 1 GPUs beside 'a' on T4: add it"):
        xi_of(named("a", "b"), table(tmp_path, text))
    two = shared(named("a", "a (2)"), table(tmp_path, text))
    log = play(two, Once(Start(0, gpus=(0,)), Start(1, gpus=(0,), share=True), Start(1, gpus=(1,))))
    starts = log.events[log.events["kind"] == START]
    assert starts["job"].tolist() == [0, 1]  # not on the same GPU
    assert log.events["time_s"].max() == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model_self,xi\n", "line 1: no column 'model_other'"),
        ("model_self,model_other\na,a\n", "must name one of xi, lost_share, rate"),
        ("model_self,model_other,xi,rate\na,a,1,1\n", "must name one of xi, lost_share, rate"),
        ("model_self,model_other,xi\n", "no pair in it"),
        ("model_self,model_other,xi\na,a,inf\n", "line 2, field 'xi': 'inf': expected a finite number"),
        ("model_self,model_other,xi\na,a,1\na,b,nan\n", "line 3, field 'xi': 'nan'"),
        ("model_self,model_other,xi\na,a,0\n", "line 2, field 'xi': 0: .* has rate 0"),
        ("model_self,model_other,lost_share\na,a,1.5\n", "expected a share from 0 to 1"),
        ("model_self,model_other,xi\na,,2\n", "line 2, field 'model_other' is empty"),
        ("model_self,model_other,xi\na,a,2\na,a,2\n", "line 3: 'a' beside 'a' is given at .*line 2 already"),
        (HEADER + "a,a,1.5,,,2\n", "field 'gpus_self': '1.5'"),
        (HEADER + "a,a,,,maybe,2\n", "field 'mps': 'maybe'"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        xi_of(named("a"), table(tmp_path, text))


def test_the_fingerprint_of_a_table_depends_on_its_bytes(tmp_path: Path) -> None:
    one = table(tmp_path, "model_self,model_other,xi\na,a,2\n").identity()
    (tmp_path / "elsewhere").mkdir()
    assert table(tmp_path / "elsewhere", "model_self,model_other,xi\na,a,2\n").identity() == one
    assert table(tmp_path, "model_self,model_other,xi\na,a,3\n").identity() != one
    with pytest.raises(ScenarioError, match=r"absent\.csv"):
        xi_of(named("a"), Sharing(2, UserTable(str(tmp_path / "absent.csv"))))


def test_lucids_layout(tmp_path: Path) -> None:
    rows = ["x,32,0,0.5,y,32,0,0.8", "x,64,0,0.7,y,64,0,1.0", "x,32,1,0.25,y,32,1,0.25", "x,32,0,0.5,x,32,0,0.4"]
    path = tmp_path / "colocate_info.csv"
    header = "model1,batchsize1,amp1,speed1,model2,batchsize2,amp2,speed2"
    path.write_text("\n".join([header, *rows]) + "\n")
    workload = named("x", "y")
    xi = xi_of(workload, Sharing(2, LucidTable(str(path), "forbid", amp="no")))
    np.testing.assert_allclose(xi, [[1 / 0.45, 1 / 0.6], [1 / 0.9, math.inf]])
    xi = xi_of(workload, Sharing(2, LucidTable(str(path), "forbid", batch_size=64)))
    np.testing.assert_allclose(xi, [[math.inf, 1 / 0.7], [1.0, math.inf]])
    with pytest.raises(ScenarioError, match="amp is 'maybe'"):
        LucidTable(str(path), amp="maybe")


@here
def test_lucids_measurements() -> None:
    """Statistics of the table: xi of 2 x 1,388 jobs in pairs."""
    table = LucidTable(str(TRACES / "lucid" / "colocate_info.csv"), "forbid")
    xi = 1.0 / np.array([entry.rate for entry in table.measured()])
    assert len(xi) == 2 * 1388
    found = [xi.min(), np.median(xi), np.quantile(xi, 0.9), xi.max()]
    assert found == pytest.approx([0.67, 1.05, 1.28, 2.25], abs=0.006)
    with pytest.warns(UserWarning, match="xi is below 1"):
        by_model = [table.table[pair] for pair in table.table]
    assert len(by_model) == 2 * 56 - 11  # 11 models beside themselves, 45 pairs of two
    assert 1.0 <= min(by_model) < 1.05 < max(by_model) < 2.0


@here
def test_errors_of_the_fitted_table() -> None:
    """The errors stated in the table equal those of its parameters on Pollux's measurements."""
    from studies.profile_tables.pollux import _measurements

    for name, fit in load_fitted("bsbf").fits["T4"].items():
        folder = TRACES / "pollux" / "measured" / name
        rows = np.concatenate(
            [
                _measurements(folder / "placements.csv", "placement"),
                _measurements(folder / "scalability.csv", "num_nodes", "num_replicas"),
            ]
        )
        errors = np.quantile(relative_errors(fit.throughput, rows), [0.5, 0.9])
        assert (len(rows), *errors) == pytest.approx(fit.errors["all"], abs=6e-4)
