"""Errors in functions of users: each leaves as an exception, the process lives, and the next run is as ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
from gpusched_env.core.api import Run, busiest_port, contention_model, iteration_at, kernel, placement_rule, take
from gpusched_env.core.handle import helper
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.envs.observation.column import SHARE, Column
from gpusched_env.envs.observation.registry import Shown, observation_array
from gpusched_env.envs.rewards import reward_component


@placement_rule("typo", "a name that does not exist")
@kernel
def place_typo(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    return tak(sim, 0, gang, at)  # rule


@kernel(lazy=True)
def late(sim: Run, at: int) -> int:
    return sim.fre[at]  # late


@placement_rule("late", "compiles, but calls a kernel that does not, which is compiled when it is called")
@kernel
def place_late(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    return late(sim, at)


@contention_model("typo", "a field that does not exist")
@kernel
def price_typo(sim: Run, number: int) -> None:
    sim.replicas[number]["setled_s"] = iteration_at(sim, number, 1.0)  # model


@helper
def doubled(number):
    return number.twice  # helper


@observation_array("typo", [Column("x", "x", SHARE)])
@kernel
def show_typo(sim: Run, env: EnvArrays, out: Shown) -> None:
    out.values[0, 0] = doubled(1)


@reward_component("typo", "a text is no number", lambda instance: 1.0)
@kernel
def pay_typo(sim: Run) -> float:
    return "free"  # reward


@placement_rule("raising", "raises in a kernel")
@kernel
def place_raising(sim: Run, at: int, kind: int, gang: int, supply: int) -> int:
    if gang > 0:
        raise ValueError("no place for it")  # raising
    return at


@placement_rule("plainly", "raises in plain Python")
def place_plainly(sim, at, kind, gang, supply):
    return [][gang]  # plainly


@contention_model("plainly", "raises in plain Python")
def price_plainly(sim, number):
    raise KeyError(number)  # plain model


@reward_component("plainly", "raises in plain Python", lambda instance: 1.0)
def pay_plainly(sim):
    if sim.world["starts"] > 2:
        raise ZeroDivisionError  # plain reward
    return 0.0


@observation_array("plainly", [Column("x", "x", SHARE)])
def show_plainly(sim, env, out):
    out.values[5, 0] = 1.0  # plain array
"""
PROGRAM = '''
import dataclasses, sys, traceback
import gymnasium as gym
import numpy as np
import mistakes
from gpusched_env import Start, make_scheduler, simulate
from gpusched_env.core.handle import INTERPRETED
from gpusched_env.errors import GpuschedError, KernelError
from gpusched_env.network import Contention
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Simulation

tiny = get_scenario("tiny-v1").instance(0)
spine = get_scenario("leaf-spine-256-v1")
spine = spine.replace(workload=dataclasses.replace(spine.workload, jobs=12))
def on(model):
    return spine.replace(network=dataclasses.replace(spine.network, contention=Contention(model))).instance(0)
lines = open(mistakes.__file__).read().splitlines()
def line_of(mark):
    (found,) = [number for number, line in enumerate(lines, 1) if line.endswith("# " + mark)]
    return found

def play(**options):
    env = gym.make("gpusched/Cluster-v0", scenario="tiny-v1", **options)
    _, info = env.reset(seed=0)
    for _ in range(9):
        _, _, over, cut, info = env.step(int(np.flatnonzero(info["action_mask"])[0]))
def batch(**options):
    envs = gym.make_vec("gpusched/Cluster-v0", num_envs=34, threads=2, scenario="tiny-v1", **options)
    _, infos = envs.reset(seed=0)
    for _ in range(9):
        infos = envs.step(infos["action_mask"].argmax(axis=1))[-1]
def by(scheduler):
    return lambda: simulate(tiny, make_scheduler(scheduler))
def expected(act, kind, mark):
    """The error names file and line: in its message if the kernel does not compile, else in its traceback."""
    try:
        act()
    except Exception as error:
        wanted = f"mistakes.py:{line_of(mark)}"
        if type(error) is GpuschedError or isinstance(error, GpuschedError):
            assert not INTERPRETED and wanted in str(error) and "\\n" not in str(error), str(error)
        else:
            assert type(error) is kind, repr(error)
            frames = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
            assert any(frame.endswith(wanted) for frame in frames), (frames, wanted)
            return
        assert kind in (NameError, AttributeError, TypeError), repr(error)
    else:
        raise AssertionError((mark, "no error"))

before = by("fifo-skip")().digest(), simulate(on("maxmin"), make_scheduler("fifo")).digest()

# kernels that do not compile: where they are chosen
expected(by("fifo-skip:placement=typo"), NameError, "rule")
expected(by("yarn-cs:placement=typo"), NameError, "rule")
expected(lambda: play(rules=("pack", "typo")), NameError, "rule")
expected(lambda: play(rules=("typo",)), NameError, "rule")
expected(lambda: batch(rules=("typo",)), NameError, "rule")
expected(by("fifo-skip:placement=late"), AttributeError, "late")
expected(by("fifo-skip:placement=late"), AttributeError, "late")
expected(lambda: play(rules=("late",)), AttributeError, "late")
expected(lambda: batch(rules=("late",)), AttributeError, "late")
expected(lambda: play(extras=("typo",)), AttributeError, "helper")
if not INTERPRETED:  # a structured array of NumPy names no field; a text is a number's opposite only when it is used
    expected(lambda: Simulation(on("typo")), AttributeError, "model")
    expected(lambda: play(reward="typo"), TypeError, "reward")
    try:
        simulate(on("typo"), make_scheduler("srtf"))
    except KernelError as error:
        assert "'setled_s'" in str(error)
    expected(lambda: play(rules=("pack",), reward={"jct": 1.0, "typo": 1.0}), TypeError, "reward")

# errors while a run is played
for rule, kind in (("raising", ValueError), ("plainly", IndexError)):
    expected(by(f"fifo-skip:placement={rule}"), kind, rule)
    expected(by(f"srtf:placement={rule}"), kind, rule)
    expected(lambda: play(rules=(rule,)), kind, rule)
    expected(lambda: batch(rules=(rule,)), kind, rule)
for scheduler in ("fifo", "srtf", "las"):
    expected(lambda: simulate(on("plainly"), make_scheduler(scheduler)), KeyError, "plain model")
expected(lambda: play(reward="plainly"), ZeroDivisionError, "plain reward")
expected(lambda: play(extras=("plainly",)), IndexError, "plain array")
expected(lambda: batch(reward="plainly"), ZeroDivisionError, "plain reward")

# the run is over; another one is not
simulation = Simulation(tiny)
simulation.advance()
expected(lambda: simulation.apply(Start(0, "raising")), ValueError, "raising")
for act in (simulation.advance, lambda: simulation.apply(Start(0)), lambda: simulation.run(make_scheduler("fifo"))):
    try:
        act()
    except GpuschedError as error:
        assert "this run ended in an error of a kernel, ValueError: no place for it" in str(error)
    else:
        raise AssertionError("it goes on")
env = gym.make("gpusched/Cluster-v0", scenario="tiny-v1", rules=("pack",), reward="plainly")
envs = gym.make_vec("gpusched/Cluster-v0", num_envs=3, scenario="tiny-v1", reward="plainly")
for one, action in ((env, 0), (envs, np.zeros(3, int))):
    for seed in (0, 0):
        one.reset(seed=seed)
        for _ in range(2):
            one.step(action)
        try:
            one.step(action)
        except ZeroDivisionError:
            pass
        try:
            one.step(action)
        except gym.error.ResetNeeded:
            continue
        raise AssertionError("it goes on")
again = by("fifo-skip")().digest(), simulate(on("maxmin"), make_scheduler("fifo")).digest()
assert again == before
print("lives")
'''


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "plain Python"])
def test_mistakes_in_a_users_functions_are_exceptions(tmp_path: Path, interpreted: bool) -> None:
    """A typo, a ``raise`` in a kernel, an exception in plain Python: by schedulers, an environment and a batch."""
    (tmp_path / "mistakes.py").write_text(MODULE, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env=os.environ | ({"NUMBA_DISABLE_JIT": "1"} if interpreted else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["lives"]
