"""The public names of the core. Loops of schedulers, environments and users' kernels import them from here."""

from gpusched_env.core.admission import refuse
from gpusched_env.core.driver import ASSIST, BEGINS, LEASE, NOTHING, PREEMPT, START, WAIT, Choice, policy
from gpusched_env.core.events import (
    DECIDE,
    DONE,
    EXPLICIT,
    STALLED,
    TIME_LIMIT,
    TOO_LATE,
    advance,
    attained_service,
    has_room,
    lease,
    preempt,
    seconds_left,
    start,
    work_left,
)
from gpusched_env.core.handle import Handle, array, kernel
from gpusched_env.core.network.contention import OWN, PORTS, contention_model
from gpusched_env.core.network.flows import iteration_at
from gpusched_env.core.network.models import busiest_port
from gpusched_env.core.placement.beside import find_beside
from gpusched_env.core.placement.placing import fits, look_for
from gpusched_env.core.placement.rules import placement_rule, rule_number
from gpusched_env.core.placement.shared import find_shared
from gpusched_env.core.placement.taking import take, take_this
from gpusched_env.core.planning import Walk, next_of_plan, plan_preemptive, plan_starts
from gpusched_env.core.queries import Asked, link_load, progress, what_if
from gpusched_env.core.resizing import ask_again, choose_size, resize
from gpusched_env.core.state import Run

__all__ = [
    "ASSIST", "BEGINS", "DECIDE", "DONE", "EXPLICIT", "LEASE", "NOTHING", "OWN", "PORTS", "PREEMPT",
    "STALLED", "START", "TIME_LIMIT", "TOO_LATE", "WAIT", "Asked", "Choice", "Handle", "Run", "Walk", "advance",
    "array", "ask_again", "attained_service", "busiest_port", "choose_size", "contention_model", "find_beside",
    "find_shared", "fits", "has_room", "iteration_at", "kernel", "lease", "link_load", "look_for", "next_of_plan",
    "placement_rule", "plan_preemptive", "plan_starts", "policy", "preempt", "progress", "refuse", "resize",
    "rule_number", "seconds_left", "start", "take", "take_this", "what_if", "work_left",
]  # fmt: skip
