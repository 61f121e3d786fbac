"""Memory of the fullest GPU of a gang, and why a plan does not fit."""

from __future__ import annotations

from typing import Final, NamedTuple

from gpusched_env.traces.profile_tables.llm.times import BF16_BYTES, Plan, Run, micro_batches

HELD_BYTES: Final = 6  # of a parameter: BF16 weights and FP32 gradients
OPTIMIZER_BYTES: Final = 12  # of a parameter: FP32 weights and two moments of Adam
LOGITS_BYTES: Final = 6  # of a token and word of the vocabulary
FILLED: Final = 0.9  # most of a GPU's memory that a plan may use; the rest is of the libraries, and fragmented
PARTIAL: Final = 0.5  # share of the activations that partial recomputation keeps (choice)


class Memory(NamedTuple):
    """Bytes of memory of the fullest GPU."""

    parameters: float  # with gradients
    optimizer: float
    activations: float  # with logits


def memory(run: Run, plan: Plan) -> Memory:
    """Return the memory of the fullest GPU.

    It is a bound: of a stage with as many micro batches in flight as the first one, and as many experts as the last.
    """
    model = run.model
    ends = model.hidden * model.vocab * (2 if plan.pp == 1 and not model.tied else 1)
    plain, moe = _stage(run, plan)
    dense = (model.shared_parameters(plain, moe) + ends) / plan.tp
    experts = moe * model.layer_experts / plan.ep
    ranks = plan.dp * plan.cp
    sharded = ranks if plan.sharding == "fsdp" else 1
    sharded_experts = max(plan.expert_dp, 1.0) if plan.sharding == "fsdp" else 1.0
    activations = _activations(run, plan)
    if run.kind == "lora":  # frozen weights, neither gradients nor optimizer
        return Memory(BF16_BYTES * (dense / sharded + experts / sharded_experts), 0.0, activations)
    return Memory(
        HELD_BYTES * (dense / sharded + experts / sharded_experts),
        OPTIMIZER_BYTES * (dense / ranks + experts / max(plan.expert_dp, 1.0)),
        activations,
    )


def _stage(run: Run, plan: Plan) -> tuple[float, float]:
    """Return how many layers without and with experts the fullest stage has."""
    model = run.model
    layers = (model.layers + model.mtp) / plan.pp
    moe = min(layers, model.moe_layers)
    return layers - moe, moe


def _activations(run: Run, plan: Plan) -> float:
    """Return the bytes of activations that the first stage keeps for the micro batches in flight, and of logits."""
    model, h, matrices = run.model, run.model.hidden, run.model.matrices
    attention = (2 * model.heads + 2 * model.kv_heads) * model.head_dim
    if model.kv_rank:
        attention = model.q_rank + model.kv_rank + model.rope_dim
        attention += model.heads * (2 * (model.head_dim + model.rope_dim) + 2 * model.value_dim)
    dense = BF16_BYTES * (4 * h + attention + matrices * model.ffn)
    routed = model.top_k * (2 * h + matrices * model.moe_ffn) + matrices * model.shared_ffn
    experts = BF16_BYTES * (4 * h + attention + routed)
    plain, moe = _stage(run, plan)
    kept, at_work = plain * dense + moe * experts, 0.0
    if plan.recompute == "full":  # the inputs of all layers, and all activations of one layer
        kept, at_work = BF16_BYTES * h * (plain + moe), experts if moe else dense
    elif plan.recompute == "partial":
        kept *= PARTIAL
    in_flight = min(micro_batches(run, plan), plan.pp) + ((plan.pp - 1) / plan.vp if plan.vp > 1 else 0.0)
    tokens = plan.mbs * run.seq / plan.cp / plan.tp
    logits = LOGITS_BYTES * model.vocab * tokens if plan.pp == 1 else 0.0
    return tokens * (in_flight * kept + at_work) + logits


def why_not(run: Run, plan: Plan, used: Memory) -> str:
    """Return the arithmetic by which a plan does not fit into the memory of a GPU; "" = it fits."""
    most, needed = FILLED * run.gpu.hbm_GB, sum(used)
    if needed <= most * 1e9:
        return ""
    parts = (f"{bytes_ / 1e9:.1f} {name}" for name, bytes_ in zip(Memory._fields, used, strict=True) if bytes_)
    return f"memory: {' + '.join(parts)} = {needed / 1e9:.1f} GB > {FILLED:g} x {run.gpu.hbm_GB:g} = {most:.1f} GB"
