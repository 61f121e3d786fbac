"""All-reduce times of NCCL: shipped constants are the calibrated ones, goals are met, and the simulator plays them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from network_play import PROFILE, paces

from gpusched_env.errors import ScenarioError
from gpusched_env.network import NETWORK_PRESETS, Contention, Network, collectives
from gpusched_env.network.presets import FABRICS
from studies.reproduce.testbeds import fabrics
from studies.reproduce.testbeds.playing import measured_of
from studies.reproduce.testbeds.reading import Measured

BANDS = tuple(fabrics.BANDS)


@pytest.fixture(scope="module")
def frozen() -> tuple[dict[str, Any], Measured]:
    _, measured = measured_of()
    constants = fabrics.calibrate(measured)
    measured.frozen = True
    return constants, measured


def errors(frozen: tuple[dict[str, Any], Measured], row: str, column: str = "calibrated") -> dict[str, float]:
    """Group -> median of |predicted / measured - 1|."""
    [points] = fabrics.play(row, column, *frozen)
    groups = np.array(points.groups)
    error = np.abs(points.predicted / points.measured - 1.0)
    return {name: float(np.median(error[groups == name])) for name in dict.fromkeys(points.groups)}


def test_the_shipped_constants_are_calibrated(frozen: tuple[dict[str, Any], Measured]) -> None:
    for row in ("F1-own", "F1-new", "F1-rack"):
        assert {name: tuple(values) for name, values in frozen[0][row].items()} == FABRICS


@pytest.mark.parametrize("fabric", ["nvlink", "ib"])
def test_the_latency_of_two_fabrics_is_one_measured_time(fabric: str) -> None:
    """As the comment of FABRICS and the claim say; a file with more small messages should change both."""
    table = measured_of()[1].calibration(fabrics.FILE, fabrics.COLUMNS, fabrics.calibrating)
    of_set = (table["set"] == fabrics.CALIBRATED_ON[fabric]) & (table["size_B"] <= 2.0**16)
    assert table["size_B"][of_set].tolist() == [2.0**15]
    assert table["time_us"][of_set].tolist() == [pytest.approx(FABRICS[fabric][0] * 1e6)]


def test_each_half_of_the_rows_of_three_fabrics_calibrates_once(frozen: tuple[dict[str, Any], Measured]) -> None:
    known = frozen[1].test(fabrics.FILE, ["set", "size_B"], lambda table: np.ones(len(table["set"]), bool))
    for swapped in (False, True):
        chosen = fabrics.calibrating(known, swapped)
        assert set(known["set"][chosen].tolist()) == {"h200-1", "p5-2", "a100-4"}
        for name in ("h200-1", "p5-2", "a100-4"):
            sizes = known["size_B"][known["set"] == name]
            assert known["size_B"][chosen & (known["set"] == name)].tolist() == sizes[swapped::2].tolist()
        row = fabrics.SWAPPED if swapped else "F1-own"
        np.testing.assert_array_equal(frozen[1].seen[row][fabrics.FILE, "time_us"], chosen)


def test_the_knee_fits_the_rows_of_the_calibration_best(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = {}
    for power in range(22, 29):
        monkeypatch.setattr(collectives, "KNEE_BYTES", 2.0**power)
        _, measured = measured_of()
        table = measured.calibration(fabrics.FILE, fabrics.COLUMNS, fabrics.calibrating)
        machines, constants = measured.listed[fabrics.FILE]["machines"], {}
        for fabric, name in fabrics.CALIBRATED_ON.items():
            constants[fabric] = fabrics._fitted(table, table["set"] == name, machines)
        times = [fabrics.seconds(table, at, machines, "calibrated", constants) for at in range(len(table["set"]))]
        losses[2.0**power] = float(
            (np.log(np.array(times) * 1e6 / table["time_us"]) ** 2)[table["size_B"] > 2**16].sum()
        )
    monkeypatch.undo()
    assert min(losses, key=lambda knee: losses[knee]) == collectives.KNEE_BYTES, losses


def test_each_preset_of_measured_latency_beats_the_ring_on_what_was_measured(
    frozen: tuple[dict[str, Any], Measured],
) -> None:
    """Of the bands of all sets of such machines, in more than half; other machines are in the table alone."""
    machines = frozen[1].listed[fabrics.FILE]["machines"]
    better: dict[str, list[bool]] = {}
    for row in ("F1-own", "F1-new", "F1-rack"):
        found, plain = errors(frozen, row), errors(frozen, row, "as is")
        for name in (name for name in found if name.partition(", ")[0] in machines):
            better.setdefault(machines[name.partition(", ")[0]], []).append(found[name] < plain[name])
    of_presets = {preset for preset, won in better.items() if np.mean(won) > 0.5}
    assert of_presets == {name for name, one in NETWORK_PRESETS.items() if one.topology.latency == "measured"}


def test_other_rows_of_a_calibrated_fabric(frozen: tuple[dict[str, Any], Measured]) -> None:
    found = errors(frozen, "F1-own")
    missed = {name for name, error in found.items() if error > 0.10}
    assert missed == {"a100-4, to 16 MiB"}  # NCCL changes its protocol there
    assert found["a100-4, to 16 MiB"] < 0.12
    plain = errors(frozen, "F1-own", "as is")
    assert np.median([found[name] / plain[name] for name in found]) < 0.5
    swapped = errors(
        frozen, fabrics.SWAPPED
    )  # the goal of 10 % is missed, if the other half calibrates, in three bands
    assert {name.partition(", ")[2] for name, error in swapped.items() if error > 0.10} == set(BANDS[:3])
    assert max(swapped.values()) < 0.18


def test_fabrics_without_calibration(frozen: tuple[dict[str, Any], Measured]) -> None:
    found, plain = errors(frozen, "F1-new"), errors(frozen, "F1-new", "as is")
    assert max(error for name, error in found.items() if name.endswith(BANDS[3])) < 0.10 < max(plain.values())
    assert max(error for name, error in found.items() if name.endswith(BANDS[2])) < 0.25
    # trees over two machines send M, and the switch reduces
    assert found["p4de-2, above 256 MiB"] < 0.1 * plain["p4de-2, above 256 MiB"]
    assert errors(frozen, "F1-new", "rules")["ib-2, above 256 MiB"] < 0.05 < plain["ib-2, above 256 MiB"]


def test_the_rate_of_the_hardware_needs_no_constant(frozen: tuple[dict[str, Any], Measured]) -> None:
    """The slope of the largest messages is the rate that NCCL's published shares give."""
    calibrated, large = frozen[0]["F1-own"], 2.0**33
    for name in ("p5-2", "h200-1", "b200-1", "ib-2", "a100-4"):
        table = frozen[1].test(
            fabrics.FILE,
            fabrics.COLUMNS,
            lambda known, name=name: (known["set"] == name) & (known["size_B"] >= large / 2),
        )
        machines = frozen[1].listed[fabrics.FILE]["machines"]
        predicted = [fabrics.seconds(table, at, machines, "calibrated", calibrated) for at in (0, 1)]
        slope = (predicted[1] - predicted[0]) / ((table["time_us"][1] - table["time_us"][0]) * 1e-6)
        assert slope == pytest.approx(1.0, abs=0.2 if name == "b200-1" else 0.07), name  # B200 changes its algorithm


