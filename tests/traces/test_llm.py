"""Gangs that train transformers: worked examples, closed forms, published counts, an independent search, errors."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusched_env.errors import GpuschedError, TraceError, WorkloadError
from gpusched_env.traces.profile_tables.llm import (
    Option,
    Plan,
    Request,
    Run,
    best_plan,
    find_model,
    find_plans,
    known_models,
    llm_profiles,
    make_run,
    plans,
    refused,
)
from gpusched_env.traces.profile_tables.llm.anchors import Anchor, anchors
from gpusched_env.traces.profile_tables.llm.memory import memory
from gpusched_env.traces.profile_tables.llm.plans import timed
from gpusched_env.traces.profile_tables.llm.quantities import Gpu, Model, find_gpu, operations, shipped
from gpusched_env.traces.profile_tables.llm.times import iteration, volumes

EXAMPLE = Run(find_model("llama3.1-70b"), find_gpu("H100"), 128, 8192)  # section 1.4 of the specification
EXAMPLE_PLAN = Plan(tp=4, pp=4, vp=5, cp=2, dp=2)
BF16 = "BF16"


def seconds(run: Run, plan: Plan, inside: int = 0) -> float:
    return sum(iteration(run, plan, inside)[:2])


def test_worked_example() -> None:
    sent = volumes(EXAMPLE, EXAMPLE_PLAN, 8)
    assert sent.tp == 64 * 20 * 8 * 3 / 4 * 4096 * 8192 * 2
    assert sent.pp == 64 * 2 * 5 * 1024 * 8192 * 2
    assert sent.cp == pytest.approx(64 * 20 * 3 / 2 * 8192 * 2 * 8 * 128 * 2 / 4)
    assert sent.dp == pytest.approx(6 * 70.55e9 / 16 * 3 / 4, rel=1e-3)
    assert (sent.ep, sent.ep_nic, sent.fsdp) == (0, 0, 0)
    assert seconds(EXAMPLE, EXAMPLE_PLAN) == pytest.approx(14.56, abs=0.011)


@pytest.mark.parametrize(
    ("model", "gpus", "batch", "plan", "predicted"),
    [
        ("llama3.1-70b", 512, 1024, Plan(4, 4, 5, 2, 1, 16), 14.76),
        ("llama3.1-70b", 2048, 4096, Plan(4, 4, 5, 2, 1, 64), 14.88),
        ("llama3.1-405b", 1024, 512, Plan(8, 8, 8, 2, 1, 8), 20.31),
        ("llama3.1-8b", 8, 128, Plan(1, 1, 1, 2, 1, 4), 12.48),
        ("nemotron4-340b", 256, 64, Plan(8, 8, 12, 1, 1, 4), 4.46),
    ],
)
def test_predictions_of_the_specification(model: str, gpus: int, batch: int, plan: Plan, predicted: float) -> None:
    assert plan.gpus == gpus
    assert seconds(make_run(model, "H100", batch), plan) == pytest.approx(predicted, rel=2e-3)


@pytest.mark.parametrize(
    ("model", "seq", "gflop"),  # TFLOP/s / (tokens/s) that NVIDIA publishes
    [
        ("deepseek-v3", 4096, 260.02), ("llama3.1-405b", 8192, 2524.81), ("llama3-70b", 8192, 447.41),
        ("llama3-8b", 8192, 51.47), ("qwen3-235b-a22b", 4096, 148.14), ("qwen3-30b-a3b", 4096, 23.10),
        ("gpt-oss-120b", 4096, 32.61), ("kimi-k2", 4096, 204.58),
    ],
)  # fmt: skip
def test_published_operations(model: str, seq: int, gflop: float) -> None:
    assert sum(operations(find_model(model), seq)) / 1e9 == pytest.approx(gflop, rel=0.01)


@pytest.mark.parametrize(
    ("model", "parameters", "active"),
    [("llama3.1-405b", 405.85, 405.85), ("mixtral-8x7b", 46.70, 12.88), ("deepseek-v3-nomtp", 671.03, 37.55),
     ("kimi-k2", 1026.41, 32.86), ("gpt-oss-120b", 116.79, 5.71), ("gpt3-175b", 174.58, 174.58)],
)  # fmt: skip
def test_parameters(model: str, parameters: float, active: float) -> None:
    found = find_model(model)
    assert (found.parameters / 1e9, found.active_parameters / 1e9) == pytest.approx((parameters, active), rel=2e-3)


def test_lora_computes_no_gradients_of_frozen_weights() -> None:
    whole, frozen = (operations(EXAMPLE.model, 4096, kind) for kind in ("pretrain", "lora"))
    assert frozen.scores == whole.scores
    assert (frozen.layers + frozen.head) / sum(whole) == pytest.approx(0.64, abs=0.005)  # as NVIDIA counts
    run = EXAMPLE._replace(kind="lora")
    assert volumes(run, EXAMPLE_PLAN, 8).dp == 0
    assert memory(run, EXAMPLE_PLAN).optimizer == 0


def test_tensor_parallelism_beyond_a_server() -> None:
    """Section 2.3: a layer and micro batch of 8,192 tokens, TP 8: 1.27 ms in a server, 2.47 ms on 4 + 4 GPUs."""
    run, plan = EXAMPLE._replace(batch=1), Plan(tp=8)
    factor = 80 * 1e-3  # layers, ms; 8 GPUs have no jitter
    bare = iteration(run, plan)._replace(communication_s=0)
    together, apart = iteration(run, plan, 8), iteration(run, plan, 4)
    without = together.compute_s - factor * 1.267
    assert apart.compute_s - without == pytest.approx(factor * 1.086, rel=1e-3)
    assert apart.communication_s == pytest.approx(factor * 1.384, rel=1e-3)
    assert together.communication_s == bare.communication_s == 0


def test_experts_send_a_token_to_each_server_once() -> None:
    run = make_run("deepseek-v3-nomtp", "H100", 8192)
    plan = Plan(tp=2, pp=8, ep=64, dp=64)
    copies = 128 * 58 / 8 * 4 * 4096 / 2 * 8 * 7168 * 2  # of all tokens, in an iteration
    once = 8 * (1 - (7 / 8) ** 8) / 8
    sent = volumes(run, plan, 8)
    assert sent.ep == pytest.approx(copies * 63 / 64)
    assert sent.ep_nic == pytest.approx(copies * 56 / 64 * once)
    assert iteration(run, plan).ep_bytes * 56 / 63 == pytest.approx(0.43 * sent.ep_nic)  # for peers outside


@given(
    st.sampled_from(["llama3.1-8b", "qwen3-30b-a3b", "deepseek-v3"]), st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 2, 4]), st.integers(1, 64), st.integers(1, 131_072),
)  # fmt: skip
def test_time_is_affine_in_the_batch(model: str, tp: int, pp: int, cp: int, dp: int, seq: int) -> None:
    plan = Plan(tp, pp, 1, cp, 1, dp)
    first, second, third = (seconds(make_run(model, "GB200", n * dp * pp, seq), plan) for n in (1, 2, 3))
    assert 0 < first < second < third
    assert third - second == pytest.approx(second - first, rel=1e-9)


def test_memory_by_hand() -> None:
    run = make_run("llama3.1-8b", "H100", 8)
    used = memory(run, Plan(tp=2, pp=2, dp=2))
    layers = 16 * (4096 * 128 * (64 + 16) + 3 * 4096 * 14336)
    held = (layers + 4096 * 128256) / 2
    kept = 2 * 8192 / 2 * 16 * 2 * (4 * 4096 + 80 * 128 + 3 * 14336)  # two micro batches in flight
    assert used == (6 * held, 12 * held / 2, kept)
    full = memory(run, Plan(tp=2, pp=2, dp=2, recompute="full"))
    assert full.activations == 8192 / 2 * (2 * 16 * 2 * 4096 + 2 * (4 * 4096 + 80 * 128 + 3 * 14336))
    interleaved = memory(run, Plan(tp=2, pp=2, vp=4, dp=2))
    assert interleaved.activations == pytest.approx(used.activations / 2 * (2 + 1 / 4))
    sharded = memory(run, Plan(dp=8, sharding="fsdp"))
    assert sharded.parameters == 6 * run.model.parameters / 8


LEAST = {  # section 4: least GPUs, in powers of two, by the memory rule
    "llama3.1-8b": (4, 2, 1, 1), "llama3.1-70b": (32, 16, 8, 8), "llama3.1-405b": (128, 64, 64, 64),
    "gpt3-175b": (64, 32, 32, 32), "nemotron4-15b": (4, 4, 2, 2), "nemotron4-340b": (128, 64, 64, 64),
}  # fmt: skip


@pytest.mark.parametrize("model", LEAST)
def test_least_gpus(model: str) -> None:
    sizes = [2**power for power in range(8)]
    for gpu_type, least in zip(("H100", "H200", "B200", "GB200"), LEAST[model], strict=True):
        run = make_run(model, gpu_type, 256)
        assert next(gpus for gpus in sizes if best_plan(run, gpus)) == least
        assert "GB > 0.9 x" in refused(run, least // 2) if least > 1 else True


def fits(run: Run, gpus: int) -> set[Plan]:
    """All plans of a dense model without rows: what the rules of section 4 allow, by trying all numbers."""
    model, found = run.model, set()
    for tp, pp, vp, mbs in itertools.product((1, 2, 4, 8), range(1, 65), range(1, 65), (1, 2, 4, 8)):
        dp = gpus / (tp * pp)
        m = run.batch / (dp * mbs)
        stages = [n // pp for n in range(model.layers - 2, model.layers + 3) if n % pp == 0]
        if dp % 1 or m % 1 or m < pp or not stages or model.kv_heads % tp or max(stages) % vp:
            continue
        if vp > 1 and (pp == 1 or m % pp):
            continue
        for sharding in ("zero1", "fsdp") if pp == 1 and gpus <= 8 else ("zero1",):
            for recompute in ("none", "partial", "full"):
                plan = Plan(tp, pp, vp, 1, 1, int(dp), mbs, sharding, recompute)
                if sum(memory(run, plan)) <= 0.9 * 80e9:
                    found.add(plan)
                    break
    return found


@pytest.mark.parametrize(("gpus", "batch", "kv_heads"), [(8, 64, 40), (24, 96, 4), (16, 80, 2)])
def test_search_against_brute_force(gpus: int, batch: int, kv_heads: int) -> None:
    run = make_run(find_model("llama2-13b")._replace(kv_heads=kv_heads), "H100", batch)
    found = [option for option in find_plans(run, gpus) if not option.why_not]
    expected = fits(run, gpus)
    assert {option.plan for option in found} == expected
    assert expected
    assert found[0].seconds == min(seconds(run, plan) for plan in expected)
    assert [option.seconds for option in found] == sorted(option.seconds for option in found)


def test_refusals_tell_the_arithmetic() -> None:
    run = make_run("llama3.1-405b", "H100", 1024)
    for option in find_plans(run, 64):
        assert math.isinf(option.seconds)
        used = memory(run, option.plan)
        assert f"= {sum(used) / 1e9:.1f} GB > 0.9 x 80 = 72.0 GB" in option.why_not


def test_measured_rows_are_reproduced() -> None:
    """A row anchors itself, exactly, where it is the newest of its plan, size and batch."""
    newest = {(row[:4], row.plan, row.batch, row.seq): row for row in anchors()}
    assert len(newest) > 120
    for row in newest.values():
        found, basis = timed(row.run, row.plan, row.release)
        assert sum(found[:2]) == pytest.approx(row.step_s, rel=1e-12)
        assert basis == f"anchored ({row.release}, {row.gpus} GPUs)"


def test_mixtures_of_experts_and_nvfp4_are_anchored_or_refused() -> None:
    assert "mixture of experts" in refused(make_run("mixtral-8x7b", "H100", 256), 64)
    assert "NVFP4" in refused(make_run("nemotron4-340b", "GB300", 256, precision="NVFP4"), 64)
    for model, precision in (("gpt-oss-120b", BF16), ("llama3.1-70b", "NVFP4")):
        options = plans(model, 64, "GB200", 256, precision=precision)
        assert options
        assert all(option.basis.startswith("anchored") for option in options if not option.why_not)
    own = find_model("gpt-oss-120b")._replace(layers=40)  # another model of the same name
    assert "no row" in refused(make_run(own, "GB200", 256), 64)


def test_a_gpu_type_without_fitted_rows_says_so() -> None:
    best = best_plan(make_run("llama3.1-70b", "H200", 128), 16)
    assert best is not None
    assert best.basis == "± 15 %, with the efficiency of the H100"


def test_fsdp_beyond_a_domain_needs_a_measured_row() -> None:
    measured = [o for o in plans("llama3.1-70b", 64, "GB200", 256, precision="FP8") if o.plan.sharding == "fsdp"]
    assert any(option.basis.startswith("anchored") for option in measured)
    far = [o for o in plans("llama3.1-70b", 64, "H100", 256) if o.plan.sharding == "fsdp"]
    assert far
    assert all(option.why_not for option in far)


def test_profiles() -> None:
    requests = [
        Request("llama3.1-70b", 128, (16, 32, 64), ("H100", "GB200")),
        Request("llama3.1-8b", 64, (1, 8), ("H100",), kind="sft", seq=4096),
    ]
    made = llm_profiles(requests)
    assert made.rows["name"].tolist() == ["llama3.1-70b pretrain BF16 128", "llama3.1-8b sft BF16 64"]
    assert made.gpu_types == ("H100", "GB200")
    assert np.isinf(made.compute_s[1, 1])
    rows = {(row["profile"], row["gpu_type"], row["gpus"], row["tier"]): row for row in made.measured}
    best = best_plan(EXAMPLE, 64)
    assert isinstance(best, Option)
    assert rows[0, 0, 64, 0].tolist()[4:] == (best.compute_s, best.communication_s)
    assert math.isinf(rows[0, 0, 16, 0]["compute_s"])  # needs 32 H100
    assert math.isfinite(rows[0, 1, 16, 0]["compute_s"])
    alone, spread = rows[1, 0, 8, 0], rows[1, 0, 8, 1]
    assert alone["communication_s"] == 0 < spread["communication_s"]
    for row in made.plans:
        assert row["gpus"] == row["tp"] * row["cp"] * row["dp"] * row["pp"]
    [plan] = made.plans[(made.plans["profile"] == 0) & (made.plans["gpus"] == 64)]
    assert plan["dp_bytes"] == pytest.approx(0.6 * volumes(EXAMPLE, best.plan, 8).dp)


def test_one_plan_for_all_gpu_types() -> None:
    """PLAN_DTYPE has no GPU type, so a profile has one plan for a gang size: that of the first type that runs it."""
    made = llm_profiles([Request("llama3.1-70b", 128, (64,), ("H100", "GB200"))])
    assert len(made.plans) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "llama3-71b"}, "unknown model 'llama3-71b': did you mean"),
        ({"gpu_types": ("V100",)}, "unknown GPU type 'V100'"),
        ({"precision": "FP16"}, "unknown precision 'FP16'"),
        ({"gpu_types": ("A100-80",), "precision": "FP8"}, "A100-80 has no FP8 units: use BF16"),
        ({"precision": "MXFP8"}, "H100 has no MXFP8 units: use BF16 or FP8"),
        ({"kind": "dpo"}, "unknown kind of training 'dpo'"),
        ({"batch": 0}, "give at least 1"),
        ({"gpus": (0,)}, "give 1 to"),
        ({"gpus": (8,)}, "no gang can run; 8 H100: the plan of least memory: memory: "),
        ({"gpus": (7,)}, "no plan divides 7 GPUs, 80 layers and a batch of 128"),
        ({"model": "kimi-k2"}, "no row of pretrain in BF16 with 4096 tokens on H100 was measured"),
    ],
)
def test_bad_requests(change: dict[str, object], message: str) -> None:
    request = {"model": "llama3.1-70b", "batch": 128, "gpus": (64,)} | change
    with pytest.raises(WorkloadError, match=message.replace("(", r"\(")):
        llm_profiles([Request(**request)])  # type: ignore[arg-type]


COLUMNS = "model,layers,hidden,heads,kv_heads,head_dim,ffn,vocab"


def test_models_of_a_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"{COLUMNS},seq\nmine,32,4096,32,8,128,14336,128256,8192\n")
    mine = known_models(file)["mine"]
    assert mine.parameters == find_model("llama3.1-8b").parameters
    own = plans(mine, 8, "H100", 64)
    assert own[0].basis == "± 15 %"
    assert len(known_models(file)) == len(known_models()) + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{COLUMNS}\nmine,32,4096,32,8,128,14336,many\n", "line 2, column vocab: 'many' is not a whole number"),
        (f"{COLUMNS}\nmine,32,4096,32,8,128,14336\n", "line 2, column vocab: '' is not a whole number"),
        (f"{COLUMNS},depth\nmine,32,4096,32,8,128,14336,9,1\n", "line 2: unknown column 'depth'"),
        (f"{COLUMNS}\nmine,-1,4096,32,8,128,14336,9\n", "column layers: -1 must be"),
        (f"{COLUMNS}\nmine,0,4096,32,8,128,14336,9\n", "column layers: 0 must be"),
        ("", "no model"),
    ],
)
def test_bad_models_of_a_user(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(text)
    with pytest.raises(TraceError, match=message):
        known_models(file)
    with pytest.raises(GpuschedError, match="cannot be read"):
        known_models(tmp_path / "none.csv")


def test_data_name_their_sources_and_are_read_at_first_use() -> None:
    for kind, file in ((Model, "models.csv"), (Gpu, "gpus.csv"), (Anchor, "anchors.csv")):
        assert all(len(row.source) > 10 for row in shipped(kind, file))
    loads = "import gpusched_env.traces.profiles, gpusched_env.cli, sys"
    program = f"{loads}; assert not [name for name in sys.modules if 'profile_tables.llm' in name]"
    subprocess.run([sys.executable, "-c", program], check=True)
