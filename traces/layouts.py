"""Layouts of the published tables: their columns, kinds and units.

To add a table, add one entry to LAYOUTS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNTOLD: Final = "unknown unit"  # the publishers state no unit
CALENDAR: Final = "local time"
NAMED, BARE, LAYERS = "CSV with a header line", "CSV without a header line", "layer file of ASTRA-sim"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name : name in the file; may be empty
    kind : "text", "time" (a date, or a date and time), "whole" (a whole number) or "number" (empty or nan = missing)
    unit : unit of the values; "" = none, "1" = a ratio
    """

    name: str
    kind: str
    unit: str = ""


@dataclass(frozen=True)
class Layout:
    """The layout of a table.

    Parameters
    ----------
    columns : columns of the table; a CSV with a header line may have them in any order; for JSON, first the keys that
        lead to a leaf, then the values of the leaf
    rest : kind and unit of all other columns in the header line; None = there are no others
    levels : 0 = CSV or layer file; above 0 = JSON in which this number of keys leads to a leaf
    root : key of the JSON object that holds the rows; "" = the whole file
    form : NAMED = CSV with a header line; BARE = CSV without a header line, whose columns are in the order of
        ``columns``; LAYERS = layer file of ASTRA-sim; not used for JSON
    """

    about: str
    columns: tuple[Column, ...]
    rest: Column | None = None
    levels: int = 0
    root: str = ""
    form: str = NAMED


def _all(kind: str, unit: str, names: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind, unit) for name in names.split())


def _text(names: str) -> tuple[Column, ...]:
    return _all("text", "", names)


def _whole(unit: str, names: str) -> tuple[Column, ...]:
    return _all("whole", unit, names)


def _number(unit: str, names: str) -> tuple[Column, ...]:
    return _all("number", unit, names)


INDEX: Final = Column("", "whole", "row")  # index of a data frame, which has no name in the file
TIME: Final = Column("time", "time", CALENDAR)
SUMMARY: Final = (  # columns that the summaries of Helios and Acme share
    *_text("id"),
    *_whole("jobs", "job_num cpu_job_num gpu_job_num"),
    *_number("s", "avg_run_time_cpu avg_run_time_gpu avg_que_time_cpu avg_que_time_gpu"),
    *_number("s", "med_run_time_cpu med_run_time_gpu med_que_time_cpu med_que_time_gpu"),
    *_number("GPUs", "avg_gpu_num med_gpu_num"),
    *_number("1", "complete_rate_cpu cancel_rate_cpu fail_rate_cpu"),
    *_number("1", "complete_rate_gpu cancel_rate_gpu fail_rate_gpu"),
    *_number("GPU s", "complete_gpu_time cancel_gpu_time fail_gpu_time"),
)
STEP: Final = (*_whole("samples per GPU", "local_bsz"), *_number("s", "step_time sync_time"))

