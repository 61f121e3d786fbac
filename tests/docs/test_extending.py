"""Registrations from a user's module: the module of docs/extending.md, in separate processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
PLAY = """
import dataclasses
import gymnasium as gym
import numpy as np
from gpusched_env import make_scheduler, simulate
from gpusched_env.core.placement.rules import placement_rule
from gpusched_env.envs.rewards import reward_component
from gpusched_env.core.api import take
from gpusched_env.metrics import validate
from gpusched_env.network import Contention
from gpusched_env.scenarios import get_scenario

# a scenario and its family, a scheduler, a placement rule
lab = get_scenario("lab-v0:nodes=6").instance(0)
assert lab.cluster.gpus == 24
log = simulate(lab, make_scheduler("last-come"))
validate(lab, log)
first = log.events[log.events["gpu_count"] > 0][0]
gpus = log.gpus[first["gpu_at"] : first["gpu_at"] + first["gpu_count"]]
assert set(lab.cluster.node_of_gpu[gpus].tolist()) <= {4, 5} and 5 in lab.cluster.node_of_gpu[gpus], gpus

# the same rule in plain Python gives the same log
@placement_rule("last-fit-plain", "the last machines first", anywhere=True)
def place_last_plainly(sim, at, kind, gang, supply):
    left = gang
    for node in range(int(sim.world["nodes"]) - 1, -1, -1):
        count = min(left, int(sim.free[node]))
        if count > 0:
            at = take(sim, node, count, at)
            left -= count
    return at

for spec in ("fifo-skip", "srtf", "las"):
    rules = ("last-fit", "last-fit-plain")
    logs = {simulate(lab, make_scheduler(f"{spec}:placement={rule}")).digest() for rule in rules}
    assert len(logs) == 1, spec

# a contention model: alone every gang runs at its ideal pace, two on one port take four times as long for their bytes
spine = get_scenario("leaf-spine-256-v1")
def played(model):
    network = dataclasses.replace(spine.network, contention=Contention(model))
    instance = dataclasses.replace(spine, network=network).instance(0)
    log = simulate(instance, make_scheduler("fifo"))
    validate(instance, log)
    return log.digest()
assert len({played("none"), played("square"), played("kway")}) == 3

# a reward component and an observation array, single and in a batch
options = dict(scenario="tiny-v1", rules=("last-fit",), extras=("holes",), reward={"jct": 1.0, "preemptions": 0.5})
env = gym.make("gpusched/Cluster-v0", **options)
observation, info = env.reset(seed=1)
assert env.observation_space["holes"].shape == observation["holes"].shape == (2, 1), observation["holes"].shape
paid = 0.0
for _ in range(400):
    preempting = np.flatnonzero(info["action_mask"])
    observation, reward, over, cut, info = env.step(int(preempting[-2] if len(preempting) > 1 else preempting[0]))
    sim = env.unwrapped.simulation.arrays
    assert (observation["holes"][:, 0] == (sim.free[:2] / sim.world["node_gpus"]).astype(np.float32)).all()
    paid += info["rewards"]["preemptions"]
    if over or cut:
        break
assert abs(paid + sim.world["preemptions"] / sim.world["jobs"]) < 1e-9, (paid, sim.world["preemptions"])
assert sim.world["preemptions"] > 0

# a component in plain Python also counts what happens after the step limit, when the agent is not asked any more
@reward_component("starts", "-(starts a job)", lambda instance: float(len(instance.workload)))
def starts(sim):
    return float(sim.world["starts"])
env = gym.make("gpusched/Cluster-v0", scenario="tiny-v1", rules=("last-fit",), reward="starts", step_limit=1)
env.reset(seed=1)
_, reward, over, cut, info = env.step(env.unwrapped.windows.wait_action)
assert (reward, over, cut) == (-1.0, True, True), (reward, over, cut)

batch = gym.make_vec("gpusched/Cluster-v0", num_envs=3, vectorization_mode="vector_entry_point", **options)
observations, info = batch.reset(seed=1)
assert (observations["holes"] == 1.0).all() and observations["holes"].shape == (3, 2, 1)

# an action: gangs that have run for an hour may give up
from gpusched_env.envs.actions import Action
env = gym.make("gpusched/Cluster-v0", running_window=4, more_actions=("give-up",)).unwrapped
env.reset(seed=1)
given = 0
for step in range(400):
    first = env.action_of(Action("give-up", slot=0))
    for slot, job in enumerate(env.encoder.running_slots.tolist()):
        replica = env.simulation.arrays.replicas[env.simulation.arrays.jobs["replica"][job]]
        old = job >= 0 and env.simulation.now_s - replica["start_s"] >= 3_600.0 and replica["phase"] == 1
        assert bool(env.mask[first + slot]) == bool(old)
    given += int(env.mask[first])
    env.step(first if env.mask[first] and step % 3 == 0 else int(env.mask.argmax()))
