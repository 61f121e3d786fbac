"""The environment where the observation shows tenants: masks obey limits, and columns match the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpusched_env.baselines import make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.observation.registry import ARRAYS
from gpusched_env.envs.observation.tenants import TENANTED
from gpusched_env.envs.observation.time_scale import scaled_time
from gpusched_env.errors import ScenarioError
from gpusched_env.metrics.tenants import usage
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.problem.tenants import Tenant, Tenants
from gpusched_env.scenarios import Scenario, WorkloadSpec
from gpusched_env.simulator import Preempt, Resize, Start

TENANT_TABLES = {one.name: one.columns for one in ARRAYS if one.group is TENANTED}

# A department with two teams below a limit of 8, a tenant that may borrow 2 beyond its quota of 4, and a free one.
TREE = (
    Tenant("department", quota=8, most=8),
    Tenant("red", parent="department", quota=6, most=6, demand=2.0),
    Tenant("blue", parent="department", weight=2.0, demand=2.0),
    Tenant("guest", quota=4, borrow=2, demand=1.0),
    Tenant("free", demand=1.0),
)
LIMITS = {"department": 8, "red": 6, "guest": 6}  # [GPU] by hand
WIDE: dict[str, Any] = dict(
    queue_window=5, running_window=5, rules=("pack", "spread"), tenant_window=5, limits=True, least_run_s=0.0,
    skip_forced_waits=False, migration=True,
)  # fmt: skip


def crowded(jobs: int = 40, elastic: bool = False) -> Scenario:
    """Jobs of at most four GPUs on four nodes of four GPUs."""
    return Scenario(
        name="crowded",
        description="",
        groups=(NodeGroup(4, 4, nodes_per_rack=2),),
        workload=WorkloadSpec(
            "synthetic:philly", {"max_duration_s": 7_200.0}, max_gpus=4, jobs=jobs, load=3.0,
            elastic={"rule": "amdahl", "serial": 0.1, "step": 1, "most": 16} if elastic else None,
        ),
        semantics=Semantics(checkpoint_s=20.0, restore_s=20.0),
        tenants=Tenants(TREE),
    )  # fmt: skip


def held(env: ClusterEnv) -> dict[str, int]:
    """GPUs that the jobs of each tenant hold, inner tenants included, from the run's own list of gangs."""
    tree, leaf = env.simulation.instance.tenancy
    arrays = env.simulation.arrays
    gpus = dict.fromkeys(tree.names, 0)
    for number in arrays.running[: arrays.world["running"]].tolist():
        row = int(leaf[arrays.replicas["job"][number]])
        while row >= 0:
            gpus[tree.names[row]] += int(arrays.replicas["gpus"][number])
            row = int(tree.parent[row])
    return gpus


def allowed(env: ClusterEnv, decision: Start | Resize | Preempt) -> bool:
    """Whether the simulator accepts a decision that changes something, and every tenant stays within its limit."""
    if isinstance(decision, Preempt):
        return True
    tree, leaf = env.simulation.instance.tenancy
    copy = env.simulation.rehearsal()
    before = len(list(copy.log().lines()))
    if copy.apply(decision) != "" or len(list(copy.log().lines())) == before:
        return False
    had = int(env.simulation.arrays.jobs["gpus"][decision.job]) if isinstance(decision, Resize) else 0
    size = decision.size if decision.size is not None else int(env.simulation.arrays.jobs["gpus"][decision.job])
    now, row = held(env), int(leaf[decision.job])
    while row >= 0:
        name = tree.names[row]
        if name in LIMITS and now[name] - had + size > LIMITS[name] and size > had:
            return False
        row = int(tree.parent[row])
    return True


def draw(env: ClusterEnv, rng: np.random.Generator) -> int:
    """A feasible action: mostly starts; waits so that time goes on, and some resizes and preemptions."""
    feasible = np.flatnonzero(env.mask)
    w = env.windows
    kinds = np.searchsorted([w.first_resize, w.first_preemption, w.wait_action], feasible, side="right")
    if rng.random() < 0.7:
        kinds_now = kinds[(kinds == 0) | (kinds == 3)]
        return int(rng.choice(feasible[kinds == kinds_now.min()]))
    return int(rng.choice(feasible[kinds == rng.choice(np.unique(kinds))]))


@pytest.mark.parametrize("elastic", [False, True])
def test_the_mask_marks_exactly_the_starts_and_resizes_within_the_limits_of_all_tenants_above(elastic: bool) -> None:
    options = WIDE | {"sizes": (1, 2, 4, 6)} if elastic else WIDE
    env = ClusterEnv(crowded(elastic=elastic), **options)
    rng = np.random.default_rng(1)
    env.reset(seed=1)
    free = ClusterEnv(crowded(elastic=elastic), **options | {"limits": False})
    free.reset(seed=1)
    forbidden = marked = 0
    for step in range(250):
        for action in range(env.windows.wait_action) if step % 3 == 0 else ():
            decision = env.encoder.decision_of(action)
            assert decision is not None
            if decision.job < 0:
                assert not env.mask[action]
            elif not isinstance(decision, Preempt):
                assert bool(env.mask[action]) == allowed(env, decision), (step, decision)
                marked += bool(env.mask[action])
                forbidden += bool(free.mask[action]) and not env.mask[action]
        action = draw(env, rng)
        _, _, over, _, info = env.step(action)
        assert info["refusals"] == 0
        free.step(action)  # the same state without limits
        if over:
            env.reset(seed=step)
            free.reset(seed=step)
    assert min(forbidden, marked) > 50


