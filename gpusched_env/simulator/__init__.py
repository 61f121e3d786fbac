"""The exact event-driven simulator. It depends on no Gymnasium environment, no policy and no file format."""

from gpusched_env.core import handle
from gpusched_env.core import placement as placement  # the import registers the placement rules
from gpusched_env.core.placement.rules import PLACEMENT_RULES, RULE_NUMBER, placement_rule, rule_number
from gpusched_env.simulator.compiled import CompiledScheduler
from gpusched_env.simulator.decisions import Decision, Lease, Preempt, Refuse, Resize, Start, Wait
from gpusched_env.simulator.past import Move, begin, moves_of
from gpusched_env.simulator.scheduler import Scheduler
from gpusched_env.simulator.simulation import Outcome, Simulation, Until, simulate
from gpusched_env.simulator.view import ClairvoyantView, ClusterView
from gpusched_env.support.warmup import Teller

handle.set_listener(Teller())

__all__ = [
    "PLACEMENT_RULES",
    "RULE_NUMBER",
    "ClairvoyantView",
    "ClusterView",
    "CompiledScheduler",
    "Decision",
    "Lease",
    "Move",
    "Outcome",
    "Preempt",
    "Refuse",
    "Resize",
    "Scheduler",
    "Simulation",
    "Start",
    "Until",
    "Wait",
    "begin",
    "moves_of",
    "placement_rule",
    "rule_number",
    "simulate",
]  # fmt: skip
