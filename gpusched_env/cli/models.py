"""``gpusched models``: transformers, and the plans by which gangs train them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gpusched_env.errors import WorkloadError
from gpusched_env.support.commands import Commands
from gpusched_env.support.consoles import console, plain_table, show

if TYPE_CHECKING:
    from gpusched_env.traces.profile_tables.llm import Option

models_app = Commands("List transformers, show one, and plan the gangs that train it.")
Name = Annotated[str, typer.Argument(metavar="MODEL", help="Name (gpusched models list).")]
Own = Annotated[Path | None, typer.Option(metavar="FILE", help="A CSV of your own models (docs/llm.md).")]
PLAN: Final = ("TP", "PP", "VP", "CP", "EP", "DP", "micro batch", "sharding", "recompute")


@models_app.add("list", tables=True)
def list_models(models: Own = None) -> None:
    """List the models: parameters, operations of a token, and the GPU types on which they were measured."""
    from gpusched_env.traces.profile_tables.llm import known_models
    from gpusched_env.traces.profile_tables.llm.anchors import anchors
    from gpusched_env.traces.profile_tables.llm.quantities import operations

    table = plain_table("model", "measured on", "parameters [1e9]", "active", "tokens", "GFLOP/token", texts=2)
    rows = []
    for model in known_models(models).values():
        gpus = sorted({row.gpu for row in anchors() if row.model == model.model})
        flop = sum(operations(model, model.seq)) / 1e9
        rows.append(
            dict(model=model.model, measured_on=gpus, parameters=model.parameters, active=model.active_parameters,
                 seq=model.seq, gflop_per_token=flop)
        )  # fmt: skip
        numbers = (f"{n / 1e9:.1f}" for n in (model.parameters, model.active_parameters))
        table.add_row(model.model, " ".join(gpus), *numbers, f"{model.seq:,}", f"{flop:.1f}")
    show(table, rows=rows)


@models_app.add("show", tables=True)
def show_model(model: Name, models: Own = None) -> None:
    """Tell the dimensions of a model, and the measured iterations that anchor its plans."""
    from gpusched_env.traces.profile_tables.llm import find_model, known_models
    from gpusched_env.traces.profile_tables.llm.anchors import anchors, way

    found = find_model(model, known_models(models))
    words = (f"{name} {value}" for name, value in found._asdict().items() if value and name not in ("model", "source"))
    console().print(f"{found.model}: {', '.join(words)}; {found.source}", markup=False, soft_wrap=True)
    table = plain_table("GPU", "precision", "kind", "release", "TP PP VP CP mbs", "EP", "GPUs", "batch", "s", texts=5)
    rows = [row for row in anchors() if row.model == found.model]
    for row in rows:
        counts = (row.ep, row.gpus, row.batch)
        told = (row.gpu, row.precision, row.kind, row.release, " ".join(map(str, way(row))))
        table.add_row(*told, *(f"{count:,}" for count in counts), f"{row.step_s:.2f}")
    show(table, "measured iterations" if rows else "no measured iterations", rows=[row._asdict() for row in rows])


@dataclass(frozen=True, kw_only=True)
class Gang:
    """A gang, and what it trains."""

    gpus: Annotated[int, typer.Option(min=1)]
    """GPUs of the gang."""
    gpu_type: Annotated[str, typer.Option("--type", metavar="GPU")]
    """GPU type."""
    batch: Annotated[int, typer.Option(min=1)] = 1024
    """Sequences of an iteration, of all GPUs together."""
    seq: Annotated[int | None, typer.Option(min=1, show_default="the model's")] = None
    """Tokens of a sequence."""
    precision: str = "BF16"
    """Of matrix products: BF16, FP8, MXFP8 or NVFP4."""
    kind: str = "pretrain"
    """What is trained: pretrain, sft or lora."""
    release: Annotated[str, typer.Option(show_default="any")] = ""
    """Compare with measured iterations of this release of the software (gpusched models show)."""


@models_app.add("plan", tables=True)
def plan_model(
    model: Name,
    gang: Gang,
    top: Annotated[int, typer.Option(min=1, help="Plans to print, and as many that are refused.")] = 10,
    models: Own = None,
) -> None:
    """Print the fastest plans of a gang: seconds of an iteration, memory, how exact; and why others are refused.

    Example: gpusched models plan llama3.1-70b --gpus 64 --type H100 --batch 128
    """
    from gpusched_env.traces.profile_tables.llm import find_model, find_plans, known_models, make_run, refused

    run = make_run(
        find_model(model, known_models(models)), gang.gpu_type, gang.batch, gang.seq, gang.precision, gang.kind
    )
    found = find_plans(run, gang.gpus, gang.release)
    what = f"{run.model.model} on {gang.gpus} {gang.gpu_type}"
    if not found:
        raise WorkloadError(f"{what}: {refused(run, gang.gpus, gang.release)}")
    fit = [option for option in found if not option.why_not]
    least: dict[tuple[int, int, str], Option] = {}  # of each degree, the plan that needs the least memory
    for option in sorted(found[len(fit) :], key=lambda option: option.memory_bytes):
        least.setdefault((option.plan.tp, option.plan.pp, option.plan.sharding), option)
    table = plain_table(*PLAN, "s/iteration", "exposed s", "tokens/s/GPU", "GB", "basis", texts=0)
    others = plain_table(*PLAN, "refused because", texts=0)
    others.columns[-1].justify = "left"
    rows: tuple[list[dict[str, Any]], list[dict[str, Any]]] = [], []
    for option in [*fit[:top], *list(least.values())[:top]]:
        row = {**option.plan._asdict(), "memory_bytes": option.memory_bytes}
        if option.why_not:
            others.add_row(*map(str, option.plan), option.why_not)
            rows[1].append(row | {"why_not": option.why_not})
            continue
        speed = run.batch * run.seq / option.seconds / gang.gpus
        times = f"{option.seconds:.2f}", f"{option.communication_s:.2f}", f"{speed:,.0f}"
        table.add_row(*map(str, option.plan), *times, f"{option.memory_bytes / 1e9:.1f}", option.basis)
        names = ("seconds", "compute_s", "communication_s", "basis")
        rows[0].append(row | {name: getattr(option, name) for name in names} | {"tokens_per_s_gpu": speed})
    words = f"{run.batch} x {run.seq:,} tokens, {run.precision}, {run.kind}"
    title = f"{what}, {words}: {len(fit)} plans fit, {len(found) - len(fit)} do not"
    show(table if fit else others, title, rows=rows[not fit])
    if fit and least:
        show(others, "do not fit", rows=rows[1])
