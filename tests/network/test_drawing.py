"""Drawings of a topology: which switches, links, labels and loads they show."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from helpers import ink
from topologies import compiled, topology, two_switches

from gpusched_env.errors import GpuschedError
from gpusched_env.network import (
    TopologySpec,
    draw_topology,
)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_drawings_are_saved_and_equal(suffix: str, tmp_path: Path) -> None:
    network = topology(TopologySpec("leaf-spine", oversubscription=4.0), "32x8/8")
    share = np.linspace(0, 1, len(network.links))
    for name in ("a", "b"):
        draw_topology(network, tmp_path / f"{name}{suffix}", share, "a title")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_drawings_show_all_switches_and_links() -> None:
    network = topology(TopologySpec("fat-tree"), "16x8/2")
    axes = draw_topology(network).axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert texts == [
        *map(str, range(16)),
        *(f"rack{i}" for i in range(8)),
        *(f"pod{i}\n2 switches" for i in range(4)),
        "core\n4 switches",
    ]
    assert len(axes.collections[0].get_segments()) == 28
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["servers", "nic links\n12 GB/s", "rack links\n2 x 12 GB/s", "pod links\n4 x 12 GB/s"]
    figure = draw_topology(topology(TopologySpec(), "32x8/8"), loads=[0.25] * 35 + [0.75])
    lines = figure.axes[0].collections[0]
    assert np.asarray(lines.get_array()).tolist() == [0.25] * 7 + [0.75]  # four boxes of servers and four uplinks
    assert [text.get_text() for text in figure.axes[0].texts][:4] == ["8"] * 4


def test_odd_graphs_are_drawn(tmp_path: Path) -> None:
    graph = two_switches()
    graph.add_edge("s0", "$^", GBps=1.0)  # not a math formula
    graph.add_node("spare")  # a switch without a link
    graph.add_node(("a", 1), server=4)
    for switch in ("s0", "s1"):
        graph.add_edge(("a", 1), switch, GBps=10.0)
    one = nx.Graph()
    for switch in "ab":
        one.add_edge(0, switch, GBps=1.0)
    one.add_edge("a", "b", GBps=1.0)
    one.nodes[0]["server"] = 0
    network = compiled(one)
    figure = draw_topology(network, tmp_path / "one.png", [1.5] * len(network.links))
    assert [text.get_text() for text in figure.axes[0].texts] == ["0", "a", "b"]
    lines = figure.axes[0].collections[0]
    assert len(lines.get_segments()) == 3
    assert np.asarray(lines.get_array()).tolist() == [1.5] * 3
    assert lines.get_clim() == (0.0, 1.5)  # a load above capacity
    graph.remove_node(("a", 1))
    figure = draw_topology(compiled(graph), tmp_path / "odd.png")
    assert {"$^", "spare"} <= {text.get_text().replace("\\", "") for text in figure.axes[0].texts}
    assert len(figure.axes[0].collections[0].get_segments()) == 4 + 2
    for name in ("one", "odd"):
        assert ink(tmp_path / f"{name}.png") > 0.01


@pytest.mark.parametrize("wrong", [[0.5], [float("nan")] * 36])
def test_loads_that_are_refused(wrong: list[float]) -> None:
    with pytest.raises(GpuschedError, match="one finite load for each of the 36 links"):
        draw_topology(topology(TopologySpec(), "32x8/8"), loads=wrong)
    with pytest.raises(GpuschedError, match="a figure is saved as"):
        draw_topology(topology(TopologySpec(), "32x8/8"), "x.gif")