LAYOUTS: Final[dict[str, Layout]] = {
    "acme-summary": Layout(
        "summary of the jobs of Seren, Kalos, Philly, Helios and PAI (Acme: Hu et al., NSDI 2024)",
        (
            *SUMMARY,
            *_number("s", "max_run_time_gpu"),
            *_number("GPUs", "max_gpu"),
            *_number("1", "complete_rate_gpu_time cancel_rate_gpu_time fail_rate_gpu_time"),
        ),
    ),
    "helios-summary": Layout(
        "summary of the jobs of the four Helios clusters (Hu et al., SC 2021)",
        (*SUMMARY, *_whole("GPUs", "gpu_num"), *_number("1", "complete_rate cancel_rate fail_rate")),
    ),
    "helios-capacity": Layout(
        "GPUs of each virtual cluster by day (Helios)",
        (Column("date", "time", CALENDAR), *_whole("GPUs", "total")),
        rest=Column("", "whole", "GPUs"),
    ),
    "helios-minutes": Layout(
        "jobs and GPUs of a virtual cluster, minute by minute; less_8 = jobs of fewer than 8 GPUs (Helios)",
        (
            TIME,
            *_whole("jobs", "total_job_num running_job_num pending_job_num"),
            *_whole("jobs", "total_gpujob_num running_gpujob_num pending_gpujob_num"),
            *_whole("GPUs", "total_gpu_num running_gpu_num pending_gpu_num idle_gpu_num"),
            *_number("1", "gpu_utilization"),
            *_whole("GPUs", "running_gpu_num_noless_8 running_gpu_num_less_8"),
            *_whole("GPUs", "pending_gpu_num_noless_8 pending_gpu_num_less_8"),
            *_whole("GPUs", "total_gpu_num_noless_8 total_gpu_num_less_8"),
            *_whole("jobs", "running_job_num_noless_8 running_job_num_less_8"),
            *_whole("jobs", "pending_job_num_noless_8 pending_job_num_less_8"),
            *_whole("jobs", "total_job_num_noless_8 total_job_num_less_8"),
        ),
    ),
    "helios-throughput": Layout(
        "jobs and GPUs of Venus submitted, started and ended per 10 minutes (Lucid: Hu et al., ASPLOS 2023)",
        (
            TIME,
            *_whole("jobs", "submit_job_all start_job_all end_job_all submit_gpu_job start_gpu_job end_gpu_job"),
            *_whole("GPUs", "submit_gpu_num start_gpu_num end_gpu_num"),
        ),
    ),
    "philly-active-nodes": Layout("nodes of Philly by minute (Helios)", (TIME, *_whole("nodes", "active total"))),
    "philly-run-times": Layout(
        "run times and gang sizes of Philly jobs of an hour or more, without arrivals (Gavel)",
        (*_number("s", "runtime_s"), *_whole("GPUs", "num_gpus")),
    ),
    "pai-mini-batches": Layout(
        "mini-batch times of the workers of one job, largest = 1000 (PAI: Weng et al., NSDI 2022)",
        (
            INDEX,
            *_whole("", "worker"),
            *_whole("% of a GPU", "gpu"),
            *_whole(UNTOLD, "time"),
            *_number("1/1000 of the largest", "batch_time_norm"),
        ),
    ),
    "openb-pods": Layout(
        "pods without times, such as openb_pod_list_multigpu20 (openb: Weng et al., USENIX ATC 2023)",
        (
            *_text("name"),
            *_whole("1/1000 CPU", "cpu_milli"),
            *_whole("MiB", "memory_mib"),
            *_whole("GPUs", "num_gpu"),
            *_whole("1/1000 GPU", "gpu_milli"),
        ),
    ),
    "lingjun-hosts": Layout(
        "switches above each host; without its number of GPUs (Lingjun: Cao et al., SIGCOMM 2024)",
        _text("ip DSW PSW ASW"),
    ),
    "dlrm-instances": Layout(
        "inference instances; a missing time = before the begin or after the end of the log (Yang et al., NSDI 2025)",
        (
            *_text("instance_sn role app_name"),
            *_whole("CPUs", "cpu_request cpu_limit"),
            *_whole("GPUs", "gpu_request gpu_limit"),
            *_whole("% of a network card", "rdma_request rdma_limit"),
            *_number("GiB", "memory_request memory_limit disk_request disk_limit"),
            *_whole("instances", "max_instance_per_node"),
            *_number("s", "creation_time scheduled_time deletion_time"),
        ),
    ),
    "lucid-pairs": Layout(
        "two jobs on one GPU; speed = rate with the other job / rate alone (Lucid)",
        (
            INDEX,
            *_text("model1 dataset1 model2 dataset2"),
            *_whole("GPUs", "gpu_num1 gpu_num2"),
            *_whole("samples", "batchsize1 batchsize2"),
            *_whole("0 or 1", "amp1 amp2"),
            *_number("1", "speed1 speed2"),
            *_number("%", "gpu_util gmem_util"),
            *_number("MiB", "gmem"),
        ),
    ),
    "lucid-jobs": Layout(
        "one job on one GPU; label 0 to 2, 0 = light (Lucid)",
        (
            *_text("model dataset"),
            *_whole("samples", "batchsize"),
            *_whole("0 or 1", "amp"),
            *_number(UNTOLD, "speed"),
            *_number("%", "gpu_util gmem_util"),
            *_number("MiB", "gmem"),
            *_whole("", "label"),
        ),
    ),
    "muri-results": Layout(
        "job times of a measured run on 64 V100 (Muri: Zhao et al., SIGCOMM 2022)",
        (
            *_whole("", "job_id"),
            *_whole("GPUs", "num_gpu"),
            *_number("s", "time submit_time start_time end_time executed_time real_executed_time"),
            *_number("s", "JCT duration pending_time"),
            *_whole("", "job_counter promote"),
        ),
    ),
    "tiresias-gpu-time": Layout(
        "GPU time of real jobs, for the Gittins index (Tiresias: Gu et al., NSDI 2019)",
        _number("GPU s", "duration"),
    ),
    "pollux-placements": Layout(
        "step times by placement; one digit for each node = its GPUs (Pollux: Qiao et al., OSDI 2021; Sia, SOSP 2023)",
        (*_text("placement"), *STEP),
    ),
    "pollux-scalability": Layout(
        "step times by numbers of nodes and GPUs (Pollux; Sia: Jayaram Subramanya et al., SOSP 2023)",
        (*_whole("nodes", "num_nodes"), *_whole("GPUs", "num_replicas"), *STEP),
    ),
    "pollux-validation": Layout(
        "training at one batch size, epoch by epoch: metric, squared norm and variance of gradients (Pollux, Sia)",
        (
            *_number("iterations at the smallest batch", "progress"),
            *_whole("iterations", "iteration"),
            *_number("of the model", "metric"),
            *_number("1", "grad_sqr grad_var"),
        ),
    ),
    "dally-efficiency": Layout(
        "compute time / iteration time, by model and placement (ASTRA-sim with the links of Dally's simulator)",
        (
            *_text("model placement units dimensions"),
            *_number("us", "compute_us exposed_comm_us"),
            *_number("1", "efficiency substitute_efficiency"),
        ),
    ),
    "dally-factors": Layout(
        "factors of a model in a rack and across the network (Dally: Sharma et al., arXiv 2401.16492; not used)",
        (*_text("model"), *_number("1", "rack network")),
        form=BARE,
    ),
    "astra-layers": Layout(
        "computation and gradients of each layer in data-parallel training (ASTRA-sim 1.0; Dally's networks)",
        (
            *_text("layer"),
            *_number("ns", "forward_ns input_gradient_ns weight_gradient_ns"),
            *_whole("byte", "gradient_bytes"),
            *_number("ns", "update_ns"),
        ),
        form=LAYERS,
    ),
    "elasticflow-throughputs": Layout(
        "iterations per second; each other column is a number of GPUs (ElasticFlow: Gu et al., ASPLOS 2023)",
        _whole("samples", "global_batch_size"),
        rest=Column("", "number", "iterations/s"),
    ),
    "gavel-throughputs": Layout(
        "steps per second with another job or alone (null); 0 = out of memory (Gavel: Narayanan et al., OSDI 2020)",
        (*_text("gpu_type job beside"), *_number("steps/s", "rate rate_beside")),
        levels=3,
    ),
    "pollux-completion": Layout(
        "published job completion times of simulated workloads (Pollux)",
        (*_text("workload job"), *_number("s", "jct")),
        levels=2,
        root="jcts",
    ),
    "chronus-speeds": Layout(
        "speed of a gang spread over nodes / in one node (Chronus: Gao et al., SoCC 2021; columns inferred)",
        (*_text("model"), *_whole("GPUs", "gpus"), *_whole("nodes", "nodes"), *_number("1", "speed")),
        levels=3,
    ),
}
