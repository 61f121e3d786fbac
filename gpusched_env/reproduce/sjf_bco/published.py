"""The values of the paper's figures [slots], which were read from the vector graphics (MobiHoc 2022, section 7)."""

from __future__ import annotations

from typing import Final

POLICIES: Final = {"sjf-bco": "SJF-BCO", "bco-ls": "LS", "bco-ff": "FF", "bco-rand": "RAND"}  # in the published order
SERVERS: Final = (10, 15, 20)
KAPPAS: Final = (1, 2, 4, 8, 10, 16, 32)
LAMBDAS: Final = (1, 2, 4, 8)

# Figure 4: 20 servers.
AVERAGE: Final = {"sjf-bco": 178, "bco-ls": 187, "bco-ff": 452, "bco-rand": 261}
LEAST: Final = {"sjf-bco": 14, "bco-ls": 14, "bco-ff": 16, "bco-rand": 16}
# Figure 6, with figure 4 as its last column.
MAKESPAN: Final = {
    "sjf-bco": (939, 715, 535),
    "bco-ls": (1160, 870, 595),
    "bco-ff": (1404, 963, 719),
    "bco-rand": (1488, 1260, 1128),
}
BY_KAPPA: Final = (626, 564, 541, 535, 700, 749, 736)  # figure 5: 20 servers, lambda = 1
BY_LAMBDA: Final = (1043, 882, 730, 538)  # figure 7: 20 servers, kappa = 1
