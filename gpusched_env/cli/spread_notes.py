"""A note on gangs that fit in no machine and run at rates measured across machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario


def spread_note(scenario: Scenario, seed: int) -> str:
    """Return a note on how many jobs fit into no machine and run slower across machines; "" if there are none."""
    import numpy as np

    from gpusched_env.problem.cluster import MACHINE

    scenario = scenario.problem(seed)
    cluster, spec = scenario.cluster, scenario.workload
    largest = max(group.gpus for group in scenario.groups)
    log = scenario.log
    if cluster.gpus == largest or (log is not None and log.jobs["gpus"].max() <= largest):
        return ""  # no job needs to spread: a draw is not needed
    workload = spec.draw(seed, log, cluster.gpus, cluster.gpu_types)
    rows = workload.profiles.measured
    keys = ["profile", "gpu_type", "gpus"]
    rows = rows[(rows["gpus"] > largest) & np.isfinite(rows["compute_s"])]
    together = {tuple(row[keys]): row["compute_s"] for row in rows if row["tier"] == MACHINE}
    slower: dict[tuple[int, int], float] = {}  # (profile, gang size) -> largest slowdown when spread
    for row in rows[rows["tier"] > MACHINE]:
        one_machine_s = together.get(tuple(row[keys]), np.inf)  # inf: not measured in one machine
        ratio = (row["compute_s"] + row["communication_s"]) / one_machine_s
        job = int(row["profile"]), int(row["gpus"])
        slower[job] = max(ratio, slower.get(job, 1.0))
    jobs = list(zip(workload.jobs["profile"].tolist(), workload.jobs["gpus"].tolist(), strict=True))
    paying = [slower[job] for job in jobs if slower.get(job, 1.0) > 1]
    if not paying:
        return ""
    return (
        f"note: {len(paying):,} of {len(jobs):,} jobs fit into no machine (at most {largest} GPU{'s' * (largest > 1)}) "
        f"and run at the rates measured across machines, up to {max(paying):.3g} times slower; with --ignore-placement "
        "they run as fast as in one machine, as in Gavel's simulator"
    )
