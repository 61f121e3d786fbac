"""The exact partial allocation of Themis: worked examples, brute force, and the properties that the paper claims."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines.themis.fairness import finish_time_fairness, private_time_s
from gpusched_env.baselines.themis.partial_allocation import Award, Bid, hold_auction
from gpusched_env.errors import SchedulerError


def of_rho(*rho: float) -> Bid:
    """The bid of an app whose rho is given for 0, 1, 2, ... GPUs."""
    return {gpus: 1 / Fraction(str(value)) for gpus, value in enumerate(rho)}


def linear(offer: int, slope: int = 1) -> Bid:
    """Value = slope x GPUs; of 0 GPUs almost nothing."""
    return {0: Fraction(1, 10**12)} | {gpus: slope * gpus for gpus in range(1, offer + 1)}


# --- worked examples


def test_finish_time_fairness_of_an_app() -> None:
    """40 GPU hours, at most 4 GPUs, 4 contenders, 5 h old: two GPUs at a slowdown of 1.2, or four at 1.5."""
    private_h = private_time_s(40, 4, 4)
    assert private_h == 40
    assert finish_time_fairness(5, 40, 2 / 1.2, private_h) == pytest.approx(0.725)
    assert finish_time_fairness(5, 40, 4 / 1.5, private_h) == pytest.approx(0.5)


def test_two_apps_on_four_gpus() -> None:
    """Products of rho by the GPUs of the first app: 13.6, 7.2, 4, 4.5, 7.2; each app keeps one of its two GPUs."""
    awards = hold_auction([of_rho(8, 4, 2, 1.5, 1.2), of_rho(6, 3, 2, 1.8, 1.7)], 4)
    assert awards == [Award(2, Fraction(17, 20)), Award(2, Fraction(3, 5))]
    assert [award.kept for award in awards] == [1, 1]


def test_two_apps_on_two_gpus() -> None:
    """Products: 0.2 x 1, 0.5 x 0.5, 0.8 x 0.25. Alone, the second has 1 of two GPUs, and the first 0.8."""
    bids = [{0: Fraction(1, 5), 1: Fraction(1, 2), 2: Fraction(4, 5)}, {0: Fraction(1, 4), 1: Fraction(1, 2), 2: 1}]
    assert hold_auction(bids, 2) == [Award(1, Fraction(1, 2)), Award(1, Fraction(5, 8))]


@pytest.mark.parametrize("bidders", [2, 3, 4, 5])
def test_linear_bidders_keep_the_share_of_the_closed_form(bidders: int) -> None:
    """N equal bidders: c = ((N - 1) / N) ** (N - 1), that is 1/2, 4/9, 27/64, ...; never below 1/e."""
    offer = bidders * (bidders - 1)
    awards = hold_auction([linear(offer, slope) for slope in range(1, bidders + 1)], offer)
    share = Fraction(bidders - 1, bidders) ** (bidders - 1)
    assert awards == [Award(bidders - 1, share)] * bidders
    assert share > Fraction(math.exp(-1))


def test_a_gang_that_displaces_another_one_pays() -> None:
    """Two gangs of three want three GPUs: the first wins, and may keep 1/2 of them, on which it cannot run."""
    awards = hold_auction([{0: 1, 3: 4}, {0: 1, 3: 2}], 3)
    assert awards == [Award(3, Fraction(1, 2)), Award(0, Fraction(1))]
    assert awards[0].kept == 1


def test_who_displaces_nobody_pays_nothing() -> None:
    assert hold_auction([{0: 1, 3: 4}, {0: 1, 2: 2}], 5) == [Award(3, Fraction(1)), Award(2, Fraction(1))]
    assert hold_auction([{0: 1, 3: 4}], 2) == [Award(0, Fraction(1))]
    assert hold_auction([], 2) == []


def test_ties_go_to_the_first_bidder() -> None:
    assert [award.won for award in hold_auction([{0: 1, 2: 3}, {0: 1, 2: 3}], 2)] == [2, 0]
    assert [award.won for award in hold_auction([{0: 1, 1: 2, 2: 2}, {0: 1, 1: 2}], 1)] == [1, 0]


def test_equal_products_tie_whatever_their_last_bits() -> None:
    """0.3 x 3 and 0.1 x 9 are equal, but their floating-point products are not: the first bidder wins the tie."""
    one, other = {0: Fraction(1, 10), 1: Fraction(3, 10)}, {0: 3, 1: 9}
    assert 0.3 * 3 != 0.1 * 9
    assert [award.won for award in hold_auction([one, other], 1)] == [1, 0]
    assert [award.won for award in hold_auction([other, one], 1)] == [1, 0]


@pytest.mark.parametrize("bid", [{1: 2}, {0: 0, 1: 1}, {0: 1, 2: -1}])
def test_bids_are_checked(bid: Bid) -> None:
    with pytest.raises(SchedulerError, match="value above 0"):
        hold_auction([bid], 2)


# --- properties, against brute force


@st.composite
def auctions(draw: st.DrawFn) -> tuple[list[Bid], int]:
    """Draw up to four bidders and up to five GPUs; some bidders bid on some numbers only."""
    offer = draw(st.integers(0, 5))
    bids: list[Bid] = []
    for _ in range(draw(st.integers(1, 4))):
        numbers = draw(st.sets(st.integers(1, 5)))
        bids.append({gpus: Fraction(draw(st.integers(1, 40)), draw(st.integers(1, 7))) for gpus in {0} | numbers})
    return bids, offer


def ways(bids: Sequence[Bid], offer: int) -> list[tuple[int, ...]]:
    """All allocations of numbers on which the bidders bid."""
    return [way for way in itertools.product(*bids) if sum(way) <= offer]


def product_of(bids: Sequence[Bid], way: Sequence[int]) -> Fraction:
    return math.prod((Fraction(bid[gpus]) for bid, gpus in zip(bids, way, strict=True)), start=Fraction(1))


def without(items: Sequence, i: int) -> list:
    return [*items[:i], *items[i + 1 :]]


@settings(max_examples=300, deadline=None)
@given(auctions())
def test_the_allocation_and_the_payments_are_those_of_brute_force(auction: tuple[list[Bid], int]) -> None:
    bids, offer = auction
    awards = hold_auction(bids, offer)
    won = [award.won for award in awards]
    best = max(product_of(bids, way) for way in ways(bids, offer))
    assert sum(won) <= offer
    assert product_of(bids, won) == best
    for i, award in enumerate(awards):
        others = without(bids, i)
        alone = max(product_of(others, way) for way in ways(others, offer))
        assert award.share == product_of(others, without(won, i)) / alone
        assert 0 < award.share <= 1
        assert award.share * Fraction(bids[i][award.won]) >= bids[i][0]  # nobody loses by taking part
        assert award.kept <= award.won


@settings(max_examples=200, deadline=None)
@given(auctions())
def test_the_allocation_before_payments_is_pareto_efficient(auction: tuple[list[Bid], int]) -> None:
    """No other allocation gives a bidder more, and nobody less."""
    bids, offer = auction
    got = [Fraction(bid[award.won]) for bid, award in zip(bids, hold_auction(bids, offer), strict=True)]
    for way in ways(bids, offer):
        other = [Fraction(bid[gpus]) for bid, gpus in zip(bids, way, strict=True)]
        assert other == got or any(there < here for there, here in zip(other, got, strict=True))


@settings(max_examples=400, deadline=None)
@given(auctions(), st.data())
def test_no_bidder_gains_by_an_untrue_bid(auction: tuple[list[Bid], int], data: st.DataObject) -> None:
    """The fraction c of an allocation is worth c times its true value, as if leases were shortened."""
    bids, offer = auction
    liar = data.draw(st.integers(0, len(bids) - 1))
    numbers = st.sampled_from(sorted(bids[liar]))
    lie = {gpus: data.draw(st.integers(1, 60)) for gpus in {0} | data.draw(st.sets(numbers))}

    def worth(told: Bid) -> Fraction:
        award = hold_auction([*bids[:liar], told, *bids[liar + 1 :]], offer)[liar]
        return award.share * Fraction(bids[liar][award.won])

    assert worth(lie) <= worth(bids[liar])


def test_whole_gpus_leave_a_gain_to_untrue_bids() -> None:
    """Rounding down to whole GPUs is not truthful: 2/3 of two GPUs is one, 2/3 of the three that a lie wins is two."""
    true, other, lie = ({0: 1, 1: 1, 2: 2, 3: 2}, {0: 2, 1: 2, 2: 2, 3: 3}, {0: 1, 1: 1, 2: 1, 3: 2})
    honest, gained = hold_auction([true, other], 3)[0], hold_auction([lie, other], 3)[0]
    assert (honest, gained) == (Award(2, Fraction(2, 3)), Award(3, Fraction(2, 3)))
    assert true[gained.kept] > true[honest.kept]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=2, max_size=4), st.integers(1, 4))
def test_linear_bidders_envy_nobody(slopes: list[int], times: int) -> None:
    """No bidder prefers what another one keeps, whatever the slopes."""
    offer = times * len(slopes)
    awards = hold_auction([linear(offer, slope) for slope in slopes], offer)
    kept = [award.share * award.won for award in awards]
    assert len(set(kept)) == 1
    assert sum(kept) <= offer


@settings(max_examples=100, deadline=None)
@given(auctions(), st.integers(1, 1000))
def test_the_scale_of_a_bid_changes_nothing(auction: tuple[list[Bid], int], factor: int) -> None:
    """So the private time T_id, a factor of all values of an app, does not matter in the auction."""
    bids, offer = auction
    scaled = [{gpus: value * factor for gpus, value in bids[0].items()}, *bids[1:]]
    assert hold_auction(scaled, offer) == hold_auction(bids, offer)
