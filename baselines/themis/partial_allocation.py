"""The partial allocation mechanism of Themis, exact: how many GPUs each bidder wins, and which part it may keep.

It knows nothing of clusters and jobs. Products of values are whole numbers, so no rounding breaks a tie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from gpusched_env.errors import SchedulerError

Number: TypeAlias = int | float | Fraction
Bid: TypeAlias = Mapping[int, Number]  # number of GPUs -> value V > 0 of them; 0 GPUs are always among them
_Rungs: TypeAlias = list[tuple[int, int]]  # a bid in whole numbers: (GPUs, value), both ascending


class Award(NamedTuple):
    """What a bidder wins: ``won`` GPUs, of which it may keep the fraction ``share``; the rest is its hidden payment."""

    won: int  # [GPU]
    share: Fraction  # c, above 0 and at most 1

    @property
    def kept(self) -> int:
        """Number of whole GPUs that the bidder may keep [GPU]."""
        return math.floor(self.share * self.won)


def hold_auction(bids: Sequence[Bid], offer: int) -> list[Award]:
    """Allocate GPUs so that the product of the bidders' values is largest, and compute the hidden payments.

    ``bids`` : for each bidder, its value of 0 GPUs and of every other number of GPUs on which it bids. With V the
    values, R* the best allocation of all bidders and R' that of the others alone, ``share`` of bidder i is c_i =
    product over j != i of V_j(R*_j) / product over j != i of V_j(R'_j).

    Notes
    -----
    Among equal products, the first bidder gets as many GPUs as possible, then the second, and so on; a bidder never
    gets GPUs that add nothing to its value. The best products of the bidders before and after each bidder are
    tabulated, so the function takes O(bidders x offer x bids) products, instead of an auction without each bidder.

    References
    ----------
    K. Mahajan et al., "Themis: Fair and efficient GPU cluster scheduling", NSDI 2020 (partial allocation); R. Cole,
    V. Gkatzelis, G. Goel, "Mechanism design for fair division", EC 2013.
    """
    rungs = [_rungs(bid, offer) for bid in bids]
    if sum(rung[-1][0] for rung in rungs) <= offer:  # all demand fits, so nobody takes anything from others
        return [Award(rung[-1][0], Fraction(1)) for rung in rungs]
    before, after = _best_products(rungs, offer), _best_products(rungs[::-1], offer)[::-1]
    awards, left = [], offer
    for i, rung in enumerate(rungs):
        won, value = max(
            ((gpus, value) for gpus, value in rung if gpus <= left),
            key=lambda one: (one[1] * after[i + 1][left - one[0]], one[0]),
        )
        others = after[0][offer] // value
        alone = max(before[i][gpus] * after[i + 1][offer - gpus] for gpus in range(offer + 1))
        awards.append(Award(won, Fraction(others, alone)))
        left -= won
    return awards


def _rungs(bid: Bid, offer: int) -> _Rungs:
    """Return a bid with its values multiplied to whole numbers, without numbers of GPUs that add no value."""
    if 0 not in bid or not all(value > 0 for value in bid.values()):
        raise SchedulerError(f"a bid needs a value above 0 for 0 GPUs and for every other number of GPUs: {dict(bid)}")
    ratios = {gpus: value.as_integer_ratio() for gpus, value in sorted(bid.items()) if gpus <= offer}
    whole = math.lcm(*(below for _, below in ratios.values()))
    rungs: _Rungs = []
    for gpus, (above, below) in ratios.items():
        value = above * (whole // below)
        if not rungs or value > rungs[-1][1]:
            rungs.append((gpus, value))
    return rungs


def _best_products(rungs: Sequence[_Rungs], offer: int) -> list[list[int]]:
    """Return table[i][g]: largest product of the values of the first i bidders with at most g GPUs."""
    table = [[1] * (offer + 1)]
    for rung in rungs:
        last = table[-1]
        table.append([max(last[g - gpus] * value for gpus, value in rung if gpus <= g) for g in range(offer + 1)])
    return table
