"""Two numbers per model: their fit, tables made of them, and predictions of pairs that a table lacks."""

from __future__ import annotations

import dataclasses
import math
import re
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import ScenarioError
from gpusched_env.event_log import RATE
from gpusched_env.network.contention import Contention
from gpusched_env.network.pairwise import ratio_matrix, read_pairwise
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.sharing import MEASURED, LucidTable, PairNumbers, PairRate, Sharing, UserTable, fit_pairs, model_of
from gpusched_env.sharing.interference import Synthetic
from gpusched_env.sharing.pair_numbers import FLEET
from gpusched_env.simulator import simulate
from tests.network.test_replay import draw
from tests.sharing.test_slowdowns import named, xi_of

NUMBERS = {"a": (0.2, 0.9), "b": (1.1, 0.05), "c": (0.6, 0.4), "d": (0.3, 1.5)}
PLANTED = PairNumbers({n: c for n, (c, _) in NUMBERS.items()}, {n: d for n, (_, d) in NUMBERS.items()})


def rows(times: int = 1, numbers: PairNumbers = PLANTED) -> list[PairRate]:
    pairs = product(numbers.sensitivity, numbers.aggressiveness, range(times))
    return [PairRate(a, b, numbers.rate(a, b)) for a, b, _ in pairs]


def test_the_rate_is_that_of_the_formula() -> None:
    assert PLANTED.rate("a", "d") == pytest.approx(1 / (1 + 0.2 * 1.5), rel=1e-12)
    assert PLANTED.rate("a", "d") != PLANTED.rate("d", "a")  # a symmetric model could not say so


def test_a_fit_finds_planted_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusched_env.sharing.pair_numbers.PRIOR", 1e-4)
    found = fit_pairs(rows())
    for a, b in product(NUMBERS, NUMBERS):
        assert found.rate(a, b) == pytest.approx(PLANTED.rate(a, b), rel=0.02)
    ratio = {n: found.sensitivity[n] / PLANTED.sensitivity[n] for n in NUMBERS}  # only products c d can be measured
    assert max(ratio.values()) == pytest.approx(min(ratio.values()), rel=0.03)


def test_a_fit_predicts_pairs_that_it_has_not_seen() -> None:
    every = rows(2)
    for hidden in every[::2]:
        found = fit_pairs([row for row in every if row[:2] != hidden[:2]])
        assert found.rate(*hidden[:2]) == pytest.approx(hidden.rate, abs=0.1)


def test_a_fit_forgives_an_outlier(monkeypatch: pytest.MonkeyPatch) -> None:
    every = rows(3)
    every[4] = every[4]._replace(rate=0.02)
    worst = []
    for tolerated in (0.1, 1e6):  # the second: plain least squares
        monkeypatch.setattr("gpusched_env.sharing.pair_numbers.TOLERATED", tolerated)
        found = fit_pairs(every)
        worst.append(max(abs(found.rate(*row[:2]) - row.rate) for row in every if row.rate > 0.02))
    assert worst[0] < 0.12 < 0.3 < worst[1]


def test_the_prior_keeps_models_with_one_row_near_the_fleet() -> None:
    many = [PairRate("a", "b", 0.8)] * 50 + [PairRate("b", "a", 0.8)] * 50
    found = fit_pairs([*many, PairRate("new", "a", 1.0)])
    fleet = found.sensitivity[FLEET]
    assert 0.1 * fleet < found.sensitivity["new"] < 0.5 * fleet
    assert found.rate("never seen", "a") == pytest.approx(found.rate("a", "a"), rel=0.05)
    with pytest.raises(ScenarioError, match="'never seen' has no sensitivity and aggressiveness: add them"):
        PLANTED.rate("never seen", "a")


positive = st.floats(min_value=0.0, exclude_min=True, allow_infinity=False)
models = st.sampled_from("abcdef")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.builds(PairRate, models, models, positive), min_size=1))
def test_a_fit_of_any_rates_is_finite_and_the_same_again(measured: list[PairRate]) -> None:
    found = fit_pairs(measured)
    assert fit_pairs(list(measured)) == found
    for numbers in found:
        assert all(0.0 <= value < math.inf for value in numbers.values())
        assert all(float(f"{value:.4g}") == value for value in numbers.values())
    assert all(0.0 <= found.rate(*row[:2]) <= 1.0 for row in measured)


