"""How a gang chooses the GPUs that it shares: flags of :func:`gpusched_env.core.placement.shared.find_shared`."""

from __future__ import annotations

from typing import Final

SEARCH: Final = 1  # the sub-batch of the new job may be smaller than its batch
# Share only if the mean JCT of the pair falls (Theorem 1), the best pair first. Without this flag: first fit.
BENEFIT: Final = 2
# Estimate a running job by its present iteration time. Without this flag: by its iteration time alone on its GPUs.
MEASURED: Final = 4
# Machines with the fewest gangs first. Without this flag: free GPUs by best fit, and shared GPUs by ascending id.
FEWEST_GANGS: Final = 8
ONE_NODE: Final = 16  # use one machine if possible, free or shared, even if enough GPUs are free on other machines
EXACT_TIE: Final = 1e-9  # a relative gain below this is a tie, and jobs that tie do not share (docs/sjf_bsbf.md)
PLACEMENTS: Final = {"consolidate": 0, "bsbf": FEWEST_GANGS, "bsbfs": ONE_NODE}  # names in the authors' code
