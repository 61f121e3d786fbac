"""SJF-BSBF and SJF-FFS in plain Python, after docs/sjf_bsbf.md (The algorithm); tests compare logs.

The order of the queue, "all free GPUs first" and the order of partners (ascending T_con, stable) are those of the paper
and of its prototype (Lai-JX/Scheduler, cluster/switch.py). Ours, and named on that page: free GPUs by best fit, the
sub-batch of several partners, no communication on one GPU, T_seq with the whole batch. Means are followed from event to
event and compared without a tolerance, as the prototype does; random slowdowns make no ties.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusched_env.problem.cluster import MACHINE, RACK
from gpusched_env.problem.instance import Instance
from gpusched_env.simulator import ClairvoyantView, Decision, Scheduler, Start

SLACK = 1e-9  # of a job: less work is what rounding leaves of it
MEMORY_SLACK = 1e-9  # of a GPU, for sums of parts (ours)


def pair_means(left: float, new: float, xi_left: float, xi_new: float, delay: float) -> float:
    """Mean JCT of two jobs if the new one joins after ``delay``, followed from event to event."""
    todo, ends, now = {"left": left, "new": new}, {}, 0.0
    while todo:
        present = [name for name in todo if name == "left" or now >= delay]
        slow = {"left": xi_left, "new": xi_new} if len(present) == 2 else dict.fromkeys(present, 1.0)
        steps = [todo[name] * slow[name] for name in present]
        if "new" in todo and now < delay:
            steps.append(delay - now)
        step = min(steps)
        now = delay if "new" in todo and now < delay and step == delay - now else now + step
        for name in present:
            todo[name] -= step / slow[name]
            if todo[name] <= SLACK * max(left, new):
                del todo[name]
                ends[name] = now
    return (ends["left"] + ends["new"]) / 2


class Reference(Scheduler):
    """SJF-BSBF on equal machines of one rack; ``benefit`` off = SJF-FFS."""

    clairvoyant = True

    def __init__(self, instance: Instance, benefit: bool = True) -> None:
        assert instance.sharing_tables is not None
        self.instance, self.tables, self.benefit = instance, instance.sharing_tables, benefit
        self.option: dict[int, int] = {}  # of each job that was started

    def solo_s(self, kind: int, option: int, tier: int) -> float:
        compute, communication = (
            float(a[kind, tier, 0]) for a in (self.instance.compute_s, self.instance.communication_s)
        )
        p = float(self.instance.workload.profiles.rows["overlap"][self.instance.classes[kind, 0]])
        part = compute * float(self.tables.compute_share[kind, option])
        longer = max(part, communication)
        last = longer if np.isinf(p) else (part**p + communication**p) ** (1 / p)
        return float((self.tables.sub_steps[kind, option] - 1) * part + last)

    def fresh_s(self, kind: int, option: int) -> float:
        """Seconds of an iteration of a waiting job on as few machines as the empty cluster allows."""
        few = self.instance.classes[kind, 1] <= self.instance.cluster.nodes["gpus"][0]
        return self.solo_s(kind, option, MACHINE if few else RACK)

    def left_s(self, view: ClairvoyantView, job: int) -> float:
        """Remaining seconds of a running job if it were alone on its GPUs."""
        nodes = set(self.instance.cluster.node_of_gpu[(view.residents == job).any(axis=0)].tolist())
        kind = int(view.job_class[job])
        pace = self.solo_s(kind, self.option[job], MACHINE if len(nodes) == 1 else RACK)
        return float(view.iterations_left(np.array([job]))[0]) * pace

    def decide(self, view: ClairvoyantView) -> Iterator[Decision]:  # type: ignore[override]
        kinds, left = view.job_class, lambda job: float(view.iterations_left(np.array([job]))[0])
        for job in sorted(view.waiting.tolist(), key=lambda job: (left(job) * self.fresh_s(kinds[job], 0), job)):
            kind, gang, now = int(kinds[job]), int(view.gpus[job]), view.residents
            options = np.flatnonzero(self.tables.sub_steps[kind] > 0).tolist()
            free = np.flatnonzero(now[0] < 0).tolist()
            if len(free) >= gang:
                self.option[job] = 0
                yield Start(job)
                continue
            alone = np.flatnonzero((now[0] >= 0) & (now[1] < 0)).tolist()

            def room(option: int, gpu: int, kind: int = kind, now: np.ndarray = now) -> bool:
                other = int(now[0, gpu])
                used = self.tables.memory[kinds[other], self.option[other], 0]
                xi = self.tables.interference[kind, kinds[other], 0], self.tables.interference[kinds[other], kind, 0]
                return bool(self.tables.memory[kind, option, 0] + used <= 1 + MEMORY_SLACK and np.isfinite(xi).all())

            chosen, option = list(free), 0
            if self.benefit:
                judged = []
                for other in dict.fromkeys(int(now[0, gpu]) for gpu in alone):
                    own = [gpu for gpu in alone if now[0, gpu] == other]
                    l_a = self.left_s(view, other)
                    xi = [
                        float(self.tables.interference[a, b, 0])
                        for a, b in ((kinds[other], kind), (kind, kinds[other]))
                    ]
                    later = pair_means(l_a, left(job) * self.fresh_s(kind, 0), *xi, l_a) if np.isfinite(xi).all() else 0
                    for k in options:
                        if room(k, own[0]):
                            at_once = pair_means(l_a, left(job) * self.fresh_s(kind, k), *xi, 0.0)
                            if at_once < later:
                                judged.append((at_once, own, k))
                                break
                for _, own, k in sorted(judged, key=lambda pair: pair[0]):
                    if len(chosen) < gang:
                        option = max(option, k)
                        chosen += own[: gang - len(chosen)]
            else:
                for option in options:
                    chosen = free + [gpu for gpu in alone if room(option, gpu)]
                    if len(chosen) >= gang:
                        break
            if len(chosen) >= gang:
                self.option[job] = option
                steps = int(self.tables.sub_steps[kind, option])
                yield Start(job, gpus=tuple(chosen[:gang]), share=True, sub_steps=steps)