@pytest.mark.parametrize(
    "wrong",
    [{"rate": rate} for rate in (0.0, -1.0, math.nan, math.inf)] + [{"other": FLEET}],
)
def test_a_fit_refuses_what_is_no_measured_pair(wrong: dict[str, Any]) -> None:
    row = PairRate("a", "b", 0.5)._replace(**wrong)
    with pytest.raises(ScenarioError, match=re.escape(f"{row}: give two models and a finite rate above 0")):
        fit_pairs([row])
    with pytest.raises(ScenarioError, match="no measured pair"):
        fit_pairs([])


# --- tables


def written(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def numbers_file(folder: Path) -> str:
    rows = [f"{name},{c},{d}" for name, (c, d) in NUMBERS.items()]
    return written(folder / "numbers.csv", "model,sensitivity,aggressiveness", *rows)


def test_a_played_gang_runs_at_the_rates_that_its_numbers_give(tmp_path: Path) -> None:
    """A table of numbers is a table of ratios: the same events as from the ratios, written out."""
    numbers = numbers_file(tmp_path)
    pairs = read_pairwise(Path(numbers))
    assert pairs["a", "d"] == pytest.approx(1 / 1.3)
    ratios = written(
        tmp_path / "written.csv", "model_a,model_b,ratio", *(f"{a},{b},{r!r}" for (a, b), r in pairs.items())
    )
    given = draw(3, tmp_path)
    logs = []
    for path in (numbers, ratios, ""):
        rules = Contention("table", ratios=path) if path else Contention("none")
        network = dataclasses.replace(given.network, contention=rules)
        logs.append(simulate(Instance(given.cluster, given.workload, network, given.semantics), make_scheduler("fifo")))
    assert logs[0].digest() == logs[1].digest()
    assert (logs[0].events["kind"] == RATE).sum() > (logs[2].events["kind"] == RATE).sum()


def test_sharing_reads_numbers(tmp_path: Path) -> None:
    table = UserTable(numbers_file(tmp_path))
    xi = xi_of(named("a (8 a GPU)", "b", "d"), Sharing(2, table))
    np.testing.assert_allclose(xi, 1 + np.outer([0.2, 1.1, 0.3], [0.9, 0.05, 1.5]), rtol=1e-12)
    with pytest.raises(ScenarioError, match=r"numbers\.csv: no xi for 'a' on 1 GPUs beside 'z'"):
        xi_of(named("a", "z"), Sharing(2, table))


@pytest.mark.parametrize("missing", ["error", "fit"])
def test_numbers_of_the_fleet_hold_for_models_that_a_table_lacks(tmp_path: Path, missing: str) -> None:
    path = written(tmp_path / "n.csv", "model,sensitivity,aggressiveness", "a,0.5,0.2", "*,1,2")
    expected = [[1 + c * d for d in (0.2, 2.0)] for c in (0.5, 1.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ratio = ratio_matrix(Contention("table", ratios=path, missing=missing, floor=0.0), ["a", "new"])
        xi = xi_of(named("a (8 a GPU)", "new"), Sharing(2, UserTable(path, missing=missing)))
    np.testing.assert_allclose(1 / np.array(ratio), expected, rtol=1e-12)
    np.testing.assert_allclose(xi, expected, rtol=1e-12)


@pytest.mark.parametrize("column", ["ratio", "model_a"])
def test_a_table_of_contention_has_one_form(tmp_path: Path, column: str) -> None:
    path = written(tmp_path / "n.csv", f"model,sensitivity,aggressiveness,{column}", "a,0.5,0.2,1")
    with pytest.raises(ScenarioError, match=rf"n\.csv, line 1: '{column}' and 'aggressiveness': .* ratio \(or model, "):
        read_pairwise(Path(path))


@pytest.mark.parametrize("column", ["xi", "model_other"])
def test_a_table_of_sharing_has_one_form(tmp_path: Path, column: str) -> None:
    path = written(tmp_path / "n.csv", f"model,sensitivity,aggressiveness,{column}", "a,0.5,0.2,1")
    with pytest.raises(ScenarioError, match=r"n\.csv, line 1: "):
        UserTable(path).table  # noqa: B018


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("a,0.1,0.2", "line 3: the model 'a' is given already: keep one of its lines"),
        (",0.1,0.2", "line 3, field 'model' is empty"),
        ("b,-1,0.2", "line 3, field 'sensitivity': '-1': expected a number from 0 to 1e6"),
        ("b,1,fast", "line 3, field 'aggressiveness': 'fast': expected a number from 0 to 1e6"),
        ("b,nan,1", "line 3, field 'sensitivity': 'nan'"),
    ],
)
def test_a_file_of_numbers_that_cannot_be_read(tmp_path: Path, line: str, complaint: str) -> None:
    path = written(tmp_path / "numbers.csv", "model,sensitivity,aggressiveness", "a,1,1", line)
    for read in (lambda: read_pairwise(Path(path)), lambda: UserTable(path).table):
        with pytest.raises(ScenarioError) as error:
            read()
        assert str(error.value).startswith(path)
        assert complaint in str(error.value)


def test_missing_pairs_of_sharing_are_predicted_by_gpu_type_with_a_warning(tmp_path: Path) -> None:
    measured = [(a, b) for a in NUMBERS for b in NUMBERS if a < b or a == b == "a"]
    lines = [
        f"{a},{b},{gpu_type},{1 + share * NUMBERS[a][0] * NUMBERS[b][1]}"
        for gpu_type, share in (("T4", 1.0), ("A100", 0.1))
        for a, b in measured
    ]
    path = written(tmp_path / "xi.csv", "model_self,model_other,gpu_type,xi", *lines, "b,a,T4,2.5")
    table = UserTable(path, missing="fit")
    with pytest.warns(UserWarning, match="predicted") as warned:
        known = dict(table.table)
    assert [str(one.message).partition("xi.csv: ")[2] for one in warned] == [
        "8 pairs are predicted by two numbers per model: b beside b, c beside a, c beside b, ...",
        "9 pairs are predicted by two numbers per model: b beside a, b beside b, c beside a, ...",
    ]
    assert known["b", "a", None, "T4"] == pytest.approx(2.5)  # measured pairs are not touched
    assert known["c", "a", None, "T4"] - 1 > 4 * (known["c", "a", None, "A100"] - 1) > 0
    with pytest.raises(ScenarioError, match=r"xi\.csv: no xi for 'a' on 1 GPUs beside 'e'.*: to predict it, add rows"):
        xi_of(named("a", "e"), Sharing(2, table))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert UserTable(numbers_file(tmp_path), missing="fit").table["a", "d", None, None] == pytest.approx(1.3)


def test_missing_pairs_of_contention_are_predicted_with_a_warning(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", "model_a,model_b,ratio", "a,b,0.5", "b,a,0.9", "a,a,0.6")
    rules = Contention("table", ratios=path, missing="fit", floor=0.0)
    with pytest.warns(UserWarning, match=r"r\.csv: 1 pairs are predicted .*: b beside b"):
        found = ratio_matrix(rules, ["a", "b"])
    assert found is not None
    assert found.ravel().tolist()[:3] == [0.6, 0.5, 0.9]
    assert found[0, 1] < found[1, 1] < 1.0  # b minds others less than a does
    assert (found > 0).all()
    with pytest.raises(ScenarioError, match=r"r\.csv: no ratio for 'a' beside 'new'.*models that are in some row"):
        ratio_matrix(rules, ["a", "b", "new"])


def test_predictions_of_sharing_replace_no_measured_pair(tmp_path: Path) -> None:
    """A row without a GPU type, or with a gang size, holds where it did before predictions."""
    lines = ["a,b,,V100,2", "b,a,,,1.5", "c,a,,V100,1.2", "c,b,2,,1.7", "a,c,2,,1.3"]
    path = written(tmp_path / "xi.csv", "model_self,model_other,gpus_self,gpu_type,xi", *lines)
    table = UserTable(path, missing="fit")
    with pytest.warns(UserWarning, match="predicted"):
        known = table.table
    assert known["b", "a", None, None] == 1.5
    assert ("b", "a", None, "V100") not in known  # where it would be found first
    assert known["a", "c", 2, None] == pytest.approx(1.3)
    assert known["a", "c", None, "V100"] > 1.0
    assert table._xi("b", "a", 1, "V100") == pytest.approx(1.5)
    assert table._xi("c", "b", 2, "V100") == pytest.approx(1.7)
    assert 1.0 < table._xi("c", "b", 4, "V100") < 2.5  # no gang of 4 was measured


def test_a_row_of_all_other_models_is_no_measured_pair_and_comes_last(tmp_path: Path) -> None:
    header = "model_self,model_other,xi"
    table = UserTable(written(tmp_path / "a.csv", header, "a (2),*,1.11", "a,b,5"))
    assert (table._xi("a (2)", "b", 1, "V100"), table._xi("a (2)", "c", 1, "V100")) == (5.0, pytest.approx(1.11))
    table = UserTable(written(tmp_path / "b.csv", header, "a (2),c,1.3", "a,b,5", "b,a,1.2"), missing="fit")
    with pytest.warns(UserWarning, match="predicted"):
        assert table._xi("a (2)", "b", 1, "V100") == 5.0  # measured under the name of the model
    table = UserTable(written(tmp_path / "c.csv", header, "a,b,1.3", "*,a,1.4"), missing="fit")
    with pytest.warns(UserWarning, match=r"c\.csv: 1 pairs are predicted .*: b beside b"):
        assert table._xi("b", "a", 1, "V100") == pytest.approx(1.4)
    path = written(tmp_path / "r.csv", "model_a,model_b,ratio", "a,b,0.5", "*,a,0.9")
    with pytest.warns(UserWarning, match=r"r\.csv: 1 pairs are predicted .*: b beside b"):
        found = ratio_matrix(Contention("table", ratios=path, missing="fit", floor=0.0), ["a", "b"])
    assert found is not None
    assert found[:, 0].tolist() == [0.9, 0.9]
    assert found[1, 1] == pytest.approx(0.5, abs=1e-3)  # fitted to the one measured pair alone


def test_batch_sizes_of_lucid_are_not_below_0(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"sharing\.interference\.batch_size is -3"):
        LucidTable(str(tmp_path / "any.csv"), batch_size=-3)


# --- drawn slowdowns


def test_slowdowns_drawn_by_model_are_products_of_two_numbers() -> None:
    drawn = Synthetic(5, "model", 0.05, 0.5)
    excess = np.array([[drawn.xi(f"m{a}", f"m{b}") - 1 for b in range(80)] for a in range(80)])
    assert excess.max() < 3.0
    assert np.linalg.svd(excess, compute_uv=False)[1] < 1e-9 * np.linalg.norm(excess)
    assert (excess != excess.T)[np.triu_indices(80, 1)].all()
    logs = np.log(np.diag(excess))  # independent draws
    assert np.exp(np.median(np.log(excess))) == pytest.approx(0.05, rel=0.2)
    assert logs.std() == pytest.approx(0.5, rel=0.3)
    assert Synthetic(5).xi("a", "b") != Synthetic(5, "model").xi("a", "b")


def test_the_old_source_keeps_its_numbers_and_its_data() -> None:
    assert Synthetic(0).as_dict() == {"source": "synthetic", "seed": 0}
    assert [round(Synthetic(0).xi(*pair), 6) for pair in (("bert", "ncf"), ("ncf", "bert"))] == [1.188956, 1.815106]
    assert MEASURED.as_dict() == {"source": "synthetic", "seed": 0, "by": "model", "median": 0.18, "sigma": 1.3}
    for field, value in (("by", "gpu"), ("median", 0.0), ("sigma", -1.0), ("median", math.nan), ("seed", -1)):
        with pytest.raises(ScenarioError, match=f"sharing.interference.{field}"):
            Synthetic(**{field: value})


def test_the_new_version_of_the_common_cell_differs_only_in_slowdowns() -> None:
    old, new = (get_scenario(f"common-96-{version}").as_dict() for version in ("v0", "v1"))
    assert {key for key in old if old[key] != new[key]} <= {"name", "sharing"}
    assert old["sharing"]["interference"] == Synthetic(0).as_dict()
    assert new["sharing"]["interference"] == MEASURED.as_dict() | {"seed": 3}
    models = {
        model_of(name) for name in get_scenario("common-96-v1").instance(0).workload.profiles.rows["name"].tolist()
    }
    median = [
        np.median([dataclasses.replace(MEASURED, seed=seed).xi(a, b) for a in models for b in models])
        for seed in range(10)
    ]
    assert np.argmin(np.abs(np.array(median) - 1 - MEASURED.median)) == 3
