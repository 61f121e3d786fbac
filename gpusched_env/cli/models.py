"""``gpusched models``: transformers, and the plans by which gangs train them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gpusched_env.errors import WorkloadError
from gpusched_env.support.commands import Commands
from gpusched_env.support.consoles import console, plain_table, show

if TYPE_CHECKING:
    from gpusched_env.traces.profile_tables.llm import Option, Run

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


@models_app.add("plan", tables=True)
def plan_model(
    model: Name,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the gang.")],
    gpu_type: Annotated[str, typer.Option("--type", metavar="GPU", help="GPU type.")],
    batch: Annotated[int, typer.Option(min=1, help="Sequences of an iteration, of all GPUs together.")] = 1024,
    seq: Annotated[int | None, typer.Option(min=1, help="Tokens of a sequence.", show_default="the model's")] = None,
    precision: Annotated[str, typer.Option(help="BF16, FP8, MXFP8 or NVFP4, of matrix products.")] = "BF16",
    kind: Annotated[str, typer.Option(help="pretrain, sft or lora.")] = "pretrain",
    release: Annotated[str, typer.Option(help="Anchors of this release of the software.", show_default="newest")] = "",
    top: Annotated[int, typer.Option(min=1, help="Plans to print, and as many that are refused.")] = 10,
    models: Own = None,
) -> None:
    """Print the fastest plans of a gang: seconds of an iteration, memory, how exact; and why others are refused.

    Example: gpusched models plan llama3.1-70b --gpus 64 --type H100 --batch 128
    """
    from gpusched_env.traces.profile_tables.llm import find_model, find_plans, known_models, make_run, refused

    run = make_run(find_model(model, known_models(models)), gpu_type, batch, seq, precision, kind)
    found = find_plans(run, gpus, release)
    fit = [option for option in found if not option.why_not]
    if not found:
        raise WorkloadError(f"{run.model.model} on {gpus} {gpu_type}: {refused(run, gpus, release)}")
    table = plain_table(*PLAN, "s/iteration", "exposed s", "tokens/s/GPU", "GB", "basis", texts=0)
    for option in fit[:top]:
        seconds = (
            f"{option.seconds:.2f}",
            f"{option.communication_s:.2f}",
            f"{run.batch * run.seq / option.seconds / gpus:,.0f}",
        )
        table.add_row(*map(str, option.plan), *seconds, f"{option.memory_bytes / 1e9:.1f}", option.basis)
    words = f"{run.batch} x {run.seq:,} tokens, {run.precision}, {run.kind}"
    title = f"{run.model.model} on {gpus} {gpu_type}, {words}: {len(fit)} plans fit, {len(found) - len(fit)} do not"
    show(table, title, rows=[_row(option, run) for option in fit[:top]])
    others = plain_table(*PLAN, "refused because", texts=0)
    others.columns[-1].justify = "left"
    least: dict[tuple[int, int, str], Option] = {}  # of each degree, the plan that needs the least memory
    for option in sorted(found[len(fit) :], key=lambda option: option.memory_bytes):
        least.setdefault((option.plan.tp, option.plan.pp, option.plan.sharding), option)
    shown = list(least.values())[:top]
    for option in shown:
        others.add_row(*map(str, option.plan), option.why_not)
    if shown:
        show(others, "do not fit", rows=[_row(option, run) for option in shown])


def _row(option: Option, run: Run) -> dict[str, Any]:
    """Return an option as ``--json`` prints it."""
    row = option._asdict() | option.plan._asdict()
    del row["plan"]
    if option.why_not:
        return {name: value for name, value in row.items() if not name.endswith(("seconds", "_s", "basis"))}
    return row | {"tokens_per_s_gpu": run.batch * run.seq / option.seconds / option.plan.gpus}
