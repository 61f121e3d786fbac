"""Cluster descriptions: node lists, virtual clusters, racks by switch."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from helpers import finish
from published import TRACES, here
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.cli.parsing import chosen_scenario
from gpusched_env.errors import ClusterError, TraceError, WorkloadError
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.traces import ReadReport, read_cluster

UNNAMED = "nodes whose GPU type the file does not name, taken for V100"
NO_RACKS = "racks made up, one for each kind of node (GPU type and GPUs per node): the file names none"
SHARED = "nodes taken for 8 GPUs each, and open to the jobs of every virtual cluster"

OPENB = "sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,0,\nn1,1,1,2,P100\nn2,1,1,8,G2\nn3,1,1,2,P100\nn4,1,1,4,P100\n"
SWITCHES = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n3,2,4,128,254\n"
FILES = {
    "openb": OPENB,
    "pai": "m0,T4,96,512,2\nm1,CPU,96,512,0\nm2,V100,96,512,8\n",
    "spot": "gpu_model,gpu_capacity_num,cpu_num,node_name\nA10,1,128,7\n",
    "philly": ",machineId,number of GPUs\n0,m0,8\n1,m1,0\n2,m2,8\n3,m3,2\n",
    "helios": ",num\nvcA,2\nvcB,0\nvcC,3\n",
    "tiresias": SWITCHES,
}


def read(folder: Path, name: str, text: str) -> tuple[Cluster, ReadReport]:
    path = folder / "cluster"
    path.write_text(text)
    return read_cluster(f"{name}:{path}")


def kinds(cluster: Cluster) -> list[tuple[int, int, str, int | None]]:
    return [(group.count, group.gpus, group.gpu_type, group.nodes_per_rack) for group in cluster.groups]


def test_equal_nodes_become_a_group_and_nodes_without_gpus_are_counted(tmp_path: Path) -> None:
    cluster, report = read(tmp_path, "openb", OPENB)
    assert kinds(cluster) == [(2, 2, "P100", None), (1, 8, "G2", None), (1, 4, "P100", None)]
    assert (report.rows, report.kept, report.dropped, report.places) == (5, 4, {"no GPUs": 1}, {"no GPUs": [2]})
    assert report.notes == {NO_RACKS: 3}
    assert "5 lines read, 4 nodes kept" in report.describe()
    assert cluster.racks["gpus"].tolist() == [4, 8, 4]


def test_switches_are_racks(tmp_path: Path) -> None:
    cluster, report = read(tmp_path, "tiresias", SWITCHES)
    assert kinds(cluster) == [(6, 4, "V100", 2)]
    assert cluster.nodes["rack"].tolist() == [0, 0, 1, 1, 2, 2]
    assert cluster.racks.tolist() == [(0, 2, 8), (2, 2, 8), (4, 2, 8)]
    assert report.notes == {UNNAMED: 6}


def test_the_published_machine_table_of_pai_has_no_header(tmp_path: Path) -> None:
    cluster, report = read(tmp_path, "pai", FILES["pai"])
    assert kinds(cluster) == [(1, 2, "T4", None), (1, 8, "V100", None)]
    again, _ = read(tmp_path, "pai", "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\n" + FILES["pai"])
    assert (kinds(again), report.rows) == (kinds(cluster), 3)


def test_virtual_clusters_share_their_nodes(tmp_path: Path) -> None:
    cluster, report = read(tmp_path, "helios", FILES["helios"])
    assert kinds(cluster) == [(5, 8, "V100", None)]
    assert (report.rows, report.kept, report.notes) == (3, 2, {SHARED: 5, UNNAMED: 5, NO_RACKS: 1})
    assert kinds(read(tmp_path, "philly", "vc,node num\na,2\n")[0]) == [(2, 8, "V100", None)]
    assert kinds(read(tmp_path, "philly", FILES["philly"])[0]) == [(2, 8, "V100", None), (1, 2, "V100", None)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("openb", OPENB + "n1,1,1,2,P100\n", "line 7, field 'sn': 'n1': this node occurs twice"),
        ("openb", OPENB + "n9,1,1,2,\n", "line 7, field 'model'"),
        ("openb", OPENB + "n9,1,1,1.5,T4\n", "line 7, field 'gpu': '1.5': expected a whole number of GPUs"),
        ("openb", OPENB + "n9,1,1,1000001,T4\n", "line 7, field 'number of GPUs': 1000001: more than 1,000,000"),
        ("openb", "sn,gpu\nn0,1\n", "column 'model' is missing"),
        ("openb", OPENB[: OPENB.index("n1")], "no GPUs.\n.*dropped 1"),
        (
            "tiresias",
            SWITCHES.replace("3,2,4", "x,2,4"),
            "field 'num_switch': 'x': expected a whole number of sw",
        ),
        ("tiresias", SWITCHES.replace("3,2,4", "999999,999999,4"), "line 2, field 'number of GPUs'"),
        ("helios", ",num\nvcA,-1\n", "line 2, field 'num': '-1': expected a whole number of nodes"),
        ("pai", "m0,T4,96,512\n", "line 1: 4 fields where the header has 5"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=f"(?s){message}"):
        read(tmp_path, name, text)


def test_scenarios_and_the_command_line_accept_cluster_files(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(OPENB)
    with pytest.raises(WorkloadError, match="--profiles unit"):
        chosen_scenario("philly-64-v1", None, f"openb:{path}").instance(0)
    scenario = chosen_scenario("philly-64-v1", None, f"openb:{path}", {"profiles": "unit"}).replace(
        workload=chosen_scenario("tiny-v1", None, None).workload
    )
    assert scenario.name == "philly-64-v1 + profiles unit + openb:nodes.csv"
    assert scenario.cluster.gpu_types == ("P100", "G2")
    assert all(math.isfinite(time) for time in finish(scenario.instance(0), "fifo"))
    described = CliRunner().invoke(app, ["traces", "describe", "synthetic:poisson", "--cluster", f"openb:{path}"])
    assert f"load on {scenario.cluster.gpus} GPUs" in described.output
    with pytest.raises(ClusterError, match="NODESxGPUS"):
        chosen_scenario("tiny-v1", None, "eight")
    shown = CliRunner().invoke(app, ["traces", "cluster", f"openb:{path}"])
    assert shown.exit_code == 0
    assert "dropped 1: no GPUs (line 2)" in shown.output
    assert "16 GPUs in 4 nodes in 3 racks" in shown.output


@here
@pytest.mark.parametrize(
    ("name", "file", "rows", "nodes", "gpus", "racks"),
    [
        ("openb", "alibaba/openb_node_list_gpu_node.csv.gz", 1_213, 1_213, 6_212, 12),
        ("openb", "alibaba/openb_node_list_all_node.csv.gz", 1_523, 1_213, 6_212, 12),
        ("pai", "alibaba/pai2020_machine_spec.csv.gz", 1_897, 1_814, 6_742, 5),
        ("spot", "alibaba/spot2026_nodes.csv.gz", 4_278, 4_278, 10_412, 8),
        ("philly", "philly/machine_list_revised.csv", 552, 539, 3_205, 4),
        ("philly", "philly/vc_nodes.csv", 11, 352, 2_816, 1),
        ("helios", "helios/venus_vc_config.csv", 15, 135, 1_080, 1),
        ("tiresias", "tiresias/n160g8.csv", 1, 160, 1_280, 5),
        ("tiresias", "tiresias/n256g8.csv", 1, 256, 2_048, 8),
        ("muri", "muri/n8g8.csv", 1, 8, 64, 1),
        ("bsbf", "bsbf/n4g8.csv", 1, 4, 32, 1),
    ],
)
def test_published_clusters(name: str, file: str, rows: int, nodes: int, gpus: int, racks: int) -> None:
    """GPU totals of openb, PAI, spot and Philly as published with the data."""
    cluster, report = read_cluster(f"{name}:{TRACES / file}")
    assert (report.rows, len(cluster.nodes), cluster.gpus, len(cluster.racks)) == (rows, nodes, gpus, racks)


def test_a_cluster_in_words() -> None:
    """Kinds of nodes separated by commas, optionally with racks and GPU types."""
    cluster = Cluster.parse("16x4@T4, 4x8/2@A100,2x1")
    assert cluster.groups == (NodeGroup(16, 4, "T4"), NodeGroup(4, 8, "A100", 2), NodeGroup(2, 1, "V100"))
    for text in ("", "16x4@", "16x4,", "16x4@T4/2", "x4", "16x4 T4", "-1x4"):
        with pytest.raises(ClusterError, match="NODESxGPUS"):
            Cluster.parse(text)
    with pytest.raises(ClusterError, match="count"):
        Cluster.parse("0x4")


def test_fitted_models_are_played_on_the_machines_that_they_know() -> None:
    command = ["run", "--workload", "synthetic:pollux", "--jobs", "5", "--scheduler", "fifo", "--cluster"]
    assert CliRunner().invoke(app, [*command, "16x4@T4"]).exit_code == 0
    refused = CliRunner().invoke(app, [*command, "16x4"])
    assert "they know T4; name such a type, as in --cluster 16x4@T4" in refused.stderr
