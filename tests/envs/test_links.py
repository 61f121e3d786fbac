"""Observations of links and flows, recomputed from the holders of the GPUs: rings, max-min rates, prices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import FREE, linked_scenario
from max_min_reference import max_min_rates

from gpusched_env.core.state import CHECKPOINTING
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.observation.links import FLOWS, LINKS
from gpusched_env.network import TopologySpec
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios import get_scenario


class Account:
    """Rings of all communicating gangs at the current time, and their max-min fair rates."""

    def __init__(self, env: ClusterEnv) -> None:
        instance, state = env.simulation.instance, env.simulation.arrays
        topology, cluster = instance.topology, instance.cluster
        assert topology is not None
        self.env, self.spec, self.links = env, instance.network.topology or TopologySpec(), instance.links
        self.profile = instance.workload.profiles
        holder = state.holder[: cluster.gpus]
        self.replicas = [r for r in np.unique(holder).tolist() if r != FREE]
        self.job = [int(state.replicas["job"][r]) for r in self.replicas]
        self.gone = [state.replicas["phase"][r] == CHECKPOINTING for r in self.replicas]
        self.machines = [np.unique(cluster.node_of_gpu[holder == r]).tolist() for r in self.replicas]
        self.gang = instance.workload.jobs["gpus"][self.job]
        row = instance.workload.jobs["profile"][self.job]
        self.compute_s = self.profile.compute_s[row, 0]
        self.bytes = self.profile.rows["gradient_bytes"][row]
        self.use = np.zeros((len(self.job), len(self.links)))
        for flow, machines in enumerate(self.machines):
            if self.gone[flow] or len(machines) == 1:
                continue
            for a, b in zip(machines, [*machines[1:], machines[0]], strict=True):
                crossed, share = topology.route(topology.edge[a], topology.edge[b])
                np.add.at(self.use[flow], [topology.access[a, 0], topology.access[b, 1]], 0.5)
                np.add.at(self.use[flow], crossed, 0.5 * share)
        capacity = self.links["capacity"]
        port = self.spec.gpu_GBps * 1e9
        self.alone_Bps = np.array(
            [min([port, *(capacity[use > 0] / use[use > 0]).tolist()], default=port) for use in self.use]
        )
        self.rate_Bps = np.array([])
        if len(self.job):
            self.rate_Bps = max_min_rates(capacity, self.use, self.alone_Bps)
        self.load = np.minimum((self.rate_Bps @ self.use if len(self.job) else 0.0) / capacity, 1.0)
        self.slowed = self.rate_Bps < self.alone_Bps * (1 - 1e-9)

    def iteration_s(self, flow: int, rate_Bps: float) -> float:
        """Ring all-reduce: latency of every step, then the bytes over one edge."""
        gang, machines = int(self.gang[flow]), len(self.machines[flow])
        if gang == 1:
            return float(self.compute_s[flow])
        between = 2 * (machines - 1)
        fixed = (2 * (gang - 1) - between) * self.spec.gpu_latency_s + between * self.spec.nic_latency_s
        return float(self.compute_s[flow] + fixed + 2 * (gang - 1) / gang * self.bytes[flow] / rate_Bps)

    def check_links(self, shown: np.ndarray) -> None:
        flows = (self.use > 0).sum(axis=0)
        np.testing.assert_allclose(shown[:, LINKS.load], self.load, atol=2e-5)
        np.testing.assert_allclose(shown[:, LINKS.flows], flows / (1 + flows), atol=2e-5)
        np.testing.assert_allclose(shown[:, LINKS.capacity], self.links["capacity"] / self.links["capacity"].max())
        np.testing.assert_allclose(shown[:, LINKS.tier], (self.links["tier"] + 2) / 5)
        bound = shown[:, LINKS.bound] / (1 - shown[:, LINKS.bound])
        assert round(float(bound.sum())) == self.slowed.sum()
        assert (self.load[bound > 0.5] > 1 - 1e-6).all()

    def check_flow(self, shown: np.ndarray, job: int) -> None:
        flow = self.job.index(job)
        machines, use = self.machines[flow], self.use[flow]
        assert shown[FLOWS.machines] == pytest.approx(1 - 1 / len(machines), abs=2e-5)
        if self.gone[flow]:
            assert (np.delete(shown, FLOWS.machines) == 0).all()
            return
        now, alone = (self.iteration_s(flow, rate[flow]) for rate in (self.rate_Bps, self.alone_Bps))
        assert shown[FLOWS.slowdown] == pytest.approx(1 - alone / now, abs=2e-5)
        assert shown[FLOWS.communication] == pytest.approx(1 - self.compute_s[flow] / now, abs=2e-5)
        told = shown[[FLOWS.bottleneck_load, FLOWS.bottleneck_flows, FLOWS.bottleneck_tier]]
        if not self.slowed[flow]:
            assert told.tolist() == [0, 0, 0]
            return
        count = (self.use > 0).sum(axis=0)
        may_be = [
            (self.load[i], count[i] / (1 + count[i]), (self.links["tier"][i] + 2) / 5)
            for i in np.flatnonzero(
                (use > 0) & (self.load > 1 - 1e-6)
            )  # any full link of its ring, if there are several
        ]
        assert any(np.allclose(told, each, atol=2e-5) for each in may_be)


def test_links_and_flows_follow_from_the_placements() -> None:
    env = ClusterEnv(linked_scenario(jobs=60), queue_window=6, running_window=5, rules=("random", "pack"))
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=1)
    seen = {name: [] for name in ("links", "flows")}
    slowed = 0
    for _ in range(400):
        account = Account(env)
        slowed += int(account.slowed.sum())
        account.check_links(observation["links"])
        for slot, job in enumerate(env.encoder.running_slots.tolist()):
            if job < 0:
                assert (observation["flows"][slot] == 0).all()
            else:
                account.check_flow(observation["flows"][slot], job)
        for name, rows in seen.items():
            rows.append(observation[name])
        observation, _, terminated, truncated, _ = env.step(int(rng.choice(np.flatnonzero(env.mask))))
        if terminated or truncated:
            break
    assert slowed > 100, "without contention nothing was tested"
    for name, rows in seen.items():
        spread = np.ptp(np.concatenate(rows), axis=0)
        assert (spread > 0).all(), dict(zip([c.name for c in env.arrays()[name].columns], spread, strict=True))


@pytest.mark.parametrize("contention", ["none", "maxmin", "kway", "flat", "budget"])
@pytest.mark.parametrize("options", [{}, {"duty": "solo"}, {"ecmp": "hashed"}], ids=["plain", "duty", "hashed"])
def test_observations_stay_in_the_space_under_every_model(contention: str, options: dict[str, Any]) -> None:
    fields = options | ({"shared_loss": 0.5} if contention == "flat" else {})
    scenario = linked_scenario(contention, **fields).replace(semantics=Semantics(checkpoint_s=5.0, restore_s=0.0))
    env = ClusterEnv(scenario, queue_window=4, running_window=4, rules=("spread", "pack"))
    rng = np.random.default_rng(1)
    observation, _ = env.reset(seed=2)
    hashed = "ecmp" in options  # then one row for each direction and each of the two members of an uplink
    assert observation["links"].shape == (2 * (4 + 2 * 2) if hashed else 4 + 2, len(LINKS))
    slower = 0.0
    for _ in range(250):
        assert observation in env.observation_space
        assert all(value.min() >= 0 and value.max() <= 1 for value in observation.values())
        slower = max(slower, float(observation["flows"][:, FLOWS.slowdown].max()))
        observation, _, terminated, _, _ = env.step(int(rng.choice(np.flatnonzero(env.mask))))
        if terminated:
            break
    assert (slower > 0.01) == (contention != "none")


def test_a_start_is_observed_before_time_moves() -> None:
    """Rates are updated after every decision, before time moves."""
    env = ClusterEnv(linked_scenario(jobs=40), queue_window=8, running_window=8, rules=("spread",))
    env.reset(seed=3)
    shown = 0
    for _ in range(200):
        start = np.flatnonzero(env.mask[:8])
        before = env.simulation.now_s
        observation, *_, terminated, _, _ = env.step(int(start[0]) if len(start) else env.windows.wait_action)
        if len(start) and env.simulation.now_s == before:
            Account(env).check_links(observation["links"])
            shown += 1
        if terminated:
            break
    assert shown > 10


def test_without_a_topology_there_are_no_arrays_of_links() -> None:
    observation, _ = ClusterEnv("tiny-v1", running_window=2).reset(seed=0)
    assert {key: value.shape for key, value in observation.items()} == {
        "queue": (32, 13), "running": (2, 11), "nodes": (2, 4), "links": (3, 3), "cluster": (11,),
    }  # fmt: skip
    observation, _ = ClusterEnv("rar-160-v0", running_window=0).reset(seed=0)
    assert {key: value.shape for key, value in observation.items()} == {
        "queue": (32, 13), "nodes": (20, 4), "links": (20, 5), "cluster": (11,),
    }  # fmt: skip
    assert get_scenario("rar-160-v0").cluster.gpus == 300
