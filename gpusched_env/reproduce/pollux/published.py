"""Mean JCT [s] that the authors' repository stores: petuum/adaptdl, branch osdi21-artifact, Apache-2.0.

The values are those of ``simulator/results-jobload`` and ``results-inter``, ``summary.json``.
"""

from __future__ import annotations

from typing import Final

WORKLOADS: Final = (1, 2, 3, 4, 5, 6)
POLICIES: Final = ("pollux", "optimus", "tiresias")
CROWDED: Final = "pollux, no avoidance"  # gangs of several machines lose half of their rate beside each other
MEAN_JCT_S: Final[dict[str, tuple[float, ...]]] = {
    "pollux": (2088.8, 3322.9, 2188.5, 2721.0, 2673.7, 2446.1),
    "optimus": (4087.1, 6913.9, 3944.0, 5967.8, 5656.2, 5301.9),
    "tiresias": (2473.7, 5145.0, 3876.3, 3280.3, 3501.0, 3469.7),
    CROWDED: (3467.2, 4322.9, 2595.8, 4031.6, 3858.9, 3457.0),
}
REALISTIC: Final = "realistic"  # label of runs whose jobs request the GPUs of the log
REALISTIC_WORKLOADS: Final = (1, 6)
# Mean JCT [h] of workload 6, measured on the authors' cluster of 64 T4 (Pollux, OSDI 2021, Table 2); none is simulated
TESTBED_H: Final[dict[str, float]] = {"pollux": 0.76, "optimus": 2.7, "tiresias": 2.8}
LOADS: Final = (0.5, 1.5, 2.0)
# Of the first workload at other loads, by policy
AT_LOAD_S: Final[dict[str, tuple[float, ...]]] = {
    "pollux": (1060.0, 3856.0, 6186.0),
    "optimus": (1310.0, 7674.0, 10807.0),
    "tiresias": (1451.0, 5520.0, 10138.0),
}
