"""Part four of the validator: GPUs are shared within the rules, and each rate follows from the gang's company."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpusched_env.event_log import RESUME, START, EventLog
from gpusched_env.metrics.co_residents import Slowdowns, changes, gpu_types, rates_told, slowdowns
from gpusched_env.metrics.refusal import refusal, refuse
from gpusched_env.problem.instance import Instance

MEMORY_SLACK: Final = 1e-8  # tolerance for rounding, as a share of a GPU's memory
RELATIVE: Final = 1e-9  # tolerance, as a share of the iteration time


def check_sub_steps(instance: Instance, log: EventLog) -> None:
    """Refuse a number of sub-steps that the job's class does not have, or on an event that places no gang."""
    events, tables = log.events, instance.sharing_tables
    places = (events["kind"] == START) | (events["kind"] == RESUME)
    refuse(log, ~places & (events["sub_steps"] != 1), "it places no gang, so sub_steps must be 1")
    if tables is None:
        passes = instance.passes[instance.job_class[events["job"]]]
        refuse(log, places & (events["sub_steps"] != passes), "without sharing, sub_steps must be the profile's passes")
        return
    known = (tables.sub_steps[instance.job_class[events["job"]]] == events["sub_steps"][:, None]).any(axis=1)
    refuse(log, places & ((events["sub_steps"] < 1) | ~known), "its batch cannot be split into that many sub-steps")


def check_company(instance: Instance, log: EventLog, table: np.ndarray) -> None:
    """Refuse a GPU with more gangs than may share it, with a forbidden pair, or with too little memory."""
    tables = instance.sharing_tables
    assert tables is not None
    types = gpu_types(instance).tolist()
    kinds = instance.job_class[table["job"]]
    option = (tables.sub_steps[kinds] == table["sub_steps"][:, None]).argmax(axis=1)
    memory = tables.memory[kinds, option]
    allowed = np.isfinite(tables.interference)
    residents: list[list[int]] = [[] for _ in types]
    for change in changes(log, table):
        for gpu in change.gang.tolist():
            here = residents[gpu]
            if not change.joins:
                here.remove(change.segment)
                continue
            if change.segment in here:
                raise refusal(log, change.event, f"GPU {gpu} occurs twice in the gang")
            jobs = ", ".join(str(table["job"][segment]) for segment in here)
            if len(here) == instance.gpu_jobs:
                raise refusal(log, change.event, f"GPU {gpu} is held by job {jobs}")
            new = kinds[change.segment]
            for other in kinds[here]:
                if not (allowed[new, other, types[gpu]] and allowed[other, new, types[gpu]]):
                    raise refusal(log, change.event, f"its model must not share GPU {gpu} with that of job {jobs}")
            here.append(change.segment)
            used = float(memory[here, types[gpu]].sum())
            if used > 1.0 + MEMORY_SLACK:
                beside = f" beside job {jobs}" if jobs else ""
                raise refusal(log, change.event, f"GPU {gpu} would need {used:.6g} times its memory{beside}")


def check_rates(instance: Instance, log: EventLog, table: np.ndarray) -> None:
    """Refuse rates that do not follow from sub-steps and company, and changes of a rate without an event.

    With a topology, rates also depend on contention, and are not checked.
    """
    events, slot_s = log.events, instance.semantics.slot_s
    found = slowdowns(instance, log, table)
    due_s = table["alone_s"][found.segment] * found.slowdown
    if slot_s > 0:
        with np.errstate(divide="ignore"):
            due_s = slot_s / np.floor(slot_s / due_s)
    due = found._replace(slowdown=due_s)

    rates, segment = rates_told(log, table)
    time_s, value = events["time_s"][rates], events["value"][rates]
    # A rate takes effect after all events of the same time. If the rate is replaced at this time, or its gang stops,
    # skip the rate.
    stops = time_s >= table["stop_s"][segment]
    replaced = np.append((segment[1:] == segment[:-1]) & (time_s[1:] == time_s[:-1]), False)[: len(rates)]
    expected = due.at(segment, time_s)
    wrong = np.zeros(len(events), bool)
    wrong[rates] = ~_alike(value, expected) & ~stops & ~replaced
    if wrong.any():
        at = int(np.argmax(wrong))
        wanted = float(expected[rates == at][0])
        raise refusal(log, at, f"with its company and sub-steps an iteration takes {wanted:.9g} s, not the rate logged")

    holds = (due.time_s < table["stop_s"][due.segment]) & (due.time_s < events["time_s"][-1:].max(initial=0.0))
    told = Slowdowns(segment, time_s, value).at(due.segment, due.time_s)
    untold = holds & ~_alike(told, due.slowdown)
    if untold.any():
        at = int(np.argmax(untold))
        start = int(table["start_event"][due.segment[at]])
        reason = f"from {due.time_s[at]:.6f} s on an iteration takes {due.slowdown[at]:.9g} s, but no rate says so"
        raise refusal(log, start, reason)


def _alike(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return which values are equal up to rounding; bool."""
    with np.errstate(invalid="ignore"):
        alike: np.ndarray = (one == other) | (np.abs(one - other) <= RELATIVE * other)
    return alike
