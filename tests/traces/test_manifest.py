"""Every published file is read with the number of rows of the manifest; none is in the repository."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest
from published import TRACES, beside_manifest, digests, here, manifest, published_digests

from gpusched_env.problem.workload import Workload
from gpusched_env.traces import ReadReport, read_cluster, read_trace
from gpusched_env.traces.parsing.containers import open_trace
from gpusched_env.traces.reading import resolve_source
from studies.published_tables import read_table

pytestmark = here
ROOT = Path(__file__).parents[2]
FILES = [row["file"] for row in manifest()]
OTHERS = beside_manifest()

JOBS: Final = {
    "acme/kalos_gpu_jobs_first800.csv.gz": "acme",
    "acme/trace_*_sample.csv": "acme",
    "alibaba/openb_pod_list_cpu050.csv.gz": "openb",
    "alibaba/openb_pod_list_default.csv.gz": "openb",
    "alibaba/openb_pod_list_gpu*.csv.gz": "openb",
    "alibaba/pai2020_gpu_tasks_days00-31.csv.gz": "pai",
    "bsbf/cluster_trace_*.csv": "bsbf",
    "bsbf/trace_data_new*.csv": "bsbf",
    "chronus/trace_job_Philly_MIX2.csv.gz": "chronus",
    "dally/480_job_trace.csv": "tiresias",
    "dally/jobs/*.csv.gz": "dally",
    "dally/p*.csv": "hyperdrive",
    "gavel/*.trace": "gavel",
    "gavel/*.trace.gz": "gavel",
    "helios/cluster_log_sample.csv": "helios",
    "helios/venus_gpu_jobs_to_2020-07.csv.gz": "helios",
    "hydra/20_ddl.csv.gz": "hydra",
    "muri/cluster_trace.csv": "muri",
    "muri/trace[23].csv.gz": "muri",
    "philly/cluster_job_log_sample.json": "philly",
    "philly/elasticflow_103959.csv.gz": "elasticflow",
    "philly/full_log_sample_1000.csv": "philly",
    "philly/philly_jobs.csv.gz": "philly",
    "pollux/workloads*/*.csv": "pollux",
    "shockwave/120_jobs_dynamic.trace": "shockwave",
    "sia/newtrace/*.csv": "sia",
    "sia/saturn/*.csv": "sia",
    "swf/*.swf.gz": "swf",
    "tiresias/60_job.csv": "tiresias",
}
CLUSTERS: Final = {
    "alibaba/openb_node_list_*.csv.gz": "openb",
    "alibaba/pai2020_machine_spec.csv.gz": "pai",
    "alibaba/spot2026_nodes.csv.gz": "spot",
    "bsbf/n[248]g8.csv": "bsbf",
    "helios/venus_vc_config.csv": "helios",
    "muri/n8g8.csv": "muri",
    "philly/machine_list_revised.csv": "philly",
    "philly/vc_nodes.csv": "philly",
    "tiresias/cluster_spec.csv": "tiresias",
    "tiresias/n*g[48].csv": "tiresias",
}
TABLES: Final = {
    "acme/cluster_summary.csv": "acme-summary",
    "alibaba/dlrm2025_instances.csv.gz": "dlrm-instances",
    "alibaba/lingjun2023_topo.csv.gz": "lingjun-hosts",
    "alibaba/openb_pod_list_multigpu20.csv.gz": "openb-pods",  # it has no times: the job reader refuses it
    "alibaba/pai2020_minibatch_job_*.csv.gz": "pai-mini-batches",
    "chronus/model_info.json": "chronus-speeds",
    "dally/astra_efficiency.csv": "dally-efficiency",
    "dally/workload/*-*.csv": "astra-layers",
    "dally/workload/*.txt": "astra-layers",
    "dally/workload/nw_overhead.csv": "dally-factors",
    "elasticflow/throughputs_*/*.csv": "elasticflow-throughputs",
    "gavel/*_throughputs.json.gz": "gavel-throughputs",
    "helios/cluster_summary.csv": "helios-summary",
    "helios/earth_gpu_number.csv": "helios-capacity",
    "helios/earth_*_minute_sequence.csv.gz": "helios-minutes",
    "helios/venus_throughput_10min_2020-04_07.csv.gz": "helios-throughput",
    "lucid/colocate_info.csv": "lucid-pairs",
    "lucid/single_data.csv": "lucid-jobs",
    "muri/published/*_job.csv.gz": "muri-results",
    "philly/active_nodes_per_minute.csv.gz": "philly-active-nodes",
    "philly/gavel_runtime_gpus.csv.gz": "philly-run-times",
    "pollux/published/*/summary.json": "pollux-completion",
    "tiresias/yarn-gput*.csv": "tiresias-gpu-time",
    **{f"{paper}/measured/*/placements*.csv": "pollux-placements" for paper in ("pollux", "sia")},
    **{f"{paper}/measured/*/scalability*.csv": "pollux-scalability" for paper in ("pollux", "sia")},
    **{f"{paper}/measured/*/validation-*.csv": "pollux-validation" for paper in ("pollux", "sia")},
}
READ: Final[tuple[tuple[dict[str, str], Callable[[str], tuple[object, ReadReport]]], ...]] = (
    (JOBS, read_trace),
    (CLUSTERS, read_cluster),
    (TABLES, read_table),
)
# Where the manifest counts lines of text that are no rows. Records: 6 GPU types x (job alone or beside another);
# 50 = models, gang sizes and numbers of nodes.
RECORDS: Final = {
    "gavel/physical_cluster_throughputs.json.gz": 10_830,
    "gavel/simulation_throughputs.json.gz": 10_830,
    "chronus/model_info.json": 50,
}
ROWS: Final = {  # published numbers of files that are not in the manifest
    "dally/480_job_trace.csv": 480,
    "dally/astra_efficiency.csv": 84,
    "dally/jobs/sense_500jobs_0start*": 500,
    "dally/jobs/sense_500jobs_poisson-*": 500,
    "dally/jobs/sense_500jobs_poisson_1proc-*": 411,
    "dally/jobs/sense_500jobs_poisson_3proc-*": 411,
    "dally/jobs/sense_500jobs_poisson_3proc.*": 500,
    "dally/philly_hyperdrive_workload.csv": 4_697,
    "dally/processed_data.csv": 488,
    "dally/workload/BERT-*": 66,
    "dally/workload/ResNet50*": 54,
    "dally/workload/VGG*": 11,
    "dally/workload/alexnet_*": 8,
    "dally/workload/mobilenet_*": 52,
    "dally/workload/nw_overhead.csv": 2,
    "dally/workload/resnet18_*": 21,
    "dally/workload/resnet50_*": 54,
    "dally/workload/vgg11_*": 11,
}


UNENDED = "still running at the end of the log"
CPU, UNMEASURED = "CPU job (no GPUs)", "no throughput was measured for this job type on this number of GPUs"
DROPPED: Final = {  # of job lists that lose rows
    "alibaba/openb_pod_list_default*": {CPU: 1_088, "never scheduled": 861, UNENDED: 32},
    "alibaba/openb_pod_list_cpu050*": {CPU: 375, "never scheduled": 861, UNENDED: 32},
    "alibaba/openb_pod_list_gpushare40*": {CPU: 1_088, "never scheduled": 945, UNENDED: 31},
    "alibaba/openb_pod_list_gpuspec10*": {CPU: 1_088, "never scheduled": 861, UNENDED: 32},
    "chronus/*": {CPU: 194},
    "dally/philly_hyperdrive_workload.csv": {"zero run time": 2},
    "gavel/msr_seed0_103959*": {UNMEASURED: 125},
    "gavel/msr_seed0_2869ce*": {UNMEASURED: 179},
    "gavel/msr_seed0_e13805*": {UNMEASURED: 103},
    "philly/cluster_job_log_sample.json": {"no attempt with a start and an end": 1},
    "swf/hpc2n*": {"run time unknown": 25},
}
SHARED: Final = {"bsbf", "muri", "pai", "pollux", "sia"}  # formats whose layout another one has, too
NOT_AUTO: Final = {"alibaba/pai2020_gpu_tasks_days00-31.csv.gz", "helios/venus_gpu_jobs_to_2020-07.csv.gz"}


def test_each_file_has_one_reader_and_each_pattern_a_file() -> None:
    patterns = [pattern for table, _ in READ for pattern in table]
    matching = {file: [pattern for pattern in patterns if fnmatch(file, pattern)] for file in FILES + OTHERS}
    assert {file: found for file, found in matching.items() if len(found) != 1} == {}
    assert set(patterns) == {found[0] for found in matching.values()}


def report_of(file: str) -> ReadReport:
    [(name, read)] = [(name, read) for table, read in READ for pattern, name in table.items() if fnmatch(file, pattern)]
    result, report = read(f"{name}:{TRACES / file}")
    if read is read_trace:
        assert isinstance(result, Workload)
        assert (len(result), result.jobs["arrival_s"].min()) == (report.kept, 0)
        dropped = [told for pattern, told in DROPPED.items() if fnmatch(file, pattern)]
        assert report.dropped == (dropped[0] if dropped else {})
        if name not in SHARED and file not in NOT_AUTO:
            assert resolve_source(f"auto:{TRACES / file}")[0] == name
    return report


@pytest.mark.parametrize("row", manifest(), ids=FILES)
def test_every_row_is_read(row: dict[str, str]) -> None:
    file, published = row["file"], int(row["rows"])
    report = report_of(file)
    assert report.kept == report.rows - sum(report.dropped.values()) > 0
    with open_trace(TRACES / file) as stream:
        lines = stream.read().splitlines()
    if file in RECORDS:
        assert (report.rows, len(lines)) == (RECORDS[file], published)
    else:
        # of the Standard Workload Format the manifest counts comments too, of SJF-BSBF a blank last line
        others = sum(line.startswith(b";") or not line.strip() for line in lines)
        assert report.rows + others == published


@pytest.mark.parametrize("file", OTHERS)
def test_every_row_beside_the_manifest_is_read(file: str) -> None:
    [rows] = [rows for pattern, rows in ROWS.items() if fnmatch(file, pattern)]
    report = report_of(file)
    stray = "workload" in file and report.dropped.get("a stray total, not a layer", 0)
    assert report.kept == report.rows - sum(report.dropped.values()) > 0
    assert (report.rows - stray, stray <= 1) == (rows, True)


def test_the_files_are_those_of_the_manifest() -> None:
    for row in manifest():
        data = (TRACES / row["file"]).read_bytes()
        assert digests(data) == {row["sha256"], row["sha256_uncompressed"]}, row["file"]


def test_no_published_file_is_in_the_repository() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert len(files) > 100
    published = published_digests()
    assert [path for path in files if path.is_file() and digests(path.read_bytes()) & published] == []
