"""Refit the constants of LLM iterations to published measurements, and print how exact the formula is.

``python -m studies.llm_calibration FOLDER`` reads the tables of ``FOLDER`` (nvidia_bridge.csv, dgxc_scaling.csv, ...),
fits the efficiency ``e`` of each GPU type and the factor ``q`` of quantised matrix products of each generation to the
dense rows, and prints errors: on all rows, on the other half of the configurations (ten random halves), of left-out
models, and of rows that are scaled from one measured row of the same job. ``--write`` replaces ``anchors.csv`` of the
package. ``constants.toml`` keeps the rounded fit of the specification, whose rows are these and 18 that are kept for
verification; this program tells how far a fit to the rows at hand is from it.

The protocol: a row weighs 1 / sqrt(rows of its configuration); a residual is log(predicted / measured); the loss is
soft-L1 at 0.1. A configuration is (source, model, GPU type, precision, parallelism), because rows of one configuration
at other gang sizes, or of other releases, are near copies.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import typer
from rich.table import Table

from gpusched_env.errors import TraceError, WorkloadError
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console
from gpusched_env.support.files import write_whole
from gpusched_env.traces.profile_tables.llm.anchors import Anchor
from gpusched_env.traces.profile_tables.llm.memory import memory
from gpusched_env.traces.profile_tables.llm.quantities import (
    FOLDER,
    Model,
    find_gpu,
    find_model,
    known_models,
    operations,
)
from gpusched_env.traces.profile_tables.llm.times import Constants, Plan, Run, constants, iteration

BRIDGE: Final = {  # names of nvidia_bridge.csv; the others are models whose dimensions are not published there
    "LLAMA3_8B": "llama3.1-8b", "LLAMA3_70B": "llama3.1-70b", "LLAMA3.1_405B": "llama3.1-405b",
    "DeepSeekV3": "deepseek-v3", "DeepSeekV3 (w/ MTP)": "deepseek-v3", "DeepSeekV3 (dropless)": "deepseek-v3",
    "DeepSeekV3 (w/o MTP)": "deepseek-v3-nomtp", "GPT OSS 120B": "gpt-oss-120b", "Kimi_K2": "kimi-k2",
    "Qwen3_30B_a3B": "qwen3-30b-a3b", "Qwen3_235B_a22B": "qwen3-235b-a22b",
}  # fmt: skip
SIMUMAX: Final = {
    "llama3_70b": "llama3.1-70b", "llama3_405b": "llama3.1-405b", "deepseekv2": "deepseek-v2",
    "deepseekv3": "deepseek-v3-nomtp",
}  # fmt: skip
SIMUMAX_GPU: Final = "B200 (SimuMax)"  # its software has an efficiency of its own
GENERATIONS: Final = {"Hopper": ("FP8",), "Blackwell": ("FP8", "MXFP8")}
KNEE: Final = 0.1  # of the soft-L1 loss
SPLITS: Final = 10


class Row(NamedTuple):
    """A measured iteration."""

    run: Run
    plan: Plan
    step_s: float
    stack: str  # software
    release: str
    source: str
    fitted: bool = True

    @property
    def configuration(self) -> tuple[Any, ...]:
        """What rows share that are near copies."""
        plan, run = self.plan, self.run
        ways = plan.tp, plan.pp, plan.vp, plan.cp, plan.ep, plan.mbs, plan.sharding, plan.recompute
        return self.stack, run.model.model, run.gpu.gpu, run.precision, run.kind, run.seq, *ways

    def error(self, fitted: Constants | None = None) -> float:
        """Return log(predicted / measured)."""
        return float(np.log(sum(iteration(self.run, self.plan, fitted=fitted)[:2]) / self.step_s))


def read_rows(folder: Path) -> list[Row]:
    """Return all measured rows of a folder whose models are known."""
    rows = []
    for name, read in READERS.items():
        path = folder / name
        try:
            table = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        except OSError as error:
            raise TraceError(f"{path}: cannot be read ({error}); name the folder of the measured tables") from error
        rows += [row for one in table if (row := read(one)) is not None]
    return rows


def _whole(row: dict[str, str], name: str) -> int:
    text = row.get(name, "")
    return int(text) if text and text != "n/a" else 1


def _plan(row: dict[str, str], **more: Any) -> Plan:
    tp, pp, cp = (_whole(row, name) for name in ("tp", "pp", "cp"))
    dp = _whole(row, "gpus") // (tp * pp * cp)
    return Plan(tp, pp, _whole(row, "vp"), cp, _whole(row, "ep"), dp, _whole(row, "mbs"), **more)


def _bridge(row: dict[str, str]) -> Row | None:
    model = BRIDGE.get(row["model"])
    if model is None:
        return None
    precision = {"FP8-CS": "FP8", "FP8-MX": "MXFP8"}.get(row["precision"], row["precision"])
    run = Run(find_model(model), find_gpu(row["system"]), int(row["gbs"]), int(row["seq"]), precision, row["kind"])
    plan = _plan(row, sharding="fsdp" if int(row["fsdp"]) > 1 else "zero1")
    step = run.batch * run.seq / (plan.gpus * float(row["tokens_s_gpu"]))
    fitted = not run.model.experts and precision != "NVFP4" and run.kind != "lora"
    return Row(run, plan, step, "nemo", row["release"] + " Megatron-Bridge", row["source"], fitted)


def _dgxc(row: dict[str, str]) -> Row | None:
    name, _, layers = row["model"].partition("-L")
    name = {"llama4-maverick-400b": "llama4-maverick", "deepseek-v3": "deepseek-v3-nomtp"}.get(name, name)
    if int(row["etp"]) > 1:  # tensor parallelism of experts is no part of the formula
        return None
    model = find_model(name)
    if layers:
        model = model._replace(layers=int(layers), model=row["model"])
    run = Run(model, find_gpu(row["gpu"]), int(row["gbs"]), int(row["seq"]), row["precision"])
    release = "25.05 NeMo" if "25.05" in row["source"] else "25.03 NeMo"
    return Row(run, _plan(row), float(row["step_s"]), "nemo", release, row["source"], not model.experts)


def _simumax(row: dict[str, str]) -> Row | None:
    whole = find_model(SIMUMAX[row["model"]])
    model = whole._replace(layers=int(row["layers"]), dense_layers=1 if whole.experts else 0)
    gpu = find_gpu(row["gpu"])._replace(fitted_as=SIMUMAX_GPU)
    run = Run(model, gpu, int(row["dp"]) * int(row["micro_batches"]), int(row["seq"]))
    return Row(run, _plan(row), float(row["step_s"]), "simumax", "", row["source"], not model.experts)


def _paper(row: dict[str, str]) -> Row | None:
    if row["set"] == "deepseek":  # H800 with FP8: from memory
        return None
    layers, hidden, heads, vocab = (int(row[name]) for name in ("layers", "hidden", "heads", "vocab"))
    if row["model"] in known_models():
        model = find_model(row["model"])
    else:
        ends: dict[str, Any] = dict(gated=0, tied=1, source=row["source"])
        model = Model(row["model"], layers, hidden, heads, heads, hidden // heads, vocab, 4 * hidden, **ends)
    run = Run(model, find_gpu(row["gpu"]), int(row["gbs"]), int(row["seq"]), row["precision"])
    plan = _plan(row, recompute="full" if row["recompute"] == "full" else "none")
    if row["set"] == "llama3":  # interleaved; a part of a stage is a layer
        plan = plan._replace(vp=layers // plan.pp)
    step = float(row["step_s"] or 0)
    if not step:
        each = operations(model, run.seq)
        counted = sum(each)
        if row["set"] == "sc21":  # counts recomputation, and scores that are not causal
            counted = 4 / 3 * (each.layers + 2 * each.scores) + each.head
        step = run.batch * run.seq * counted / (plan.gpus * float(row["tflops_gpu"]) * 1e12)
    return Row(run, plan, step, row["set"], "", row["source"], row["set"] in ("sc21", "korthikanti"))


def _automodel(row: dict[str, str]) -> Row | None:
    try:
        model = find_model(row["model"])
    except WorkloadError:  # dimensions that are not published there
        return None
    run = Run(model, find_gpu(row["gpu"]), int(row["gbs"]), int(row["seq"]), row["precision"], row["kind"])
    plan = _plan(row, sharding="fsdp" if int(row["fsdp"]) > 1 else "zero1")
    return Row(run, plan, float(row["step_s"]), "automodel", "25.10 AutoModel", row["source"], False)


READERS: Final[dict[str, Callable[[dict[str, str]], Row | None]]] = {
    "nvidia_bridge.csv": _bridge,
    "dgxc_scaling.csv": _dgxc,
    "simumax_b200.csv": _simumax,
    "papers.csv": _paper,
    "automodel_h100.csv": _automodel,
}


def fit(rows: Sequence[Row]) -> Constants:
    """Return the constants with e and q refitted to rows."""
    from scipy.optimize import least_squares

    start = constants()
    gpus = sorted({row.run.gpu.fitted_as for row in rows})
    generations = [name for name in GENERATIONS if any(_generation(row) == name for row in rows)]
    count: dict[Any, int] = defaultdict(int)
    for row in rows:
        count[row.configuration] += 1
    weight = np.sqrt([1 / np.sqrt(count[row.configuration]) for row in rows])

    def put(values: np.ndarray) -> Constants:
        efficiency = {**start.efficiency, **dict(zip(gpus, values.tolist(), strict=False))}
        quantised = {name: dict(shares) for name, shares in start.quantised.items()}
        for name, value in zip(generations, values.tolist()[len(gpus) :], strict=True):
            quantised[name].update(dict.fromkeys(GENERATIONS[name], value))
        return start._replace(efficiency=efficiency, quantised=quantised)

    def residuals(values: np.ndarray) -> np.ndarray:
        fitted = put(values)
        return weight * np.array([row.error(fitted) for row in rows])

    first = np.array([0.55] * len(gpus) + [0.85] * len(generations))
    return put(least_squares(residuals, first, loss="soft_l1", f_scale=KNEE, bounds=(0.05, 1.5)).x)


def _generation(row: Row) -> str:
    return "" if row.run.precision == "BF16" else "Blackwell" if row.run.gpu.fp4_tflops else "Hopper"


def write_anchors(rows: Sequence[Row], path: Path) -> None:
    """Write the newest row of each plan, gang size and batch of NVIDIA's releases; other stacks are no anchors."""
    newest: dict[Any, Row] = {}
    for row in rows:
        if row.stack == "nemo" and row.run.model.model in known_models():
            key = (row.configuration, row.plan.gpus, row.run.batch)
            if key not in newest or newest[key].release < row.release:
                newest[key] = row
    lines = [",".join(Anchor._fields)]
    order = sorted(newest.values(), key=lambda row: (row.run.model.model, row.run.gpu.gpu, row.release, row.run.batch))
    for row in order:
        run, plan = row.run, row.plan
        kind = "lora" if run.kind == "lora" else "pretrain"
        told = (run.model.model, run.gpu.gpu, run.precision, kind, row.release, plan.gpus, run.batch, run.seq)
        ways = (plan.sharding, plan.tp, plan.pp, plan.vp, plan.cp, plan.ep, plan.mbs)
        lines.append(",".join(map(str, (*told, *ways, f"{row.step_s:.5g}", '"' + row.source + '"'))))
    write_whole(path, "\n".join(lines) + "\n")


