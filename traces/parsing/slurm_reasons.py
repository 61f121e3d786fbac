"""The words of Slurm's column Reason: what kept a job from starting, and what that means while it is pending.

Source: ``src/common/job_state_reason.c`` of Slurm, and its page on job reason codes.
"""

from __future__ import annotations

import re
from typing import Final

from gpusched_env.traces.parsing.slurm_fields import UNTOLD

# What a reason means for a pending job: it waits for GPUs, is held, is limited until other jobs end, or never starts
WAITS, HELD, LIMITED, NEVER = "waits", "held", "limited", "never"
_AMOUNT: Final = (
    "(?:BB|Billing|CPU|Cpu|Energy|GRES|(?:Submit)?Jobs?|License|Mem(?:ory)?|Nodes?|Unknown|Wall(?:Duration)?)"
)
_DEPENDS: Final = "a dependency or a begin time"
_LIMIT: Final = "a limit of users, accounts, QOS, partitions or arrays"
_RESERVED: Final = "a reservation"
# (cause, "" = another one; meaning; words). The first row whose words are the whole reason counts. The words are
# closed, so that none of them can be a text of a person. A limit of one job or node, or a least amount, does not change
# while the job waits; a limit of a group, a user, an account or an association frees itself when other jobs end.
REASONS: Final = tuple((cause, kind, re.compile(words)) for cause, kind, words in (
    ("held by a user", HELD, "JobHeldUser"),
    ("held by an administrator or by Slurm", HELD,
     "JobHeldAdmin|JobHoldMaxRequeue|launch failed requeued held|job requeued in held state"),
    (_DEPENDS, HELD, "Dependency|BeginTime"),
    (_DEPENDS, NEVER, "DependencyNeverSatisfied"),
    (_LIMIT, NEVER, (
     rf"(?:Assoc|QOS)Max{_AMOUNT}(?:Minutes)?Per(?:Job|Node)(?:Limit)?|QOSMin{_AMOUNT}(?:NotSatisfied)?|MaxMemPerLimit"
     "|Partition(?:NodeLimit|TimeLimit|Config)|Invalid(?:Account|QOS)|QOSNotAllowed|AccountNotAllowed")),
    (_LIMIT, LIMITED, (
     rf"(?:Assoc|QOS)(?:Grp|Max){_AMOUNT}(?:Run)?(?:Minutes)?(?:PerUser)?(?:Limit)?|Max{_AMOUNT}Per(?:Account|Limit)"
     "|(?:Association|QOS)(?:Job|Resource|Time)Limit|QOSUsageThreshold|AccountingPolicy|JobArrayTaskLimit")),
    (_LIMIT, HELD, "TimeLimit|InactiveLimit"),
    (_RESERVED, HELD, "Reservation"),
    (_RESERVED, NEVER, "Reservation(?:Deleted|Invalid)"),
    ("nodes or a partition that were not available", HELD,
     "NodeDown|FrontEndDown|ReqNodeNotAvail|Partition(?:Down|Inactive)"),
    ("no reason told", WAITS, "|".join(map(re.escape, sorted(UNTOLD)))),
    # WAIT_RESOURCES has a sentence if nodes are down: "..., DRAINED or reserved for jobs in higher priority partitions"
    ("", WAITS, "Priority|Resources|Nodes required for job are DOWN|Prolog|Cleaning|SchedDefer|WaitingForScheduling"),
    ("", NEVER, "BadConstraints|DeadLine|BurstBufferOperation"),
    ("", HELD, (
     "Licenses|Constraints|BurstBuffer(?:Resources|StageIn)|Power(?:NotAvail|Reserved)|FedJobLock|SystemFailure"
     "|JobLaunchFailure|NonZeroExitCode|RaisedSignal|OutOfMemory|BlockMaxError|BlockFreeAction")),
))  # fmt: skip
REASON: Final = "|".join(words.pattern for *_, words in REASONS)  # every word of the column


def meaning_of(reason: str) -> tuple[str, str]:
    """Return what kept a job from starting, "" = none of the causes, and WAITS, HELD, LIMITED or NEVER.

    A word that is not Slurm's counts as HELD, as nothing is known of it.
    """
    return next(((cause, kind) for cause, kind, words in REASONS if words.fullmatch(reason)), ("", HELD))
