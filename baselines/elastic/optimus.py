"""Optimus: GPUs one by one to the job whose remaining time they shorten most."""

from __future__ import annotations

from dataclasses import dataclass

from gpusched_env.baselines.elastic.granting import Grants, by_gain
from gpusched_env.baselines.elastic.sizes import SizingScheduler
from gpusched_env.simulator import ClairvoyantView, ClusterView


@dataclass
class Optimus(SizingScheduler):
    """Give every job its smallest size, then grant sizes to the jobs that gain most by them.

    The gain of a job is the time by which its next size shortens its remaining run time, divided by the GPUs that this
    size adds. GPUs are granted until none are left or no job gains.

    Parameters
    ----------
    smallest_first : True = small gangs choose their nodes before large ones, as in the code of Pollux's authors, so
        that large gangs take the nodes that are left; default False = by arrival

    Notes
    -----
    This is the version with an oracle of Pollux's authors: it knows the remaining iterations and the true speed at each
    size. The paper estimates both: the iterations from a curve fitted to the loss, the speed from a fitted model. Ties:
    the earliest arrival. A decision point takes O(n x GPUs), n = number of jobs in the system.

    References
    ----------
    Y. Peng et al., "Optimus: An efficient dynamic resource scheduler for deep learning clusters", EuroSys 2018,
    section 4.1; petuum/adaptdl, branch osdi21-artifact, ``simulator/optimus.py`` (Apache-2.0).
    """

    smallest_first: bool = False

    clairvoyant = True

    @property
    def name(self) -> str:
        """Name in tables."""
        return "optimus"

    def divide(self, view: ClusterView, grants: Grants, count: int, gpus: int) -> None:
        """Divide the GPUs by marginal gains."""
        assert isinstance(view, ClairvoyantView)
        grants.left[:count] = view.iterations_left(grants.rows[:count])
        by_gain(grants, count, gpus)
