"""Dally's job lists and HyperDrive's, and the layer files of ASTRA-sim."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from published import TRACES, here

from gpusched_env.errors import TraceError
from gpusched_env.traces import read_trace
from studies.published_tables import read_layers, read_table

FOLDER = TRACES / "dally"
CONV = "conv1\t-1\t10\tNONE\t0\t20.5\tNONE\t0\t30\tALLREDUCE\t4096\t5\n"
LAYERS = f"DATA\r\n2\r\n{CONV}99{CONV}99"


def write(path: Path, text: str) -> Path:
    path.write_text(text, newline="")
    return path


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
