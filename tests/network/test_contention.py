"""k-way contention, start rule and tables of pairwise interference: values by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusched_env.baselines.ada_srsf import start_beside
from gpusched_env.errors import ScenarioError
from gpusched_env.network.contention import Contention
from gpusched_env.network.pairwise import ratio_matrix, read_pairwise
from studies.reproduce import kway

GPUS_ON = np.array([[2, 2, 0, 0], [0, 1, 1, 0], [0, 0, 0, 4], [1, 0, 3, 0], [0, 1, 0, 1]])  # gangs A to E
B = 8.53e-10  # [s/byte], 10 GbE
ETA = 0.3 * B
M = 1e8  # [byte]


def test_straddle_counts() -> None:
    assert kway.straddle_counts(GPUS_ON).tolist() == [3, 3, 0, 2, 3]
    assert kway.straddle_counts(np.array([[1, 2]])).tolist() == [1]
    assert kway.straddle_counts(np.zeros((0, 4), int)).tolist() == []


def test_contenders() -> None:
    p = np.array([0, 1, 2, 3])
    assert kway.effective_contenders(p, "raw", 0.5).tolist() == [1.0, 0.5, 1.0, 1.5]
    assert kway.effective_contenders(p, "clamp", 0.5).tolist() == [1.0, 1.0, 1.0, 1.5]
    assert kway.effective_contenders(p, "affine", 0.5).tolist() == [1.0, 1.0, 1.5, 2.0]
    assert kway.effective_contenders(p).tolist() == [1.0, 1.0, 2.0, 3.0]


def ends_s(first: float, second: float, together: bool) -> float:
    """Sum of the ends of two transfers, the first already running, from their rates."""
    if not together:
        return 2 * B * first + B * second
    shorter, longer = sorted((first, second))
    joint = (2 * B + ETA) * shorter
    return 2 * joint + B * (longer - shorter)


def test_start_rule() -> None:
    threshold = M / (2 * 1.3)
    assert threshold == pytest.approx(38.4615e6, abs=50)
    assert not start_beside(threshold * (1 + 1e-12), M, B, ETA)
    assert start_beside(threshold * (1 - 1e-12), M, B, ETA)
    cases = {38e6: (0.2019904, 0.203014), 39e6: (0.2050612, 0.203867), 120e6: (0.40944, 0.27296)}
    for new, (start, wait) in cases.items():
        assert ends_s(M, new, together=True) == pytest.approx(start, rel=1e-9)
        assert ends_s(M, new, together=False) == pytest.approx(wait, rel=1e-9)
        assert start_beside(new, M, B, ETA) == (start < wait)


@given(st.floats(1.0, 1e12), st.floats(1.0, 1e12))
def test_start_rule_minimises_the_sum_of_ends(new: float, remaining: float) -> None:
    start, wait = ends_s(remaining, new, together=True), ends_s(remaining, new, together=False)
    if abs(start - wait) > 1e-9 * wait:
        assert start_beside(new, remaining, B, ETA) == (start < wait)


def test_a_table_and_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "ratios.csv"
    path.write_text('ratio,model_b,model_a,note\n0.5,"bert,8,2",vgg,measured\n.2, vgg ,"bert,8,2",\n')
    assert read_pairwise(path) == {("vgg", "bert,8,2"): 0.5, ("bert,8,2", "vgg"): 0.2}
    table = Contention("table", ratios=str(path))
    with pytest.raises(
        ScenarioError, match=r"ratios\.csv: no ratio for 'vgg' beside 'vgg' \(2 of 4 ordered pairs missing\): add"
    ):
        ratio_matrix(table, ["vgg", "bert,8,2"])
    unit = dataclasses.replace(table, missing="unit")
    assert ratio_matrix(unit, ["vgg", "bert,8,2"]).tolist() == [[1.0, 0.5], [0.35, 1.0]]
    assert ratio_matrix(dataclasses.replace(unit, floor=0.0), ["bert,8,2", "vgg"])[0, 1] == 0.2


WANTED = "a throughput ratio in (0, 1], 1 = undisturbed; a slow-down s is written as 1/s"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: no column 'model_a': the header must name model_a, model_b, ratio"),
        ("model_a,model_b\n", "line 1: no column 'ratio'"),
        ("model_a,model_b,ratio\n", "no row below the header"),
        ("model_a,model_b,ratio\na,b,0.5\na,,0.5\n", "line 3, field 'model_b' is empty"),
        ("model_a,model_b,ratio\na,b,\n", "line 2, field 'ratio' is empty"),
        ("model_a,model_b,ratio\na,b\n", "line 2: it ends before 'ratio'; write as many fields as in line 1"),
        *(
            (f"model_a,model_b,ratio\na,b,{text}\n", f"line 2, field 'ratio': {text!r}: expected {WANTED}")
            for text in ("fast", "nan", "0", "-1", "0_1", "1e999", "1.8")
        ),
        ("model_a,model_b,ratio\na,b,1\nb,a,1\na,b,.5\n", "line 4: the pair 'a', 'b' is given at"),
        ('model_a,model_b,ratio\na,b,"1\n', "give a CSV file in UTF-8"),
        ("\udc80", "give a CSV file in UTF-8 with the columns model_a, model_b, ratio"),
    ],
)
def test_a_table_that_cannot_be_read(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "ratios.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ScenarioError) as error:
        read_pairwise(path)
    assert complaint in str(error.value)
    assert str(path) in str(error.value)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(0, 60), st.binary(max_size=8))
def test_a_damaged_table_is_read_or_refused(tmp_path: Path, place: int, garbage: bytes) -> None:
    text = bytearray(b'model_a,model_b,ratio\na,b,0.5\nb,a,0.75\n"c,8,2",a,1\n')
    text[place : place + len(garbage)] = garbage
    path = tmp_path / "damaged.csv"
    path.write_bytes(bytes(text))
    complaint, ratio = "", {}
    try:
        ratio = read_pairwise(path)
    except ScenarioError as error:
        complaint = str(error)
    if complaint:
        assert str(path) in complaint
    else:
        assert all(0.0 < value <= 1.0 for value in ratio.values())


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"absent\.csv"):
        read_pairwise(tmp_path / "absent.csv")
