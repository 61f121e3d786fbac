"""How a gang chooses the GPUs that it shares: flags of :func:`gpusched_env.core.placement.shared.find_shared`."""

from __future__ import annotations

from typing import Final

SEARCH: Final = 1  # the new job's sub-batch may be smaller than its batch
BENEFIT: Final = 2  # share only if the pair's mean JCT falls (Theorem 1), the best pair first; else first fit
MEASURED: Final = 4  # estimate the running job by its present seconds per iteration, not by those alone on its GPUs
FEWEST_GANGS: Final = 8  # machines with the fewest gangs first; else free GPUs by best fit, and shared GPUs by id
ONE_NODE: Final = 16  # one machine if possible, alone or sharing, even if enough GPUs are free elsewhere
EXACT_TIE: Final = 1e-9  # relative: a smaller gain is a tie, and jobs that tie do not share (docs/sjf_bsbf.md)
PLACEMENTS: Final = {"consolidate": 0, "bsbf": FEWEST_GANGS, "bsbfs": ONE_NODE}  # names in the authors' code
