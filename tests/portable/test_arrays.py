"""Sums, interpolation, random numbers and keys that are equal on every machine."""

import math

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from gpusched_env.portable import arrays, draws
from gpusched_env.portable.keys import rounded_key, rounded_keys

FINITE = st.floats(-1e300, 1e300, allow_subnormal=False)


@given(st.lists(FINITE, max_size=50), st.randoms())
def test_sums_do_not_depend_on_the_order(values, random):
    shuffled = random.sample(values, len(values))
    try:
        expected = math.fsum(values)
    except OverflowError:
        reject()
    assert arrays.total(np.array(values)) == arrays.total(np.array(shuffled)) == expected


def test_sums_keep_small_addends_that_plain_sums_lose():
    values = np.array([1e16, 1.0, -1e16])
    assert values.sum() == 0.0
    assert arrays.total(values) == 1.0
    assert arrays.mean(values) == 1 / 3
    assert math.isnan(arrays.mean([]))
    assert arrays.total([]) == 0.0


@given(
    st.lists(st.integers(-100, 100), min_size=1, max_size=8, unique=True).map(sorted),
    st.lists(st.floats(-150, 150), max_size=20),
    st.randoms(),
)
def test_interpolation_equals_numpys_up_to_rounding(known, values, random):
    at_known = np.array([random.uniform(-5, 5) for _ in known])
    found = arrays.interpolated(values, np.array(known), at_known)
    assert found == pytest.approx(np.interp(values, known, at_known), abs=1e-9)


def test_interpolation_meets_its_points_and_holds_the_outer_ones():
    known, at_known = np.array([1.0, 2.0, 4.0]), np.array([10.0, 30.0, 20.0])
    assert arrays.interpolated([0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 9.0], known, at_known).tolist() == [
        10.0, 10.0, 20.0, 30.0, 25.0, 20.0, 20.0,
    ]  # fmt: skip
    assert arrays.interpolated([0.0, 5.0], np.array([3.0]), np.array([7.0])).tolist() == [7.0, 7.0]
    steps = arrays.interpolated([1.0, 2.0], np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.0, 1.0, 5.0, 6.0]))
    assert steps.tolist() == [5.0, 6.0]
    begins = np.array([0.0, 0.0, 1.0])
    assert arrays.interpolated([-1.0, 0.0, 0.5], begins, np.array([1.0, 2.0, 3.0])).tolist() == [1.0, 2.0, 2.5]
    assert arrays.interpolated([0.0, 9.0], np.array([3.0, 3.0]), np.array([1.0, 2.0])).tolist() == [2.0, 2.0]
    assert np.isnan(arrays.interpolated(np.nan, known, at_known))


def test_exponential_and_normal_numbers_have_their_laws():
    from scipy.stats import kstest

    generator = np.random.default_rng(5)
    exponential, normal = draws.exponential(generator, 20_000), draws.normal(generator, 20_000)
    assert kstest(exponential, "expon").pvalue > 0.01
    assert kstest(normal, "norm").pvalue > 0.01
    assert (exponential >= 0).all()


def test_no_uniform_number_gives_an_infinite_one():
    class Least:
        def random(self, count):
            return np.zeros(count)

    class Most:
        def random(self, count):
            return np.full(count, 1.0 - 2.0**-53)

    for generator in (Least(), Most()):
        assert np.isfinite(draws.normal(generator, 1)).all()
        assert np.isfinite(draws.exponential(generator, 1)).all()


def test_uniform_numbers_are_numpys():
    ours, numpys = np.random.default_rng(1), np.random.default_rng(1)
    np.testing.assert_array_max_ulp(draws.uniform(ours, 2.0, 5.0, 10), numpys.uniform(2.0, 5.0, 10), 1)
    low, high = np.array([0.0, 1.0, 5.0]), np.array([1.0, 9.0, 6.0])
    np.testing.assert_array_max_ulp(draws.uniform(ours, low, high), numpys.uniform(low, high), 1)
    assert draws.uniform(ours, 0.0, 1.0, 0).shape == (0,)
    assert 0.0 <= draws.uniform(ours, 0.0, 1.0) < 1.0


@given(st.floats(1e-200, 1e200), st.floats(-2e-10, 2e-10))
def test_keys_keep_nine_digits_and_drop_the_rest(key, off):
    assert rounded_key(key) == pytest.approx(key, rel=1e-9)
    # three keys so close have at most two values: at most one rounding boundary lies between them
    assert len({rounded_key(key * (1 + share * off)) for share in (0.0, 0.5, 1.0)}) <= 2
    assert rounded_key(-key) == -rounded_key(key)


def test_a_quotient_of_one_ties_with_one():
    assert rounded_key(1.0000000000000002) == rounded_key(1.0) == rounded_key(0.9999999999999999) == 1.0
    assert rounded_key(1.000001) > 1.0
    keys = [np.inf, -np.inf, 1e305, 1.0 + 1e-15, 0.0]
    assert (
        rounded_keys(np.array(keys)).tolist()
        == [rounded_key(key) for key in keys]
        == [np.inf, -np.inf, 1e305, 1.0, 0.0]
    )


def test_uniform_numbers_of_seeds_are_those_of_splitmix64():
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]  # of seed 1234567
    drawn = draws.of_seeds(np.array([1234567, 5]), 4)
    assert drawn[0].tolist() == [(number >> 11) * 2.0**-53 for number in published]
    assert np.array_equal(drawn[1:], draws.of_seeds(np.array([5]), 4))
