"""How a gang chooses its company: flags for :func:`gpusched_env.core.placement.shared.find_shared`."""

from __future__ import annotations

from typing import Final

SEARCH: Final = 1  # the new job's sub-batch may be smaller than its batch
BENEFIT: Final = 2  # share only where the pair's mean JCT gains (Theorem 1), the best pair first; else first fit
MEASURED: Final = 4  # judge the running job by the seconds an iteration it takes now, not by those alone
FEWEST_GANGS: Final = 8  # GPUs of the machines with the fewest gangs first; else best fit, and shared ones by id
ONE_NODE: Final = 16  # on one machine if it can be, alone or sharing, even if enough GPUs are free elsewhere
EXACT_TIE: Final = 1e-9  # relative: a gain below it is a tie, and a tie does not share (docs/sjf_bsbf.md)
PLACEMENTS: Final = {"consolidate": 0, "bsbf": FEWEST_GANGS, "bsbfs": ONE_NODE}  # names in the authors' code
