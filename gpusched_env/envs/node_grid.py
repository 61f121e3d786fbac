"""Where each GPU of a cluster is drawn: nodes in rows, several side by side where there are many, racks apart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from gpusched_env.envs.canvas import Panel
from gpusched_env.problem.cluster import Cluster

_ROW: Final = 10  # [pixel] a node has a row of its own if rows are at least as high
_RACK: Final = 4  # [pixel] no lines between racks that are lower
_LABEL: Final = 14  # [pixel] least distance of labels


class NodeGrid:
    """Cells of GPUs in a panel. A rack begins a row, or several small racks stand side by side.

    Parameters
    ----------
    limit : jobs that may share a GPU; the cell of a GPU is divided among them from left to right

    Attributes
    ----------
    node_columns : nodes side by side
    width : GPUs of the largest node
    """

    def __init__(self, cluster: Cluster, limit: int, panel: Panel) -> None:
        self._cluster, self._limit, self._panel = cluster, limit, panel
        self._counts = np.bincount(cluster.nodes["rack"])
        self._largest = int(self._counts.max())  # nodes of the largest rack
        self.width = int(cluster.nodes["gpus"].max())
        self.node_columns = 1
        if panel.height < _ROW * len(cluster.nodes):
            widest = max(1, panel.width // (2 * self.width))
            self.node_columns = max(range(1, min(widest, len(cluster.nodes)) + 1), key=self._smaller_side)
        self._place()

    def _racks_aside(self, columns: int) -> int:
        return max(1, columns // self._largest)

    def _rack_rows(self, columns: int) -> np.ndarray:
        """Return the number of rows of each row of racks."""
        aside = self._racks_aside(columns)
        if aside == 1:
            return -(-self._counts // columns)
        return np.ones(-(-len(self._counts) // aside), int)

    def _smaller_side(self, columns: int) -> float:
        """Return the smaller side of a job's part of a cell [pixel]."""
        return min(
            self._panel.width / (columns * self.width * self._limit),
            self._panel.height / self._rack_rows(columns).sum(),
        )

    def _place(self) -> None:
        """Find row and column of each GPU, and the pixels of all rows and columns."""
        nodes, columns = self._cluster.nodes, self.node_columns
        aside, rack_rows = self._racks_aside(columns), self._rack_rows(columns)
        self._first_rows = np.concatenate([[0], np.cumsum(rack_rows)])
        order = np.argsort(nodes["rack"], kind="stable")  # nodes of a rack may not be neighbours
        in_rack = np.empty(len(nodes), int)
        in_rack[order] = np.arange(len(nodes)) - np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
        if aside == 1:
            row = self._first_rows[nodes["rack"]] + in_rack // columns
            column = in_rack % columns
        else:
            row = nodes["rack"] // aside
            column = nodes["rack"] % aside * self._largest + in_rack
        node = self._cluster.node_of_gpu
        self._row = row[node]
        self._column = column[node] * self.width + np.arange(self._cluster.gpus) - nodes["first_gpu"][node]
        self._tops = _edges(int(self._first_rows[-1]), self._panel.height)
        self._lefts = _edges(columns * self.width, self._panel.width)
        room = min(self._panel.width / len(self._lefts), self._panel.height / len(self._tops))
        self._gap = 0 if room < 3 else 1 if self._limit == 1 or room < 12 else 3
        self._node_gap = self._gap + (2 if room >= 6 and columns > 1 else 0)
        self._aside = aside

    def _span(self, row: int, column: int) -> tuple[int, int, int, int]:
        """Return left, top, right and bottom of a cell within the panel."""
        last = (column + 1) % self.width == 0
        right = int(self._lefts[column + 1]) - (self._node_gap if last else self._gap)
        return int(self._lefts[column]), int(self._tops[row]), right, int(self._tops[row + 1]) - self._gap

    def cell(self, layer: int, gpu: int) -> tuple[int, int, int, int]:
        """Return left, top, right and bottom of a GPU's part number ``layer`` on the canvas."""
        left, top, right, bottom = self._span(int(self._row[gpu]), int(self._column[gpu]))
        parts = _edges(self._limit, right - left)
        x, y = self._panel.left, self._panel.top
        return x + left + int(parts[layer]), y + top, x + left + int(parts[layer + 1]), y + bottom

    def holds(self, width: float, height: float) -> bool:
        """Tell whether a text of this size fits into a job's part of a cell."""
        cell_width = (self._panel.width / (len(self._lefts) - 1) - self._node_gap) / self._limit
        return cell_width >= width + 2 and self._panel.height / (len(self._tops) - 1) >= height + 1

    def pixels(self, colours: np.ndarray) -> np.ndarray:
        """Return the panel, uint8 [height, width, 3]; ``colours`` has a row for each seat: layers of GPUs."""
        panel, gpus, limit = self._panel, self._cluster.gpus, self._limit
        rows, columns = len(self._tops) - 1, len(self._lefts) - 1
        seats = np.full((rows + 1, columns * limit + 1), len(colours))  # the last row and column are gaps
        for layer in range(limit):
            seats[self._row, self._column * limit + layer] = layer * gpus + np.arange(gpus)
        row_at, column_at = np.full(panel.height, rows), np.full(panel.width, columns * limit)
        for row in range(rows):
            row_at[self._tops[row] : max(self._tops[row + 1] - self._gap, 0)] = row
        for column in range(columns):
            left, _, right, _ = self._span(0, column)
            parts = left + _edges(limit, right - left)
            for layer in range(limit):
                column_at[parts[layer] : parts[layer + 1]] = column * limit + layer
        white = np.concatenate([colours, np.full((1, 3), 255, np.uint8)])
        pixels: np.ndarray = white[seats[row_at[:, None], column_at]]
        edges = self._tops[self._first_rows[1:-1]].tolist()
        for edge in edges if panel.height >= _RACK * len(edges) else []:
            pixels[max(edge - 1, 0) : edge + (self._gap > 0)] = 0
        if self._aside > 1:
            for rack in range(1, self._aside):
                edge = int(self._lefts[rack * self._largest * self.width])
                pixels[:, max(edge - 1, 0) : edge + (self._gap > 0)] = 0
        return pixels

    def row_labels(self) -> Iterator[tuple[int, str]]:
        """Yield labels of rows and the pixels at which they stand: nodes, or racks."""
        if self.node_columns == 1 and self._aside == 1:
            middles = (self._tops[:-1] + self._tops[1:]) // 2
            yield from self._spaced([(int(y), str(node)) for node, y in enumerate(middles.tolist())])
            return
        edges = self._tops[self._first_rows]
        racks = len(self._counts)
        firsts = range(0, racks, self._aside)
        names = [
            f"{first}" if self._aside == 1 else f"{first}-{min(first + self._aside, racks) - 1}" for first in firsts
        ]
        middles = (edges[:-1] + edges[1:]) // 2
        yield from self._spaced([(int(y), f"rack {name}") for name, y in zip(names, middles.tolist(), strict=True)])

    def column_labels(self) -> Iterator[tuple[int, str]]:
        """Yield numbers of a node's GPUs and the pixels at which they stand."""
        middles = (self._lefts[:-1] + self._lefts[1:]) // 2
        step = max(1, math.ceil(2 * _LABEL * len(middles) / self._panel.width))
        yield from ((self._panel.left + int(middles[gpu]), str(gpu)) for gpu in range(0, len(middles), step))

    def _spaced(self, labels: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        """Yield every n-th label, so that labels do not overlap; n is 1, 2, 5, 10, ..."""
        apart = self._panel.height / len(labels)
        step = next(n * 10**k for k in range(9) for n in (1, 2, 5) if n * 10**k * apart >= _LABEL or k == 8)
        yield from ((self._panel.top + y, label) for y, label in labels[::step])


def _edges(count: int, length: int) -> np.ndarray:
    """Return int [count + 1]: edges of ``count`` parts of about equal whole lengths."""
    edges: np.ndarray = np.linspace(0, length, count + 1).round().astype(int)
    return edges
