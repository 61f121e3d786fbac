"""The claims in the abstracts of both papers; we know nothing else of the papers for certain."""

from __future__ import annotations

from typing import Final

DURATION_AGAINST_GAVEL: Final = 1.20  # total duration of Gavel / of Hadar, trace-driven (arXiv 2503.10918)
JCT_AGAINST_GAVEL: Final = 2.5  # JCT of Gavel / of Hadar (IPDPS 2024)
JCT_AGAINST_YARN: Final = 3.0  # JCT of YARN-CS / of Hadar (IPDPS 2024)
QUEUEING_AGAINST_GAVEL: Final = 0.13  # fraction by which queueing is lower than with Gavel (IPDPS 2024)
FAIRNESS_AGAINST_GAVEL: Final = 0.015  # fraction by which fairness is better than with Gavel (IPDPS 2024)
# HadarE: fraction of the total duration that HadarE saves (arXiv). The rival and the mixes of jobs are not known.
SAVED_BY_FORKING: Final = {"aws": 0.5, "lab": 0.8}
UTILISATION_BY_FORKING: Final = 1.45  # utilisation of HadarE / of a rival that the abstract does not name (arXiv)