def errors(rows: Sequence[Row], fitted: Constants | None = None) -> np.ndarray:
    """Return |predicted / measured - 1| of rows."""
    return np.abs(np.expm1([row.error(fitted) for row in rows]))


def other_halves(rows: Sequence[Row], splits: int) -> list[np.ndarray]:
    """Return the errors on the configurations that were not fitted, for random halves of them."""
    rng = np.random.default_rng(0)
    configurations = sorted({row.configuration for row in rows}, key=str)
    found = []
    for _ in range(splits):
        order = rng.permutation(len(configurations))
        half = {configurations[i] for i in order[: len(order) // 2]}
        fitted = fit([row for row in rows if row.configuration in half])
        found.append(errors([row for row in rows if row.configuration not in half], fitted))
    return found


def anchored(rows: Sequence[Row]) -> np.ndarray:
    """Return the errors of rows that are scaled from the smallest gang of the same configuration and release."""
    jobs: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        jobs[(*row.configuration, row.release)].append(row)
    found = []
    for same in jobs.values():
        base = min(same, key=lambda row: (row.plan.gpus, row.run.batch))
        size = base.plan.gpus, base.run.batch
        found += [row.error() - base.error() for row in same if (row.plan.gpus, row.run.batch) != size]
    return np.abs(np.expm1(found))


def peaks(folder: Path) -> np.ndarray:
    """Return predicted / measured - 1 of the peak memory that SimuMax's authors measured."""
    table = csv.DictReader((folder / "simumax_b200.csv").read_text(encoding="utf-8").splitlines())
    found = []
    for row in table:
        read = _simumax(row)
        assert read is not None
        found.append(sum(memory(read.run, read.plan)) / (float(row["peak_alloc_gib"]) * 2**30) - 1)
    return np.array(found)


def report(rows: Sequence[Row], folder: Path, splits: int) -> Table:
    """Return the table of section 3 of the specification."""
    dense = [row for row in rows if row.fitted]
    refitted = fit(dense)
    table = Table("rows", "number", "median", "90th", "worst", "goal", title="|predicted / measured - 1|")

    def line(name: str, found: np.ndarray, goal: str = "") -> None:
        cells = (f"{100 * value:.1f} %" for value in (np.median(found), np.quantile(found, 0.9), found.max()))
        table.add_row(name, str(len(found)), *cells, goal)

    configurations = len({row.configuration for row in dense})
    line(f"dense, {configurations} configurations: refitted", errors(dense, refitted))
    line("dense: constants.toml", errors(dense))
    halves = other_halves(dense, splits)
    medians = np.array([np.median(half) for half in halves])
    line("dense, the other half of the configurations: all splits", np.concatenate(halves), "median <= 6 %")
    line(f"... medians of {splits} splits", medians)
    for model in sorted({row.run.model.model for row in dense if row.run.model.model in known_models()}):
        out = [row for row in dense if row.run.model.model == model]
        line(f"dense, {model} left out", errors(out, fit([row for row in dense if row not in out])))
    nemo = [row for row in rows if row.stack in ("nemo", "simumax")]
    line(
        "dense, anchored: other n or batch",
        anchored([row for row in nemo if not row.run.model.experts]),
        "2; worst 10 %",
    )
    experts = [row for row in nemo if row.run.model.experts]
    line("mixtures of experts, anchored", anchored(experts), "5 %")
    line("mixtures of experts, formula alone (refused)", errors(experts))
    line(
        "NVFP4, formula alone (refused)",
        errors([r for r in nemo if r.run.precision == "NVFP4" and not r.run.model.experts]),
    )
    line("LoRA, not fitted", errors([row for row in nemo if row.run.kind == "lora"]))
    for stack in ("llama3", "megascale", "megascale-baseline", "automodel"):
        line(
            f"{stack}, another stack, not fitted",
            errors([r for r in rows if r.stack == stack and not r.run.model.experts]),
        )
    line("memory, peak", np.abs(peaks(folder)), "10 %")
    published = csv.DictReader((folder / "models.csv").read_text(encoding="utf-8").splitlines())
    told = [row for row in published if row["published_gflop_token"]]
    flops = [sum(operations(find_model(row["model"]), int(row["published_seq"]))) / 1e9 for row in told]
    line(
        "operations of a token",
        np.abs(np.array(flops) / [float(row["published_gflop_token"]) for row in told] - 1),
        "1 %",
    )
    return table


def main(
    folder: Annotated[Path, typer.Argument(help="Folder of the measured tables.")],
    splits: Annotated[int, typer.Option(min=1, help="Random halves of the configurations.")] = SPLITS,
    write: Annotated[bool, typer.Option(help="Replace anchors.csv.")] = False,
) -> None:
    """Refit, and print the table of errors; about a minute."""
    rows = read_rows(folder)
    out = console(width=120)
    out.print(report(rows, folder, splits))
    refitted, frozen = fit([row for row in rows if row.fitted]), constants()
    for name, value in refitted.efficiency.items():
        out.print(f"e {name}: refitted {value:.3f}, frozen {frozen.efficiency[name]:.3f}", highlight=False)
    for name, shares in refitted.quantised.items():
        out.print(
            f"q {name}: refitted {shares['FP8']:.3f}, frozen {frozen.quantised[name]['FP8']:.3f}", highlight=False
        )
    example = Run(find_model("llama3.1-70b"), find_gpu("H100"), 128, 8192)
    seconds = sum(iteration(example, Plan(tp=4, pp=4, vp=5, cp=2, dp=2))[:2])
    out.print(f"worked example: {seconds:.2f} s (specification 14.56, measured 14.66)", highlight=False)
    if write:
        write_anchors(rows, Path(str(FOLDER)) / "anchors.csv")


if __name__ == "__main__":
    run_script(main)