def test_the_floor_is_the_same_machine_with_other_software(frozen: tuple[dict[str, Any], Measured]) -> None:
    [points] = fabrics.play("F1-own", "floor", *frozen)
    ratio = (points.predicted / points.measured)[np.char.startswith(np.array(points.groups), "p5-2")]
    assert ratio == pytest.approx([1.66, 2.24, 2.05, 1.41, 1.39, 1.01], abs=0.006)  # printed by its source
    assert fabrics.play("F1-new", "floor", *frozen) == []


def test_the_simulator_plays_the_same_times(frozen: tuple[dict[str, Any], Measured]) -> None:
    """Two gangs of 16 GPUs on two machines each, alone and on the same NICs."""
    table = frozen[1].test(fabrics.FILE, fabrics.COLUMNS, lambda known: known["set"] == "p4de-2")
    row = int(np.flatnonzero(table["size_B"] == 2.0**27)[0])
    machines = frozen[1].listed[fabrics.FILE]["machines"]
    alone_s = fabrics.seconds(table, row, machines, "calibrated", frozen[0]["F1-new"])
    spec = replace(NETWORK_PRESETS["p4de-efa"].topology, kind="single-switch")
    net = Network("topology", topology=spec, contention=Contention(), collective="nccl")
    profile = PROFILE | dict(gradient_bytes=2.0**27, compute_s=0.05)
    assert paces("2x8", [{0: 8, 1: 8}], net, profiles=[profile])[0] == pytest.approx(0.05 + alone_s, rel=1e-12)
    # two gangs of 4 + 4 GPUs share the NICs: only their bytes take twice as long
    half = replace(net, topology=replace(spec, nics=1))
    one = paces("2x8", [{0: 4, 1: 4}], half, profiles=[profile])[0]
    two = paces("2x8", [{0: 4, 1: 4}] * 2, half, profiles=[profile])
    assert two == pytest.approx(one + 2.0**27 / (0.92 * 48e9), rel=1e-12)


def test_a_preset_of_measured_latency_plays_the_table_and_refuses_other_collectives(
    frozen: tuple[dict[str, Any], Measured],
) -> None:
    """``--network p4de-efa`` gives the times of the column "calibrated", whatever the scenario's collective was."""
    table = frozen[1].test(fabrics.FILE, fabrics.COLUMNS, lambda known: known["set"] == "p4de-2")
    row = int(np.flatnonzero(table["size_B"] == 2.0**27)[0])
    told_s = fabrics.seconds(table, row, frozen[1].listed[fabrics.FILE]["machines"], "calibrated", frozen[0]["F1-new"])
    spec = NETWORK_PRESETS["p4de-efa"].topology
    profile = PROFILE | dict(gradient_bytes=2.0**27, compute_s=0.05)
    for before in (
        Network("none"),
        Network(
            "topology", topology=replace(spec, latency="steps", gpu_depth_s=0.0, nic_depth_s=0.0), collective="best"
        ),
    ):
        net = before.with_topology(spec)
        assert paces("2x8", [{0: 8, 1: 8}], net, profiles=[profile])[0] == pytest.approx(0.05 + told_s, rel=1e-12)
    for wrong in (dict(), dict(collective="best"), dict(collective="nccl", profile_collectives=(("x", "ring"),))):
        with pytest.raises(ScenarioError, match=r"measured latencies are not those of \w+: set the collective to nccl"):
            Network("topology", topology=spec, **wrong)  # type: ignore[arg-type]
