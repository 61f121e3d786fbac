"""Compute the loads of the links in a run by replaying the decisions of its log."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import PREEMPT, REFUSE, RESIZE, RESUME, START, EventLog
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import ClusterView, Outcome, Simulation
from gpusched_env.simulator.past import decision_of_event

__all__ = ["link_loads"]


def link_loads(instance: Instance, log: EventLog, times_s: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return the one-way load of each row of ``instance.links`` after all events of each time; [times, L] [byte/s]."""
    if instance.topology is None:
        raise GpuschedError("link_loads: the network is priced by tiers; give an instance with a topology")
    asked = np.asarray(times_s, float)
    if np.isnan(asked).any():
        raise GpuschedError("link_loads: a time is NaN; give times in simulated seconds")
    # Decisions are replayed at their logged times. Rounds only restrict these times, so the replay has no rounds.
    rules = dataclasses.replace(instance.semantics, round_s=0.0)
    simulation = Simulation(Instance(instance.cluster, instance.workload, instance.network, rules, instance.sharing))
    view = ClusterView(simulation)
    due = np.flatnonzero(np.isin(log.events["kind"], (START, RESUME, PREEMPT, RESIZE, REFUSE)))
    due = due[~np.isin(due, np.flatnonzero(log.events["kind"] == RESIZE) + 1)]  # a resize causes the resume after it
    decided_s = log.events["time_s"][due]
    loads = np.zeros((len(asked), len(instance.links)))
    made = 0
    order = np.argsort(asked, kind="stable")
    shown = int(np.searchsorted(asked[order], 0.0))
    outcome = Outcome.DECIDE
    while outcome is Outcome.DECIDE and shown < len(asked):
        following = decided_s[made] if made < len(due) else np.inf
        simulation.wake_at(min(float(asked[order[shown]]), float(following)))
        outcome = simulation.advance()
        while made < len(due) and decided_s[made] <= simulation.now_s:
            decision = decision_of_event(instance, log, int(due[made]))
            if decision is not None and (reason := simulation.apply(decision)):
                raise GpuschedError(f"link_loads: event {due[made]} of the log cannot be played again: {reason}")
            made += 1
        simulation.arrays.world["restarting"] = 0  # the log has the restarts of all gangs
        while shown < len(asked) and asked[order[shown]] < simulation.now_s:
            shown += 1  # before the first event, all loads are 0
        same = shown
        while same < len(asked) and asked[order[same]] == simulation.now_s:  # the simulation stops at each given time
            same += 1
        if same > shown:
            loads[order[shown:same]] = view.network.loads_Bps()
            shown = same
    return loads
