"""Seconds of an iteration of a gang by its plan: what each group sends, and what that and the operations take.

Constants are in ``constants.toml``, which names the study that fitted them.
"""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any, Final, NamedTuple

from gpusched_env.portable.elementary import log2, power
from gpusched_env.traces.profile_tables.llm.quantities import FOLDER, Gpu, Model, operations

BF16_BYTES: Final = 2
SYNC_BYTES: Final = 6  # of a parameter: FP32 gradients are reduced and scattered, BF16 parameters gathered
COLLECTIVES: Final = 8  # of a layer with tensor and sequence parallelism: 4 all-gathers, 4 reduce-scatters


class Plan(NamedTuple):
    """How a gang divides a model: degrees of parallelism, and what saves memory.

    ``sharding`` : "zero1" = each data-parallel rank has a part of the optimizer; "fsdp" = of the parameters as well
    ``recompute`` : activations that the backward pass computes again: "none", "partial" or "full"
    """

    tp: int = 1  # tensor
    pp: int = 1  # pipeline stages
    vp: int = 1  # parts of a stage (interleaved 1F1B)
    cp: int = 1  # context
    ep: int = 1  # experts, over ranks of tp, cp and dp
    dp: int = 1  # data
    mbs: int = 1  # [sequence] of a micro batch
    sharding: str = "zero1"
    recompute: str = "none"

    @property
    def gpus(self) -> int:
        """GPUs of the gang."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def expert_dp(self) -> float:
        """Ranks that have the same experts."""
        return self.dp * self.cp * self.tp / self.ep


class Run(NamedTuple):
    """What a gang trains, whatever its size and plan."""

    model: Model
    gpu: Gpu
    batch: int  # [sequence] of an iteration, of all GPUs together
    seq: int  # [token] of a sequence
    precision: str = "BF16"  # of matrix products
    kind: str = "pretrain"


class Volumes(NamedTuple):
    """Bytes that a GPU sends in an iteration, by group."""

    tp: float
    cp: float
    pp: float
    ep: float
    ep_nic: float  # beyond the domain, where a token goes to each server once
    once: float  # share of the tokens' copies that this leaves
    dp: float  # of dense parameters and experts; 0 if fsdp
    fsdp: float


class Times(NamedTuple):
    """Seconds of an iteration: what stays in servers and what is left of the rest, and the bytes of the latter.

    ``*_bytes`` : exposed bytes that a GPU would send to other servers if all peers of the group were there
    """

    compute_s: float
    communication_s: float
    tp_bytes: float
    dp_bytes: float
    pp_bytes: float
    ep_bytes: float


class Constants(NamedTuple):
    """Constants of the formula; a study may pass others than :func:`constants`."""

    formula: Any
    efficiency: Any  # share of the peak of matrix products, by GPU type
    quantised: Any  # further factor of this share, by generation and precision


@cache
def constants() -> Constants:
    """Return the frozen constants."""
    data = tomllib.loads((FOLDER / "constants.toml").read_text(encoding="utf-8"))
    return Constants(*(data[name] for name in Constants._fields))


def micro_batches(run: Run, plan: Plan) -> float:
    """Micro batches of an iteration on each data-parallel rank."""
    return run.batch / (plan.dp * plan.mbs)


def volumes(run: Run, plan: Plan, domain: int) -> Volumes:
    """Return the bytes that a GPU sends in an iteration; ``domain``: GPUs of the gang that NVLink joins."""
    model, m = run.model, micro_batches(run, plan)
    tokens = plan.mbs * run.seq / plan.cp  # of a micro batch on a rank
    layers = (model.layers + model.mtp) / plan.pp
    row = model.hidden * BF16_BYTES
    again = 1.25 if plan.recompute == "full" else 1.0
    keys = model.kv_rank + model.rope_dim if model.kv_rank else 2 * model.kv_heads * model.head_dim / plan.tp
    sent = m * model.moe_layers / plan.pp * 4 * tokens / plan.tp * model.top_k * row
    servers = plan.ep / domain
    once = servers * (1 - power(1 - 1 / servers, model.top_k)) / model.top_k if servers > 1 else 1.0
    ranks = plan.dp * plan.cp
    trained = run.kind != "lora"
    dense = (model.parameters - model.expert_parameters) / (plan.tp * plan.pp)
    experts = model.expert_parameters / (plan.pp * plan.ep)
    shared = SYNC_BYTES * dense * (1 - 1 / ranks)
    of_experts = SYNC_BYTES * experts * (1 - 1 / max(plan.expert_dp, 1.0))
    fsdp = plan.sharding == "fsdp"
    return Volumes(
        tp=m * layers * COLLECTIVES * again * (plan.tp - 1) / plan.tp * tokens * row,
        cp=m * layers * 3 * (plan.cp - 1) / plan.cp * plan.mbs * run.seq * BF16_BYTES * keys,
        pp=m * 2 * plan.vp * tokens / plan.tp * row if plan.pp > 1 else 0.0,
        ep=sent * (plan.ep - 1) / plan.ep,
        ep_nic=sent * max(plan.ep - domain, 0) / plan.ep * once,
        once=once,
        dp=(0.0 if fsdp else shared + of_experts) * trained,
        fsdp=m * (shared + of_experts) * (1.0 if trained else 2 / 3) if fsdp else 0.0,
    )


def iteration(run: Run, plan: Plan, inside: int = 0, fitted: Constants | None = None) -> Times:
    """Return the seconds of an iteration by the formula; ``inside``: GPUs of the gang in a server, 0 = all that fit."""
    fitted = fitted or constants()
    c, gpu = fitted.formula, run.gpu
    domain = min(inside or gpu.domain, plan.gpus)
    spread = plan.gpus > domain
    nv, nic = gpu.nvlink_GBps * 1e9, gpu.nic_GBps * 1e9
    sent, m, ranks = volumes(run, plan, domain), micro_batches(run, plan), plan.dp * plan.cp
    # Tensor parallelism beyond a server: first inside, then every GPU with its peers outside
    near = min(plan.tp, domain)
    gathered = c["tp"] * sent.tp / (1 - 1 / plan.tp) if plan.tp > 1 else 0.0
    tp_nv, tp_nic = gathered * (1 - 1 / near), gathered * (1 - near / plan.tp) / near
    pp, ep_nic = c["pp"] * sent.pp, c["ep_nic"] * sent.ep_nic
    inner = min(ranks, max(domain // plan.tp, 1))  # members of the data-parallel group in a server share their NICs
    crosses = ranks > inner
    rate = nic * inner if crosses else nv
    inside_bytes = tp_nv + c["ep_nv"] * sent.ep + (0.0 if spread else pp)
    context_s = c["cp"] * sent.cp / m / (nic if plan.tp * plan.cp > domain else nv)
    stage = _compute_s(run, plan, fitted) + inside_bytes / m / nv + context_s
    crossing = (tp_nic + ep_nic + (pp if spread else 0.0)) / m / nic
    busy = stage + crossing
    order = c["fsdp_norm"]  # of the overlap of what a stage does and what FSDP gathers for it
    norm = power(power(busy, order) + power(sent.fsdp / m / rate, order), 1 / order)
    waits = max(norm - busy, 0.0) if sent.fsdp else 0.0
    dp = c["dp"] * sent.dp / rate
    steps = m + (plan.pp - 1) / plan.vp
    factor = 1 + c["jitter"] * log2(max(plan.gpus / 8, 1))
    fixed = c["fixed_s"] + (_optimizer_s(run, plan, c["optimizer_bytes"]) if run.kind != "lora" else 0.0)
    exchanged = steps * waits + dp
    compute = steps * stage + fixed + (0.0 if crosses else exchanged)
    communication = steps * crossing + (exchanged if crosses else 0.0)
    exposed = c["tp"] * sent.tp, exchanged * rate, pp, c["ep_nic"] * sent.ep * sent.once
    return Times(factor * compute, factor * communication, *exposed)


def _optimizer_s(run: Run, plan: Plan, touched: float) -> float:
    """Return the seconds of the optimizer, which reads and writes ``touched`` bytes of memory for each parameter."""
    dense = (run.model.parameters - run.model.expert_parameters) / (plan.tp * plan.pp * plan.dp)
    experts = run.model.expert_parameters / (plan.pp * plan.ep * max(plan.expert_dp, 1.0))
    return touched * (dense + experts) / (run.gpu.hbm_TBps * 1e12)


def _compute_s(run: Run, plan: Plan, fitted: Constants) -> float:
    """Return the seconds that a stage computes on a micro batch."""
    c, gpu, model = fitted.formula, run.gpu, run.model
    each = operations(model, run.seq, run.kind)
    share = fitted.efficiency[gpu.fitted_as]
    bf16 = gpu.peak("BF16")
    rate = gpu.peak(run.precision) * share
    if run.precision != "BF16":
        rate *= fitted.quantised["Hopper" if gpu.fp4_tflops == 0 else "Blackwell"][run.precision]
    again = c["recompute"][plan.recompute]
    matrices = again * (each.layers + each.experts / c["experts"]) / rate
    tokens = plan.mbs * run.seq / plan.cp / (plan.tp * plan.pp)
    seconds = matrices + each.head / (bf16 * share) + each.scores / (bf16 * c["scores"])
    return tokens * seconds + c["layer_s"] * (model.layers + model.mtp) / plan.pp
