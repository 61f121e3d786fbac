"""The settings of the runs of this card: labels, specs of schedulers, and scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gpusched_env.scenarios.seeds import Seeds

FIRST_SEED: Final = Seeds().report[0]
UTILITIES: Final = {
    "normalised": "hadar",
    "raw": "hadar:utility=effective_throughput_raw",
    "inverse remaining": "hadar:utility=inverse_remaining",
}
OTHERS: Final = {
    "Gavel, max-min fairness": "gavel",
    "Gavel, makespan": "gavel-makespan",
    "Tiresias": "tiresias",
    "YARN-CS": "yarn-cs",
}
POLICIES: Final = {f"Hadar, {name}": spec for name, spec in UTILITIES.items()} | OTHERS
DEFAULT: Final = "Hadar, normalised"
FREE: Final = "as Gavel's simulator"  # setting without costs of spreading and resuming, for the comparison with Gavel
MEASURED: Final = "measured cost of spreading, 10 s to resume"
SETTINGS: Final = {FREE: ["spread=free", "restore_s=0"], MEASURED: []}

FORKED: Final = "HadarE"
RIVALS: Final = {
    "longest first, migrates": "hadare-single",
    "arrival, migrates": "hadare-single:order=arrival",
    "shortest first, migrates": "hadare-single:order=shortest",
    "longest first, sticky": "hadare-sticky",
    "arrival, sticky": "hadare-sticky:order=arrival",
}
IN_ROUNDS: Final = {"Hadar": "hadar", "Gavel": "gavel"}  # of which HadarE's utilisation may be claimed
PLAYERS: Final = {FORKED: "hadare"} | RIVALS | IN_ROUNDS
NODES: Final = {"aws": 3, "lab": 5}
SLOTS_S: Final = (90, 180, 360, 720)
SLOT_MIXES: Final = (1, 5, 12)


class Extent(NamedTuple):
    """The extent of a full or quick reproduction."""

    problem: Sequence[str]  # parameters of hadar-60gpu-v1
    seeds: int
    mixes: Sequence[int]  # jobs
    mix_seeds: int


FULL: Final = Extent((), 5, (1, 3, 4, 5, 8, 10, 12), 20)
QUICK: Final = Extent(("nodes=2", "jobs=100"), 2, (1, 3, 5), 5)


def of_policy(setting: str, policy: str) -> dict[str, Any]:
    """Labels of a run of Hadar or one of its rivals."""
    return {"part": "hadar", "setting": setting, "policy": policy}


def of_mix(cluster: str, jobs: int, player: str) -> dict[str, Any]:
    """Labels of a run of HadarE or one of its rivals."""
    return {"part": "hadare", "cluster": cluster, "jobs": jobs, "policy": player}


def of_slot(jobs: int, slot_s: int) -> dict[str, Any]:
    """Labels of a run of HadarE on the lab cluster with a given slot length."""
    return {"part": "slots", "jobs": jobs, "slot_s": slot_s}


def family_name(name: str, parameters: Sequence[str]) -> str:
    """Return the name of a scenario with parameters."""
    return f"{name}:{','.join(parameters)}" if parameters else name