assert given > 3, given
print("played")
"""


def run(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder with the module of the page."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (folder / "my_module.py").write_text("from __future__ import annotations\n\n" + "\n".join(blocks), encoding="utf-8")
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"GPUSCHED_PLUGINS": "my_module"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "plain Python"])
def test_a_users_module_adds_every_kind_of_thing(tmp_path: Path, interpreted: bool) -> None:
    """The module of the page runs, compiled or not."""
    play = PLAY
    if interpreted:  # three runs of 800 jobs would take minutes
        begin, end = play.index("# a contention model"), play.index("# a reward component")
        play = play[:begin] + play[end:]
    result = run(tmp_path, "-c", play, **({"NUMBA_DISABLE_JIT": "1"} if interpreted else {}))
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["played"]


def test_a_users_trace_format_is_read_by_the_command_line(tmp_path: Path) -> None:
    """Worker processes import the module, too."""
    rows = "".join(f"job{i},{60 * i},{1 + i % 4},{600 + i}\n" for i in range(8))
    (tmp_path / "jobs.csv").write_text(f"job,submitted,gpus,seconds\n{rows}", encoding="utf-8")
    command = ["compare", "--workload", "lab:jobs.csv", "--cluster", "2x4", "--schedulers"]
    result = run(tmp_path, "-m", "gpusched_env.cli", *command, "last-come,fifo:placement=last-fit", "--workers", "2")
    assert result.returncode == 0, result.stderr
    assert "last-come" in result.stdout


def test_a_plugin_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    """One line: the variable, the module, the reason."""
    command = ["run", "--scenario", "tiny-v1", "--scheduler", "fifo"]
    result = run(tmp_path, "-m", "gpusched_env.cli", *command, GPUSCHED_PLUGINS="no_such_module")
    assert result.returncode == 2
    assert "GPUSCHED_PLUGINS: cannot import module 'no_such_module'" in result.stderr


def test_the_command_line_lists_what_a_users_module_adds(tmp_path: Path) -> None:
    """Schedulers and scenarios, and a scenario file that names a model of the module."""
    for command, name in ((["schedulers", "list"], "last-come"), (["schedulers", "show", "last-come"], "last-come"),
                          (["scenarios", "list"], "lab-v0")):  # fmt: skip
        result = run(tmp_path, "-m", "gpusched_env.cli", *command)
        assert result.returncode == 0, result.stderr
        assert name in result.stdout
    scenario = run(tmp_path, "-m", "gpusched_env.cli", "scenarios", "show", "leaf-spine-256-v1").stdout
    assert scenario.count('"model": "maxmin"') == 1
    written = scenario.replace('"model": "maxmin"', '"model": "square"').replace('"jobs": 800', '"jobs": 80')
    (tmp_path / "mine.json").write_text(written, encoding="utf-8")
    result = run(tmp_path, "-m", "gpusched_env.cli", "run", "--scenario", "mine.json", "--scheduler", "fifo")
    assert result.returncode == 0, result.stderr


def test_a_plugin_with_a_syntax_error_is_named(tmp_path: Path) -> None:
    """One line, not a traceback."""
    (tmp_path / "broken.py").write_text("def rule(:\n", encoding="utf-8")
    command = ["run", "--scenario", "tiny-v1", "--scheduler", "fifo"]
    result = run(tmp_path, "-m", "gpusched_env.cli", *command, GPUSCHED_PLUGINS="broken")
    assert result.returncode == 2
    assert "GPUSCHED_PLUGINS: cannot import module 'broken'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "observation_array('queue', [Column('x', 'x', 'x')])(lambda *a: 0)",
            "observation array 'queue' exists already",
        ),
        (
            "try:\n    contention_model('mine', 'x')(kernel(wrong))\nexcept Exception:\n    Contention('mine')",
            "unknown value 'mine'",
        ),
        ("placement_rule('pack', 'again')(lambda *a: 0)", "placement rule 'pack' exists already"),
        ("contention_model('kway', 'again')(lambda *a: 0)", "contention model 'kway' exists already"),
        ("Start_rule = simulate(lab, make_scheduler('fifo:placement=las-fit'))", "did you mean 'last-fit'"),
        ("Contention('sqare')", "did you mean 'square'"),
        ("gym.make('gpusched/Cluster-v0', extras=('hole',))", "did you mean 'holes'"),
        ("gym.make('gpusched/Cluster-v0', reward='preemption')", "did you mean 'preemptions'"),
        ("gym.make('gpusched/Cluster-v0', rules=('last',))", "did you mean 'last-fit'"),
        ("placement_rule('other', 'x')(kernel(wrong))", "placement rule 'other': placement-rules: __main__.wrong"),
    ],
)
def test_wrong_names_and_signatures_are_refused(tmp_path: Path, code: str, message: str) -> None:
    """Errors name the mistake and the nearest name."""
    begin = (
        "import gymnasium as gym\nfrom gpusched_env import make_scheduler, simulate\n"
        "from gpusched_env.core.api import Run, contention_model, kernel, placement_rule\n"
        "from gpusched_env.envs.observation.column import Column\n"
        "from gpusched_env.envs.observation.registry import observation_array\n"
        "from gpusched_env.network import Contention\nfrom gpusched_env.scenarios import get_scenario\n"
        "lab = get_scenario('lab-v0').instance(0)\ndef wrong(sim: Run, at: int) -> int:\n    return at\n"
    )
    result = run(tmp_path, "-c", begin + code)
    assert result.returncode != 0
    assert message in result.stderr, result.stderr