def test_no_tenant_ever_holds_more_than_it_may_not_even_after_the_step_limit() -> None:
    for seed, limit in ((1, None), (2, 25), (3, 1)):
        env = ClusterEnv(crowded(), **WIDE, step_limit=limit)
        rng, over = np.random.default_rng(seed), False
        env.reset(seed=seed)
        while not over:
            *_, over, _, _ = env.step(draw(env, rng))
        assert env.simulation.arrays.world["finished"] == 40
        tree, _ = env.simulation.instance.tenancy
        _, gpus = usage(env.simulation.instance, env.event_log())
        most = dict(zip((tree.names[row] for row in tree.leaves), gpus.max(axis=1).tolist(), strict=True))
        assert most["red"] <= 6
        assert most["guest"] <= 6
        leaves = [tree.names[row] for row in tree.leaves]
        assert (gpus[leaves.index("red")] + gpus[leaves.index("blue")]).max() <= 8
        assert gpus.sum(axis=0).max() <= 16


def test_observations_show_the_tenants_of_jobs() -> None:
    env = ClusterEnv(crowded(), **WIDE)
    rng = np.random.default_rng(6)
    observation, _ = env.reset(seed=6)
    tree, leaf = env.simulation.instance.tenancy
    quota = {"department": 8, "red": 6, "blue": 0, "guest": 4, "free": 0}
    deserved = {"department": 0.6, "red": 0.6, "blue": 0.0, "guest": 0.4, "free": 0.0}  # quotas of leaves: 6 and 4
    below = {"department": ("red", "blue"), "red": ("red",), "blue": ("blue",), "guest": ("guest",), "free": ("free",)}
    queued = 0
    for _ in range(300):
        view, now = env.simulation.view_for(make_scheduler("srtf")), held(env)
        jobs = env.simulation.arrays.jobs
        for q, name in enumerate(tree.names[1:]):
            waits = [job for job in view.waiting.tolist() if tree.names[leaf[job]] in below[name]]
            rooms = [LIMITS[name] - now[name]] if name in LIMITS else []
            if name in ("red", "blue"):
                rooms.append(8 - now["department"])
            room = min([*rooms, 16 * 64])
            demand = sum(int(jobs["gpus"][job]) for job in waits)
            longest = max((env.simulation.now_s - float(jobs["last_stop_s"][job]) for job in waits), default=0.0)
            expected = [
                (q + 1) / 5, quota[name] / 16, deserved[name], now[name] / 16, min(room / 16, 1.0),
                len(waits) / (32 + len(waits)), demand / (16 + demand), scaled_time(longest),
            ]  # fmt: skip
            np.testing.assert_allclose(observation["tenants"][q], expected, rtol=1e-6, atol=1e-6, err_msg=name)
            queued += len(waits)
        for name, slots in (("queue", env.encoder.queue_slots), ("running", env.encoder.running_slots)):
            for slot, job in enumerate(slots.tolist()):
                row = observation["tenants"][leaf[job] - 1] if job >= 0 else np.zeros(8)
                np.testing.assert_array_equal(observation[f"{name}_tenants"][slot], row)
        observation, _, over, _, _ = env.step(draw(env, rng))
        if over:
            observation, _ = env.reset(seed=7)
            tree, leaf = env.simulation.instance.tenancy
    assert queued > 200


def test_without_a_window_nothing_is_added_and_the_episode_is_the_same() -> None:
    plain, shown = ClusterEnv(crowded()), ClusterEnv(crowded(), tenant_window=5)
    assert not set(TENANT_TABLES) & set(plain.observation_space.spaces)
    assert plain.windows.actions == shown.windows.actions
    rng, over = np.random.default_rng(0), False
    (one, info), (two, _) = plain.reset(seed=1), shown.reset(seed=1)
    while not over:
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        (one, _, over, _, info), (two, *_, more) = plain.step(action), shown.step(action)
        for name in one:
            np.testing.assert_array_equal(one[name], two[name])
        np.testing.assert_array_equal(info["action_mask"], more["action_mask"])
    assert info["digest"] == more["digest"]


def test_a_job_that_no_limit_admits_is_refused_with_the_remedy() -> None:
    tree = (Tenant("a", quota=1, borrow=0, demand=1.0),)
    env = ClusterEnv(crowded().replace(tenants=Tenants(tree)), **WIDE)
    with pytest.raises(ScenarioError, match=r"job \d+ requests [24] GPUs, but tenant 'a' may hold 1; raise its field"):
        env.reset(seed=1)


def test_limits_of_a_tree_by_hand() -> None:
    tree, _ = crowded().instance(1).tenancy
    assert {
        name: limit for name, limit in zip(tree.names, tree.limits.tolist(), strict=True) if limit < 1_000
    } == LIMITS
    inner = Tenants((Tenant("top", quota=1, borrow=3), Tenant("x", parent="top", quota=5, demand=1.0)))
    tree, _ = crowded().replace(tenants=inner).instance(1).tenancy
    assert tree.limits[1] == 8  # the quota of the inner tenant is at least that of x
