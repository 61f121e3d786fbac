"""The battery gives the golden digests on this machine and on machines that it can emulate.

The oldest one plays with bounds checks: its kernels are compiled for it alone anyway.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from gpusched_env.envs.rewards import COMPONENTS
from gpusched_env.envs.windows import WINDOW_ORDERS
from gpusched_env.simulator import PLACEMENT_RULES
from tools.portability.battery import BATCH, BATCH_LIMIT, BATCH_STEPS, LONG, PARTS
from tools.portability.episodes import together
from tools.portability.problems import EPISODES, KINDS, small_scenario

LOOPS = np.show_config(mode="dicts")["SIMD Extensions"].get(
    "found", []
)  # NumPy's vector loops here, beyond its baseline
NEWEST = [name for name in LOOPS if "AVX512" in name or name in ("X86_V4", "SVE")]
WITHOUT_FMA = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"}  # other C libraries ignore this
MACHINES = {
    "this one": {"PYTHONHASHSEED": "random", "NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
    "without AVX-512": {
        "NPY_DISABLE_CPU_FEATURES": " ".join(NEWEST),
        "OPENBLAS_CORETYPE": "Haswell",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    },
    "of 2004": {
        "NPY_DISABLE_CPU_FEATURES": " ".join(LOOPS),
        "OPENBLAS_CORETYPE": "Prescott",
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_BOUNDSCHECK": "1",
        "OMP_NUM_THREADS": "2",
        "PYTHONHASHSEED": "7",
        **WITHOUT_FMA,
    },
}


BATTERY = """
import runpy, sys
sys.argv[0] = "portability"
runpy.run_module("tools.portability", run_name="__main__")
"""  # an IndexError in a kernel ends the process


def play(changes: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CPU_NAME",)}
    return subprocess.run(
        [sys.executable, "-c", BATTERY, *arguments],
        env=environment | changes, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_gives_the_golden_digests(name):
    solving = [f"runs, {kind}" for kind in LONG]
    parts = [part for part in PARTS if part != "twins"]  # short runs: the oldest machine and plain Python play them
    if "NUMBA_CPU_NAME" in MACHINES[name]:  # every scheduler on every kind of scenario, and batches
        parts = ["arithmetic", "draws", "instances", *solving, "twins", "intervals"]
    elif name != "this one":  # the kernels are compiled for this machine anyway: what calls NumPy, SciPy and BLAS
        parts = ["arithmetic", "draws", "instances", solving[0], "environments", "episodes", "timers", "intervals"]
    played = play(MACHINES[name], "--parts", "; ".join(parts))
    assert played.returncode == 0, played.stdout + played.stderr
    assert "all digests are the golden ones" in played.stdout


def test_plain_python_gives_the_golden_digests():
    played = play({"NUMBA_DISABLE_JIT": "1"}, "--parts", "arithmetic; draws; episodes; timers; twins")
    assert played.returncode == 0, played.stdout + played.stderr


def test_episodes_reach_every_rule_observation_and_reward():
    options = [options for _, _, options in EPISODES.values()]
    assert {rule for one in options for rule in one.get("rules", ())} == set(PLACEMENT_RULES)
    rewards = [one.get("reward", "jct") for one in options]
    assert {name for reward in rewards for name in ([reward] if isinstance(reward, str) else reward)} == set(COMPONENTS)
    assert {one.get("queue_order", "arrival") for one in options} | {"start"} == set(WINDOW_ORDERS)
    assert {kind for kind, _, _ in EPISODES.values()} == set(KINDS)


@pytest.mark.parametrize("autoreset", AutoresetMode)
@pytest.mark.parametrize("name", ["waits", "sharing"])
def test_episodes_of_a_batch_end_with_their_jobs_and_at_the_limit(name, autoreset):
    kind, jobs, options = EPISODES[name]
    told = together(
        "gpusched/Cluster-v0", BATCH, BATCH_STEPS, autoreset, scenario=small_scenario(kind, jobs),
        step_limit=BATCH_LIMIT, **options,
    )  # fmt: skip
    ends = [one for one in told if isinstance(one, np.ndarray) and one.shape == (BATCH,) and one.dtype == bool]
    terminated, truncated = np.array(ends[::2]), np.array(ends[1::2])
    assert len(terminated) == BATCH_STEPS
    assert (terminated & ~truncated).any()
    np.testing.assert_array_equal(terminated & truncated, truncated)  # the runs are played to their end
    assert truncated.any()


def test_another_digest_is_reported_and_fails(tmp_path, monkeypatch, capsys):
    from typer import Exit

    from tools.portability import __main__ as command

    monkeypatch.setattr(command, "GOLDEN", tmp_path / "golden.json")
    command.GOLDEN.write_text('{"intervals": {"mean": "000000000000", "gone": "111111111111"}}')
    with pytest.raises(Exit) as refused:
        command.main(parts="intervals")
    assert refused.value.exit_code == 1
    told = capsys.readouterr().out
    assert "golden 000000000000" in told
    assert "gone: not run" in told
    assert "ratio: " in told
    assert "3 digests differ" in told


def test_the_logarithm_of_numpy_changes_digests(monkeypatch):
    """Digests differ if draws use another ``log1p``: the battery detects it."""
    from gpusched_env.portable import arrays

    before = dict(PARTS["draws"]())

    def one_bit_off(values):
        return np.nextafter(np.log1p(values), np.inf)

    monkeypatch.setattr(arrays, "log1p", one_bit_off)
    changed = {name for name, value in PARTS["draws"]() if value != before[name]}
    assert {"batch", "poisson", "drift"} <= changed
    assert "ring-all-reduce" not in changed


def test_unknown_parts_are_refused():
    played = play({}, "--parts", "weather")
    assert played.returncode == 2
    assert "no part 'weather'" in played.stderr
