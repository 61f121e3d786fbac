"""Dally's job lists and HyperDrive's, and the layer files of ASTRA-sim."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from published import TRACES, here

from gpusched_env.errors import TraceError
from gpusched_env.traces import read_layers, read_table, read_trace

FOLDER = TRACES / "dally"
JOBS = (
    "job_id,arrival_time,max_parallelism,model,dataset,batchsize,amp,duration,total_iterations,time_per_iteration,"
    "submit_time,job_group_id\n"
)
JOB = "9,30,4,VGG,CIFAR-10,64,1,8000,4000,2.0,2020-03-26 13:42:30,8\n"
HYPERDRIVE = "experiment-id,job-id,start-time,run-time,num-gpus\n"
CONV = "conv1\t-1\t10\tNONE\t0\t20.5\tNONE\t0\t30\tALLREDUCE\t4096\t5\n"
LAYERS = f"DATA\r\n2\r\n{CONV}99{CONV}99"


def write(path: Path, text: str) -> Path:
    path.write_text(text, newline="")
    return path


def test_work_of_dally_is_the_time_on_one_gpu_over_the_gang(tmp_path: Path) -> None:
    rows = JOB + "7,10,1,BERT,SQuAD,32,0,600,3793464244,1.5e-7,x,3\n8,5,0,BERT,SQuAD,32,0,600,300,2,x,3\n"
    workload, report = read_trace(f"dally:{write(tmp_path / 'log', JOBS + rows)}")
    assert report.dropped == {"CPU job (no GPUs)": 1}
    assert workload.jobs["id"].tolist() == [9, 7]
    assert workload.jobs["arrival_s"].tolist() == [20, 0]
    assert workload.jobs["gpus"].tolist() == [4, 1]
    assert workload.jobs["duration_s"].tolist() == [2000, 600]
    assert {name: values.tolist() for name, values in workload.attributes.items()} == {
        "original_id": ["9", "7"],
        "model": ["VGG", "BERT"],
        "group": ["8", "3"],
        "batch_size": [64, 32],
        "total_iterations": [4000, 3_793_464_244],
        "time_per_iteration_s": [2.0, 1.5e-7],
    }


def test_hyperdrive_has_two_layouts(tmp_path: Path) -> None:
    rows = "3, application_2, 2018-06-16 04:51:49, 7953.0, 8\n4, application_1, 2018-06-16 04:51:00, 0, 1\n"
    dated, report = read_trace(f"hyperdrive:{write(tmp_path / 'a', HYPERDRIVE + rows)}")
    assert (report.origin, report.dropped) == ("2018-06-16T04:51:49", {"zero run time": 1})
    assert dated.jobs[["gpus", "duration_s"]].tolist() == [(8, 7953)]
    assert {name: values.tolist() for name, values in dated.attributes.items()} == {
        "original_id": ["application_2"],
        "experiment": ["3"],
    }
    processed = ",experiment_id,start_time,running_time,num_gpus\n207,16,30,143,1\n208,16,10,5,1\n"
    other, _ = read_trace(f"hyperdrive:{write(tmp_path / 'b', processed)}")
    assert other.jobs[["arrival_s", "duration_s"]].tolist() == [(20, 143), (0, 5)]
    assert other.attributes["original_id"].tolist() == ["207", "208"]


@pytest.mark.parametrize(
    ("source", "text", "message"),
    [
        ("dally", JOBS + JOB + JOB, "line 3, field 'job_id'"),
        ("dally", JOBS + JOB.replace("8000", "-1"), "line 2, field 'duration': '-1'"),
        ("dally", JOBS + JOB.replace("64", "6.4"), "line 2, field 'batchsize': '6.4'"),
        ("hyperdrive", "a,b\n1,2\n", "not a HyperDrive file"),
        ("hyperdrive", HYPERDRIVE + "1,a,2018-06-16,1,1\n", "line 2, field 'start-time': '2018-06-16'"),
    ],
)
def test_malformed_jobs_are_refused(tmp_path: Path, source: str, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_trace(f"{source}:{write(tmp_path / 'log', text)}")


def test_layers_are_columns_and_stray_totals_are_dropped(tmp_path: Path) -> None:
    table, report = read_layers(write(tmp_path / "layers", LAYERS))
    assert {name: values.tolist() for name, values in table.columns.items()} == {
        "layer": ["conv1", "99conv1"],
        "forward_ns": [10, 10],
        "input_gradient_ns": [20.5, 20.5],
        "weight_gradient_ns": [30, 30],
        "gradient_bytes": [4096, 4096],
        "update_ns": [5, 5],
    }
    assert (report.rows, report.kept, report.dropped) == (3, 2, {"a stray total, not a layer": 1})
    assert report.places == {"a stray total, not a layer": [5]}
    assert {remark: places.tolist() for remark, places in report.noted_at.items()} == {
        "the layer's name begins with a stray total; it is kept as it is": [4]
    }


def test_a_wrong_count_of_layers_is_noted(tmp_path: Path) -> None:
    table, report = read_layers(write(tmp_path / "layers", LAYERS.replace("\n2\r", "\n145\r")))
    assert len(table) == 2
    assert report.notes["line 2 gives a wrong number of layers; it is ignored"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n", "line 1: found ''; expected DATA"),
        ("MODEL\n1\n" + CONV, "line 1: found 'MODEL'; expected DATA"),
        ("DATA\n", "line 2, field 'number of layers': ''"),
        ("DATA\n1\n", "there are no rows"),
        ("DATA\n1\n" + CONV[:-3] + "\n", "line 3: 11 fields, separated by tabs, where 12"),
        ("DATA\n1\ntotal\n" + CONV, "line 3: 1 fields"),
        ("DATA\n1\n" + CONV.replace("ALLREDUCE", "ALLGATHER"), "line 3, field 'column 10': 'ALLGATHER': expected ALLR"),
        ("DATA\n1\n" + CONV.replace("4096", "4096.5"), "line 3, field 'gradient_bytes': '4096.5'"),
    ],
)
def test_malformed_layers_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_layers(write(tmp_path / "layers", text))


@here
@pytest.mark.parametrize(
    ("file", "models", "total_s"),
    [
        ("sense_500jobs_poisson-50jobsPday", {"MobileNetV3": 125, "AlexNet": 53, "ResNet18": 38, "VGG": 34}, 26.36e6),
        ("sense_500jobs_poisson_3proc-day", {"MobileNetV3": 125, "AlexNet": 29, "ResNet18": 3, "VGG": 4}, 8.69e6),
    ],
)
def test_published_jobs(file: str, models: dict[str, int], total_s: float) -> None:
    """Jobs by model and the sum of run times without communication, as published with the files."""
    workload, _ = read_trace(f"auto:{FOLDER / 'jobs' / file}.csv.gz")
    names, counts = np.unique(workload.attributes["model"], return_counts=True)
    assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == models | {"BERT": 125, "ResNet50": 125}
    jobs, told = workload.jobs, workload.attributes
    assert jobs["duration_s"].sum() == pytest.approx(total_s, rel=5e-4)
    on_one = told["total_iterations"] * told["time_per_iteration_s"]
    np.testing.assert_allclose(jobs["duration_s"] * jobs["gpus"], on_one, rtol=3e-7)


@here
def test_published_layers() -> None:
    slow, _ = read_layers(FOLDER / "workload/VGG.txt")
    parts = [slow[name].sum() for name in ("forward_ns", "input_gradient_ns", "weight_gradient_ns", "update_ns")]
    assert slow["input_gradient_ns"].max() == pytest.approx(513e6, rel=1e-3)
    assert sum(parts[:3]) == pytest.approx(833.7e6, rel=1e-3)
    wrong = "line 2 gives a wrong number of layers; it is ignored"
    noted = {path.name for path in FOLDER.glob("workload/*_B*") if wrong in read_layers(path)[1].notes}
    assert noted == {"BERT-large_B256_astra-sim2.csv", "mobilenet_v3_B512_astra-sim.csv"}
    alexnet, report = read_layers(FOLDER / "workload/alexnet_B512_astra-sim.csv")
    assert alexnet["layer"][:2].tolist() == ["features.0", "18356271features.3"]
    assert (report.places, sum(report.notes.values())) == ({"a stray total, not a layer": [11]}, 7)
    # the input of ASTRA-sim for the efficiencies
    efficiency, _ = read_table(f"dally-efficiency:{FOLDER / 'astra_efficiency.csv'}")
    told = efficiency["compute_us"] / (efficiency["compute_us"] + efficiency["exposed_comm_us"])
    np.testing.assert_allclose(efficiency["efficiency"], told, rtol=0.02)
    factors, _ = read_table(f"dally-factors:{FOLDER / 'workload/nw_overhead.csv'}")
    assert [factors[name].tolist() for name in factors.columns] == [["ResNet50", "VGG"], [1, 0.9], [0.9, 0.8]]
