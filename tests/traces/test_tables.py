"""Published tables without jobs: typed columns with units, JSON as rows, missing values."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from published import TRACES, here

from gpusched_env.errors import TraceError
from gpusched_env.traces import ReadReport
from studies.published_tables import LAYOUTS, Table, read_table
from studies.published_tables.__main__ import main
from studies.published_tables.reading import BARE, NAMED

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,12000,16384,1,460\np1,8000,30517,8,1000\n"
CAPACITY = "date,vcA,vcB,total\n2020-04-01,112,8,120\n2020-04-02,0,8,8\n"
THROUGHPUTS = "global_batch_size,1,2,64\n128,2.5,4,nan\n256,1.25,,0\n"
NODES = "time,active,total\n2017-10-03 00:00:00,312,420\n"
GAVEL = b"""{"k80": {"('LM', 1)": {"null": 4.5, "('A3C', 1)": [2.5, 3.25]}}, "v100": {"('LM', 2)": {"null": 9}}}"""
FACTORS = "ResNet50,1,.9\nVGG,.9,.8 \n"
LAYERS = "DATA\n1\nconv1\t-1\t10\tNONE\t0\t20.5\tNONE\t0\t30\tALLREDUCE\t4096\t5\n99\n"
COMPLETION = b'{"jcts": {"w-1": {"a-0": 761, "b-1": 90}, "w-2": {"a-0": 5}}, "avgs": {"w-1": 1}, "mean": 2.0}'
GAVEL_TYPES = ("k80", "p100", "v100")
SAMPLES = {
    "openb-pods": PODS.encode(),
    "helios-capacity": CAPACITY.encode(),
    "elasticflow-throughputs": THROUGHPUTS.encode(),
    "philly-active-nodes": NODES.encode(),
    "gavel-throughputs": GAVEL,
    "pollux-completion": COMPLETION,
    "dally-factors": FACTORS.encode(),
    "astra-layers": LAYERS.encode(),
}


def read(folder: Path, name: str, data: str | bytes) -> tuple[Table, ReadReport]:
    path = folder / "table"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_table(f"{name}:{path}")


def test_columns_have_types_and_units(tmp_path: Path) -> None:
    table, report = read(tmp_path, "openb-pods", PODS)
    assert (len(table), report.rows, report.kept, report.notes) == (2, 2, 2, {})
    assert table["name"].tolist() == ["p0", "p1"]
    assert table["gpu_milli"].tolist() == [460, 1000]
    assert {name: values.dtype.kind for name, values in table.columns.items()} == {
        "name": "U", "cpu_milli": "i", "memory_mib": "i", "num_gpu": "i", "gpu_milli": "i",
    }  # fmt: skip
    assert (table.units["memory_mib"], table.units["name"]) == ("MiB", "")
    nodes, _ = read(tmp_path, "philly-active-nodes", NODES)
    assert nodes["time"].tolist() == [np.datetime64("2017-10-03T00:00:00", "s").item()]


def test_other_columns_of_the_header_are_read_where_the_layout_is_open(tmp_path: Path) -> None:
    table, _ = read(tmp_path, "helios-capacity", CAPACITY)
    assert list(table.columns) == ["date", "total", "vcA", "vcB"]
    assert table["vcA"].tolist() == [112, 0]
    assert table.units["vcB"] == "GPUs"
    assert str(table["date"][1]) == "2020-04-02T00:00:00"


def test_missing_numbers_are_nan_and_noted(tmp_path: Path) -> None:
    table, report = read(tmp_path, "elasticflow-throughputs", THROUGHPUTS)
    np.testing.assert_array_equal(table["64"], [np.nan, 0])
    np.testing.assert_array_equal(table["2"], [4, np.nan])
    assert report.notes == {"2 is missing": 1, "64 is missing": 1}
    assert {remark: places.tolist() for remark, places in report.noted_at.items()} == {
        "2 is missing": [3],
        "64 is missing": [2],
    }


def test_leaves_of_json_are_rows(tmp_path: Path) -> None:
    table, report = read(tmp_path, "gavel-throughputs", GAVEL)
    assert table["gpu_type"].tolist() == ["k80", "k80", "v100"]
    assert table["job"].tolist() == ["('LM', 1)", "('LM', 1)", "('LM', 2)"]
    assert table["beside"].tolist() == ["null", "('A3C', 1)", "null"]
    assert table["rate"].tolist() == [4.5, 2.5, 9]
    np.testing.assert_array_equal(table["rate_beside"], [np.nan, 3.25, np.nan])
    assert (report.unit, report.notes) == ("record", {"rate_beside is missing": 2})
    completion, _ = read(tmp_path, "pollux-completion", COMPLETION)
    assert completion["jct"].tolist() == [761, 90, 5]
    assert completion["workload"].tolist() == ["w-1", "w-1", "w-2"]


@pytest.mark.parametrize("name", SAMPLES)
def test_text_is_recognised_by_its_first_line_and_packing_by_its_bytes(tmp_path: Path, name: str) -> None:
    plain, _ = read(tmp_path, name, SAMPLES[name])
    packed, _ = read(tmp_path, name, gzip.compress(SAMPLES[name]))
    for column in plain.columns:
        np.testing.assert_array_equal(plain[column], packed[column])
    if LAYOUTS[name].levels or LAYOUTS[name].form == BARE:
        with pytest.raises(TraceError, match=f"write FORMAT:PATH; formats: .*{name}"):
            read(tmp_path, "auto", SAMPLES[name])
    else:
        assert read(tmp_path, "auto", SAMPLES[name])[0].layout == name


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("openb-pods", PODS + "p2,1.5,1,1,1\n", "line 4, field 'cpu_milli': '1.5': expected a whole number"),
        ("openb-pods", PODS + "p2,,1,1,1\n", "line 4, field 'cpu_milli': ''"),
        ("openb-pods", PODS + "p2,1e300,1,1,1\n", "line 4, field 'cpu_milli'"),
        ("openb-pods", PODS + "p2,1_0,1,1,1\n", "line 4, field 'cpu_milli'"),
        ("openb-pods", PODS + "p2,1,1,1\n", "line 4: 4 fields"),
        ("openb-pods", "name,cpu_milli\np0,1\n", "column 'memory_mib' is missing"),
        ("openb-pods", PODS[: PODS.index("p0")], "there are no rows"),
        ("elasticflow-throughputs", THROUGHPUTS + "64,inf,1,1\n", "line 4, field '1': 'inf': expected a finite number"),
        ("elasticflow-throughputs", "global_batch_size,1,1\n64,1,1\n", "column '1' occurs twice"),
        ("philly-active-nodes", NODES + "2017-10-03T00:00:00Z,1,1\n", "line 3, field 'time': .* expected a date as"),
        ("philly-active-nodes", NODES + "20171003,1,1\n", "line 3, field 'time'"),
        ("gavel-throughputs", GAVEL[:-5], "not JSON"),
        ("gavel-throughputs", b"\xff\xfe{", "not JSON"),
        ("gavel-throughputs", b"[1, 2]", r"field \(the whole file\): expected an object"),
        ("gavel-throughputs", b'{"k80": {"a": 1}}', "field 'k80' > 'a': expected an object"),
        (
            "gavel-throughputs",
            b'{"k80": {"a": {"b": [1, 2, 3]}}}',
            "record 1, field 'k80' > 'a' > 'b': expected up to 2",
        ),
        ("gavel-throughputs", b'{"k80": {"a": {"b": null}}}', "record 1, field 'k80' > 'a' > 'b'"),
        ("gavel-throughputs", b'{"k80": {"a": {"b": "fast"}}}', "record 1, field 'rate': 'fast'"),
        ("gavel-throughputs", b"{}", "there are no rows"),
        ("gavel-throughputs", b"[" * 100_000, "not JSON"),
        ("pollux-completion", b'{"avgs": {}}', "the field 'jcts' occurs 0 times"),
        ("pollux-completion", b'{"jcts": {}, "jcts": {}}', "the field 'jcts' occurs 2 times"),
    ],
)
def test_malformed_tables_are_refused(tmp_path: Path, name: str, data: str | bytes, message: str) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        read(tmp_path, name, data)
    assert str(tmp_path / "table") in str(caught.value)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_well_formed(name: str) -> None:
    layout = LAYOUTS[name]
    names = [column.name for column in layout.columns]
    assert len(set(names)) == len(names) > layout.levels
    kinds = {column.kind for column in layout.columns} | ({layout.rest.kind} if layout.rest else set())
    assert kinds <= {"text", "time", "whole", "number"}
    assert layout.rest is None or (layout.form == NAMED and not layout.levels)


def test_the_command_line_shows_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(PODS)
    main(f"auto:{path}")
    shown = capsys.readouterr().out
    assert "2 lines read, 2 rows kept" in shown
    assert "30517" in shown


@here
def test_published_figures() -> None:
    """Percentiles of GPU times, medians of packed speeds and a mean completion time, as published with the files."""
    gpu_time = read_table(f"auto:{TRACES / 'tiresias/yarn-gput10000.csv'}")[0]["duration"]
    assert np.quantile(gpu_time, [0.5, 0.9, 0.99]) == pytest.approx([2_227, 76_140, 2.27e6], rel=2e-3)
    pairs = read_table(f"auto:{TRACES / 'lucid/colocate_info.csv'}")[0]
    assert (np.median(pairs["speed1"]), np.median(pairs["speed2"])) == pytest.approx((0.95, 0.96), abs=0.005)
    source = "pollux/published/results-inter/inter50/summary.json"
    completion = read_table(f"pollux-completion:{TRACES / source}")[0]
    assert completion["jct"][completion["workload"] == "workload-2"].mean() == 4_322.925
    gavel = read_table(f"gavel-throughputs:{TRACES / 'gavel/simulation_throughputs.json.gz'}")[0]
    assert set(gavel["gpu_type"]) == {f"{name}{spread}" for name in GAVEL_TYPES for spread in ("", "_unconsolidated")}
