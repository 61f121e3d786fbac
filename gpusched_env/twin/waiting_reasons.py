"""What the reason of a pending Slurm job means for a forecast: it waits for GPUs, is held, is limited, or never starts.

Source of the words: ``src/common/job_state_reason.c`` of Slurm, and its page on job reason codes.
"""

from __future__ import annotations

import re
from typing import Final

from gpusched_env.traces.parsing.slurm_fields import UNTOLD

WAITS, HELD, LIMITED, NEVER = "waits", "held", "limited", "never"
_AMOUNT: Final = (
    "(?:BB|Billing|C[Pp][Uu]|Energy|GRES|(?:Submit)?Jobs?|License|Mem(?:ory)?|Node|Unknown|Wall(?:Duration)?)"
)
# The first pattern that the whole word matches decides. A limit of one job or node, or a least amount, does not change
# while the job waits; a limit of a group, a user, an account or an association frees itself when other jobs end.
_PATTERNS: Final = {
    NEVER: (
        "above .*|"  # a limit of a twin: own_limits.py
        rf"(?:Assoc|QOS)Max{_AMOUNT}(?:Minutes)?Per(?:Job|Node)(?:Limit)?|QOSMin{_AMOUNT}(?:NotSatisfied)?"
        "|MaxMemPerLimit|Partition(?:NodeLimit|TimeLimit|Config)|DependencyNeverSatisfied|BadConstraints|DeadLine"
        "|Invalid(?:Account|QOS)|QOSNotAllowed|AccountNotAllowed|BurstBufferOperation|Reservation(?:Deleted|Invalid)"
    ),
    LIMITED: (
        rf"(?:Assoc|QOS)Grp{_AMOUNT}(?:Run)?(?:Minutes)?(?:Limit)?|AssocMax(?:Submit)?Jobs?(?:Limit)?"
        rf"|QOSMax{_AMOUNT}PerUser(?:Limit)?|Max{_AMOUNT}PerAccount|(?:Association|QOS)(?:Job|Resource|Time)Limit"
        "|QOSUsageThreshold|AccountingPolicy|JobArrayTaskLimit"
    ),
    HELD: (
        "JobHeld(?:Admin|User)|JobHoldMaxRequeue|Dependency|BeginTime|Reservation|ReqNodeNotAvail|FrontEndDown"
        "|NodeDown|Partition(?:Down|Inactive)|Licenses|Constraints|Power(?:NotAvail|Reserved)"
        "|BurstBuffer(?:Resources|StageIn)|FedJobLock|launch failed requeued held|job requeued in held state"
    ),
    # WAIT_RESOURCES has a sentence if nodes are down: "..., DRAINED or reserved for jobs in higher priority partitions"
    WAITS: "Priority|Resources|Nodes required for job are DOWN|Prolog|Cleaning|SchedDefer|WaitingForScheduling",
}
_KINDS: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS.items())


def kind_of(reason: str) -> str:
    """Return WAITS, HELD, LIMITED or NEVER; a reason that is not Slurm's counts as HELD, as nothing is known of it."""
    words = reason.strip().strip("()").replace("_", " ")
    word = words.partition(",")[0].strip()
    if word in UNTOLD:
        return WAITS
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(word)), HELD)
