"""Rounded keys (docs/portability.md): the table names every module, and its examples are true."""

from __future__ import annotations

import ast
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from sharing_play import pair

from gpusched_env.baselines.elastic.sia.program import costs
from gpusched_env.event_log import START
from gpusched_env.portable.keys import rounded_key
from gpusched_env.simulator import Outcome, Simulation
from gpusched_env.simulator import Start as StartJob

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/portability.md"
KEYS = "gpusched_env.portable.keys"
REFERENCES = ("*reference*.py", "*_simulator.py", "*_loop.py", "*_play.py", "*_replay.py", "*_cases.py")


def imported(path: Path) -> set[str]:
    """Names that a module imports from the module of rounded keys; the module's own name if it imports it whole."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == KEYS:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "gpusched_env.portable":
            found |= {alias.name for alias in node.names} & {"keys"}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & {KEYS}
    return found


def section() -> str:
    """The section of the page, without the rest of it."""
    return PAGE.read_text("utf-8").partition("## Rounded keys\n")[2].partition("\n## ")[0]


def test_every_module_that_rounds_keys_stands_in_the_table() -> None:
    table = section()
    assert table.count("\n|") > 5
    for folder in ("baselines", "agents", "traces"):
        for path in (ROOT / folder).rglob("*.py"):
            if imported(path):
                assert f"`{path.relative_to(ROOT)}`" in table, f"{path}: no row in docs/portability.md, Rounded keys"
    for path in (ROOT / "gpusched_env").rglob("*.py"):
        if not {"baselines", "agents", "traces"} & set(path.relative_to(ROOT).parts[1:2]):
            # core/arithmetic.py compiles the function; priorities of gangs on links are a policy
            policy = path.name == "priorities.py" and f"`{path.relative_to(ROOT)}`" in table
            assert not imported(path) or path.name == "arithmetic.py" or policy, f"{path}: only policies round keys"


def test_every_path_of_the_table_exists() -> None:
    ours = ("baselines/", "agents/", "traces/", "gpusched_env/", "tests/")
    named = {word for word in section().split("`")[1::2] if word.startswith(ours)}
    assert named
    assert [word for word in sorted(named) if not (ROOT / word).is_file()] == []


def test_no_reference_rounds_with_the_package() -> None:
    """A reference that rounds by the function under test cannot notice a rounding that changes a decision."""
    paths = {path for pattern in REFERENCES for path in Path(__file__).parents[1].rglob(pattern)}
    assert len(paths) > 10
    assert [path.name for path in sorted(paths) if imported(path)] == []


def slurm_level(number: type, share: int, shares: int, used: int, usage: int) -> float:
    """Slurm's level factor, in the order of its code: (share / shares) / (used / usage)."""
    return (number(share) / number(shares)) / (number(used) / number(usage))


@pytest.mark.parametrize("number", [np.float64, np.longdouble])
def test_slurm_has_levels_that_tie_only_in_theory(number: type) -> None:
    """Shares 1 and 3 of 5, usage 11 and 33 of 57."""
    assert slurm_level(Fraction, 1, 5, 11, 57) == slurm_level(Fraction, 3, 5, 33, 57)
    bits = np.finfo(number).nmant
    if bits not in (52, 63):
        pytest.skip(f"this machine's long double has {bits} bits")
    pairs = [
        (shares, usage)
        for shares in range(4, 12)
        for usage in range(44, 99)
        if slurm_level(number, 1, shares, 11, usage) != slurm_level(number, 3, shares, 33, usage)
    ]
    assert 10 < len(pairs) < 430
    for shares, usage in pairs:
        first, second = (slurm_level(np.float64, k, shares, 11 * k, usage) for k in (1, 3))
        assert rounded_key(float(first)) == rounded_key(float(second))


def test_a_cost_of_sia_hangs_on_the_last_bit_of_a_power() -> None:
    """A job of 2,400 s with 16 restarts of 30 s: (1920 / 2430) ** -0.5 = 9/8, half-way between two costs."""
    assert Fraction(2400 - 16 * 30, 2400 + 30) == Fraction(64, 81)
    exact, above = 9 / 8, np.nextafter(9 / 8, 2.0)
    assert np.round([exact, above], 2).tolist() == [1.12, 1.13]
    assert costs(np.array([1920 / 2430, np.nextafter(1920 / 2430, 0.0)]), -0.5).tolist() == [112, 112]


def test_keys_of_elasticflow_are_exact() -> None:
    """Whole GPUs x whole seconds, divided by 1, 2, 4, ... more GPUs: rounding changes none below 2^30."""
    rng = np.random.default_rng(0)
    for gpu_s, more in zip(rng.integers(-(2**30), 2**30, 2_000).tolist(), 2 ** rng.integers(0, 6, 2_000), strict=True):
        key = gpu_s / int(more)
        assert Fraction(key) == Fraction(gpu_s, int(more))
        assert rounded_key(key) == key


def published_test(left_s: float, new_s: float, left_xi: float, new_xi: float) -> bool:
    """share_check of SJF-BSBF's prototype (Lai-JX/Scheduler, cluster/switch.py), a comparison without tolerance."""
    left_hat, new_hat = left_xi * left_s, new_xi * new_s
    if new_hat >= left_hat:
        together = 0.5 * new_s + (1 - 1 / (2 * new_xi)) * left_hat
    else:
        together = 0.5 * left_s + (1 - 1 / (2 * left_xi)) * new_hat
    return together < left_s + 0.5 * new_s


def shares(left_s: float, new_s: float, left_xi: float, new_xi: float) -> bool:
    """Whether the package lets a new job share with a running one."""
    simulation = Simulation(pair((left_xi, new_xi), (left_s, new_s)))
    while simulation.advance() is Outcome.DECIDE:
        simulation.apply(StartJob(0))
        simulation.apply(StartJob(1, "share-best-benefit"))
    log = simulation.log().events
    return bool(log["time_s"][(log["kind"] == START) & (log["job"] == 1)][0] == 0.0)


def test_sjf_bsbf_refuses_what_its_prototype_decides_by_the_last_bit() -> None:
    """Slowdowns 1.4 and 1.75: both means are equal whenever the running job ends first, as 1.4 (2 x 1.75 - 1) = 3.5.

    With equal slowdowns of 1.5, another such tie, the prototype refuses, too: 1 - 1 / 3 is rounded up.
    """
    tens = [float(seconds) for seconds in range(10, 300, 10)]
    tied = [(left, new) for left in tens for new in tens if 1.4 * left <= 1.75 * new]
    assert 0 < sum(published_test(left, new, 1.4, 1.75) for left, new in tied) < len(tied) / 5
    assert published_test(170.0, 140.0, 1.4, 1.75)
    assert not shares(170.0, 140.0, 1.4, 1.75)
    assert not any(published_test(left, new, 1.5, 1.5) for left in tens for new in tens if left <= new)
