"""The job mix of hadar-60gpu-v1: sizes, models and gangs as documented, and work that takes the drawn GPU-hours."""

from __future__ import annotations

import numpy as np
import pytest

from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import FAMILIES as SCENARIO_FAMILIES
from gpusched_env.scenarios import get_scenario
from gpusched_env.traces import generate_workload
from gpusched_env.traces.profile_tables import load_measured

FAMILIES = {"S": {"ResNet-18"}, "M": {"CycleGAN"}, "L": {"LM", "Transformer"}, "XL": {"ResNet-50"}}
HOURS = {"S": (0.05, 1), "M": (1, 10), "L": (10, 50), "XL": (60, 100)}
SHARES = {"S": 0.55, "M": 0.30, "L": 0.13, "XL": 0.02}


def drawn(seed: int = 1, jobs: int = 480, **parameters: object) -> Workload:
    return generate_workload("hadar", seed, jobs, **parameters)  # type: ignore[arg-type]


def test_sizes_models_and_gangs_have_their_shares() -> None:
    workload = drawn(jobs=40_000)
    size, model, hours = (workload.attributes[name] for name in ("size", "model", "v100_gpu_hours"))
    gpus = workload.jobs["gpus"]
    for name, share in SHARES.items():
        chosen = size == name
        assert chosen.mean() == pytest.approx(share, abs=4 * np.sqrt(share / 40_000))
        assert {text.partition(" (")[0] for text in model[chosen].tolist()} == FAMILIES[name]
        low, high = HOURS[name]
        assert low <= hours[chosen].min() <= hours[chosen].max() <= high
        assert hours[chosen].mean() == pytest.approx((low + high) / 2, rel=0.03)
    distributed = size != "M"  # CycleGAN was measured on one GPU only
    assert (gpus[~distributed] == 1).all()
    shares = [float((gpus[distributed] == gang).mean()) for gang in (1, 2, 4, 8)]
    assert shares == pytest.approx([0.70, 0.10, 0.15, 0.05], abs=0.01)
    batches = np.unique(model[size == "S"], return_counts=True)[1] / (size == "S").sum()
    assert batches == pytest.approx(np.full(5, 0.2), abs=0.02)


def test_work_takes_the_gpu_hours_drawn_on_v100_in_one_machine() -> None:
    workload, table = drawn(), load_measured("gavel")
    rates = [
        table.models[model].rates["V100"][gpus][0]
        for model, gpus in zip(workload.attributes["model"].tolist(), workload.jobs["gpus"].tolist(), strict=True)
    ]
    hours = workload.jobs["iterations"] / rates * workload.jobs["gpus"] / 3_600
    assert hours == pytest.approx(workload.attributes["v100_gpu_hours"])


def test_rates_are_those_measured_together_and_spread() -> None:
    """LM with batch 80 on two V100 or P100: 58.09 and 31.84 on one machine, 17.75 and 17.27 spread (Gavel's table)."""
    for setting, spread in (("measured", (17.747, 17.265)), ("free", (58.092, 31.841))):
        scenario = SCENARIO_FAMILIES["hadar-60gpu-v1"].plain(jobs=2_000, spread=setting)
        instance: Instance = scenario.instance(5)
        profile = instance.workload.profiles.rows["name"].tolist().index("LM (batch size 80)")
        job_class = instance.classes.tolist().index([profile, 2])
        rates = 1 / instance.iteration_s[job_class, :, :2]
        assert rates[0] == pytest.approx([58.092, 31.841], abs=1e-3)
        assert rates[1] == pytest.approx(spread, abs=1e-3)


def test_arrivals_are_static_poisson_or_bursty() -> None:
    assert (drawn().jobs["arrival_s"] == 0).all()
    spans, variations = {}, {}
    for bursty in (False, True):
        gaps = np.diff(drawn(jobs=5_000, mean_gap_s=600.0, bursty=bursty).jobs["arrival_s"])
        spans[bursty], variations[bursty] = gaps.mean(), gaps.std() / gaps.mean()
    assert spans[False] == pytest.approx(600, rel=0.05)
    assert spans[True] == pytest.approx(600)
    assert variations[False] == pytest.approx(1.0, abs=0.1)
    assert variations[True] > 2.0
    still, moving = drawn(), drawn(mean_gap_s=600.0)
    assert still.jobs["iterations"].tolist() == moving.jobs["iterations"].tolist()  # only arrivals differ


def test_the_scenario_is_the_documented_cluster() -> None:
    scenario = get_scenario("hadar-60gpu-v1")
    assert scenario.cluster.describe() == "60 GPUs: 5 nodes x 4 V100, 5 nodes x 4 P100, 5 nodes x 4 K80 in 3 racks"
    instance = scenario.instance(200_000)
    assert len(instance.workload) == 480
    assert instance.workload.profiles.gpu_types == scenario.cluster.gpu_types
    everywhere = [
        SCENARIO_FAMILIES["hadar-60gpu-v1"].plain(jobs=100, gangs="large").instance(seed) for seed in range(12)
    ]
    assert any(np.isinf(drawn.iteration_s).any() for drawn in everywhere)  # ResNet-50 (128) does not fit on four K80


def test_the_scenarios_parameters_count() -> None:
    texts = ["nodes=3", "jobs=50", "arrivals=poisson", "arrivals=philly", "gangs=large", "spread=free", "restore_s=0"]
    prints = {get_scenario(f"hadar-60gpu-v1:{text}").fingerprint() for text in texts}
    assert len(prints | {get_scenario("hadar-60gpu-v1").fingerprint()}) == len(texts) + 1
    assert get_scenario("hadar-60gpu-v1:restore_s=0,spread=free").name == "hadar-60gpu-v1:spread=free,restore_s=0"
