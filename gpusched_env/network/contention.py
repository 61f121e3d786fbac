"""Contention models, which determine how much slower gangs communicate when they share links."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.network.checks import MOST
from gpusched_env.support.files import file_digest

# The compiled kernels identify a model by its position in this dictionary. The kernels are in
# gpusched_env.core.network.models; gpusched_env.core.network.contention.contention_model registers further models.
CONTENTION_MODELS: Final[dict[str, str]] = {
    "none": "every gang communicates as if it were alone",
    "maxmin": "max-min fair rates over all links; a gang is one flow whose ring edges move in lock step",
    "kway": "transfers take k + alpha (k - 1) times as long; k: gangs that straddle a server (SJF-BCO, Wang et al.)",
    "flat": "a gang that shares a machine with another multi-machine gang loses a fixed share of its rate (Pollux)",
    "table": "a gang runs at the lowest of the user's pairwise ratios with the gangs on its machines",
    "budget": "contention and overhead share a budget of extra time (SJF-BCO, section 7)",
    "tiers": "each tier stretches the whole iteration by network.tier_slowdown, with or without other gangs (Themis)",
    "strict-priority": "gangs send by levels of priority, by Crux's rule; FLOPs are taken as GPUs x compute time",
}
K_MODES: Final = ("raw", "clamp", "affine")
DUTIES: Final = ("always", "const", "solo")
ECMP: Final = ("ideal", "hashed")


@dataclass(frozen=True)
class Contention:
    """The rules by which gangs share links.

    Parameters
    ----------
    model : a name in CONTENTION_MODELS. Each parameter below names the models that use it in brackets
    duty : share of the time in which gangs contend (maxmin; strict-priority within a level). Let s be the slow-down by
        contention. "always" = gangs contend all the time, slow-down s; "const" = a share xi1 of the time, slow-down
        1 + xi1 (s - 1); "solo" = like "const", but xi1 is computed: each other gang on the slowest link has a share of
        time in which it communicates when it is alone, and xi1 is the mean of these shares
    ecmp : "ideal" = parallel links are one link with their summed rate; "hashed" = each edge of a ring takes one of the
        parallel links, which a hash chooses
    path_seed : seed of this hash; a gang that restarts gets new links. Also of the orders drawn by strict-priority
    xi1 : share of the straddling gangs that contend (kway, budget); share of the time in which gangs contend (maxmin
        with duty "const")
    alpha : loss of a link's rate by sharing, eta / b in Wang et al. (kway, budget)
    k_mode : effective contenders k of p straddling gangs: "raw" = xi1 p, "clamp" = max(1, xi1 p), "affine" =
        1 + xi1 (p - 1) (kway, budget)
    shared_loss : share of its iteration rate that a gang of several machines loses while another such gang uses one of
        its machines (flat)
    extra : extra time / total time under the worst contention and overhead (budget)
    ratios : path of the user's table with the columns model_a, model_b and ratio, or two numbers per model; see
        :func:`gpusched_env.network.pairwise.read_pairwise` (table)
    missing : rule for a pair that the table lacks: "error" = raise an error, "unit" = no slow-down, "fit" = predict it
        by two numbers per model, and warn (table)
    floor : lower limit on the ratio (table)
    levels : number of levels of priority, 1 to 8 (strict-priority)

    Notes
    -----
    Defaults that no paper gives are choices, which docs/network.md explains.
    """

    model: str = "maxmin"
    duty: str = "always"
    ecmp: str = "ideal"
    path_seed: int = 0
    xi1: float = 1.0
    alpha: float = 0.2
    k_mode: str = "clamp"
    shared_loss: float = 0.0
    extra: float = 0.15
    ratios: str = ""
    missing: str = "error"
    floor: float = 0.35
    levels: int = 8

    def __post_init__(self) -> None:
        """Check every field."""
        names = {
            "model": tuple(CONTENTION_MODELS),
            "duty": DUTIES,
            "ecmp": ECMP,
            "k_mode": K_MODES,
            "missing": ("error", "unit", "fit"),
        }
        for field, known in names.items():
            if getattr(self, field) not in known:
                raise ScenarioError(f"contention.{field}: {unknown_name('value', str(getattr(self, field)), known)}")
        ranges = {
            "xi1": (0.0, 1.0),
            "alpha": (0.0, MOST),
            "shared_loss": (0.0, 1.0),
            "extra": (0.0, 1.0),
            "floor": (0.0, 1.0),
        }
        for field, (low, high) in ranges.items():
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ScenarioError(f"contention.{field} is {value!r}: give a number from {low:g} to {high:g}")
            if field in ("shared_loss", "extra") and value == 1.0:
                raise ScenarioError(f"contention.{field} is 1: nothing would be left; give less")
        if isinstance(self.path_seed, bool) or not isinstance(self.path_seed, int) or not 0 <= self.path_seed < 2**31:
            raise ScenarioError(f"contention.path_seed is {self.path_seed!r}: give a whole number from 0 to 2**31 - 1")
        if isinstance(self.levels, bool) or not isinstance(self.levels, int) or not 1 <= self.levels <= 8:
            raise ScenarioError(f"contention.levels is {self.levels!r}: give a whole number from 1 to 8")
        if (self.model == "table") != bool(self.ratios):
            raise ScenarioError("contention.ratios: name the table's path for model 'table', and for no other")

    def file_digest(self) -> str | None:
        """Return the SHA-256 of the user's table; None if there is no table."""
        return file_digest(Path(self.ratios), ScenarioError) if self.ratios else None


NO_CONTENTION: Final = Contention("none")
