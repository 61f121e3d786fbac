"""Dally (Sharma et al., arXiv 2401.16492): the models of its jobs, and their efficiency for each shape of a gang."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from gpusched_env.errors import TraceError
from gpusched_env.network.dimensions import DIMENSIONS, reachable_shapes
from gpusched_env.problem.cluster import Cluster
from gpusched_env.traces.profile_tables.efficiency import EfficiencyTable, Shape, ShapedModel
from studies.profile_tables.layer_efficiency import DIMENSION_LINKS, Layers
from studies.published_tables import Table, read_layers, read_table

# Layer file and factor of the compute times of each model (aakash-sharma/cluster-sim, job files). The repository also
# has ResNet50.txt and VGG.txt for other accelerators, and does not say which files its authors used. The .csv files are
# used here.
MODELS: Final = {
    "AlexNet": ("alexnet_B512_astra-sim.csv", 0.0199),
    "BERT": ("BERT-large_B256_astra-sim2.csv", 0.0001121),
    "MobileNetV3": ("mobilenet_v3_B512_astra-sim.csv", 0.00639),
    "ResNet18": ("resnet18_B512_astra-sim.csv", 0.001223),
    "ResNet50": ("resnet50_B512_astra-sim.csv", 0.03395),
    "VGG": ("vgg11_B256_astra-sim.csv", 0.01549),
}
# [GPU] the gang sizes above one in the job files, and a few more that other workloads may have
GANGS: Final = (2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64)
LARGEST: Final = Cluster.parse("64x8s2/8")  # eight racks of eight machines; smaller clusters have fewer shapes
LAYER_FOLDER, SIMULATED_FILE = "workload", "astra_efficiency.csv"
SIMULATED_NETWORK: Final = "nvswitch"  # network of the placements in that file
HALF_DIGIT: Final = 5.1e-6  # largest rounding error of the efficiencies in that file
DIGITS: Final = 6  # number of significant digits of an efficiency in the table


def dally_table(source: Path) -> EfficiencyTable:
    """Compute the efficiencies of the six models on the shapes that their gangs can have on machines with two slots.

    If ``astra_efficiency.csv`` has a row for a model and shape, the efficiency is the result of ASTRA-sim in this row.
    Otherwise it is computed by the closed form of :meth:`Layers.efficiency`. On the rows of the file, the relative
    error of the closed form is 0.4 % in the median and at most 27 %. It is largest where the gradients of many small
    layers are sent while the model computes.
    """
    layers = {name: model_layers(source, name) for name in MODELS}
    simulated = simulated_efficiencies(source, layers)
    shapes = sorted({shape for gang in GANGS for shape in reachable_shapes(LARGEST, gang)})
    models = {}
    for name, model in layers.items():
        efficiency = {
            network: {shape: _rounded(model.efficiency(links, shape)) for shape in shapes}
            for network, links in DIMENSION_LINKS.items()
        }
        better = {shape: value for (of, shape), value in simulated.items() if of == name}
        efficiency[SIMULATED_NETWORK] |= {shape: _rounded(better[shape]) for shape in shapes if shape in better}
        gradient = model.gradient_bytes
        skew = _rounded(float(gradient.max() / gradient.sum()))
        models[name] = ShapedModel(model.compute_ns / 1e9, float(gradient.sum()), skew, efficiency)
    return EfficiencyTable(
        "dally",
        "computed here from the layer files of aakash-sharma/cluster-sim at its link rates, with the analytical back "
        "end of ASTRA-sim 1.0 where that was run; Sharma et al., arXiv 2401.16492",
        "not stated; computed efficiencies only",
        "python -m studies.profile_tables dally FOLDER",
        models,
    )


def model_layers(source: Path, model: str) -> Layers:
    """Read the layers of a model and scale their compute times."""
    file, scale = MODELS[model]
    table, _ = read_layers(source / LAYER_FOLDER / file)
    return Layers.of_table(table, scale)


def simulated_efficiencies(source: Path, layers: dict[str, Layers]) -> dict[tuple[str, Shape], float]:
    """Read the efficiencies that ASTRA-sim computed, by model and shape.

    The column has five decimals, so they are computed from the communication time where this agrees with it.
    """
    table, _ = read_table(f"dally-efficiency:{source / SIMULATED_FILE}")
    columns = (table[name].tolist() for name in ("model", "exposed_comm_us", "efficiency"))
    found = {}
    for shape, model, exposed_us, rounded in zip(table_shapes(table), *columns, strict=True):
        if model not in layers:
            raise TraceError(f"{source / SIMULATED_FILE}: model {model!r} is unknown; known: {', '.join(MODELS)}")
        compute_ns = layers[model].compute_ns
        exact = compute_ns / (compute_ns + 1e3 * exposed_us)
        found[model, shape] = exact if abs(exact - rounded) <= HALF_DIGIT else rounded
    return found


def table_shapes(table: Table) -> list[Shape]:
    """Return the shape of each row, which the file gives as units ("4x2") in dimensions ("gpu+slot")."""
    shapes = []
    for units, names in zip(table["units"].tolist(), table["dimensions"].tolist(), strict=True):
        told = dict(zip(names.split("+"), map(int, units.split("x")), strict=True))
        gpu, slot, machine, rack = (told.get(dimension, 1) for dimension in DIMENSIONS)
        shapes.append((gpu, slot, machine, rack))
    return shapes


def _rounded(value: float) -> float:
    return float(np.format_float_positional(value, DIGITS, fractional=False))
