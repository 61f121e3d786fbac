"""Agents that the package contains: a checkpoint each, and a card that says what it is for and how it was made."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec

from gpusched_env.agents.checkpoints import LARGEST_BYTES, format_of
from gpusched_env.errors import SchedulerError, unknown_name
from gpusched_env.support.files import file_digest, whole, write_whole

NETWORK_KIND: Final = "token-network"
# Kind of an agent -> the class that plays it: a dataclass of schedulers whose field ``agent`` takes the agent's name.
PLAYED_BY: Final = {
    NETWORK_KIND: "gpusched_env.agents.learned:LearnedScheduler",
    "index-policy": "gpusched_env.agents.index_policy.scheduler:IndexPolicy",
    "order-search": "gpusched_env.agents.order_search:OrderSearch",
    "packing-index": "gpusched_env.agents.packing_index:PackingIndex",
    "sharing-index": "gpusched_env.agents.sharing_index:SharingIndex",
    "size-index": "gpusched_env.agents.size_index:SizeIndex",
    "type-order-search": "gpusched_env.agents.type_order_search:TypeOrderSearch",
    "type-index": "gpusched_env.agents.type_index:TypeIndex",
}


class Card(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a shipped agent is, from ``NAME.json`` beside its checkpoint ``NAME.npz``.

    Attributes
    ----------
    name : as in the scheduler ``learned:NAME``
    kind : one of :data:`PLAYED_BY`
    scenario : scenario on whose report seeds it is compared; unless ``data`` says otherwise, it learned on the training
        seeds
    clairvoyant : True = it reads true run times
    simulated_jobs : number of jobs that were simulated for the training, without those of validation
    hours : time of the training [h]; ``machine`` says on what
    seeds : first and end of the range of seeds for each use: train, validation, report
    compared_seeds : number of report seeds of the comparison
    ratios : metric of the agent / that of each rival: geometric mean over the seeds, and its 95 % interval
    versions : of this package and of those that training uses
    training : all settings of the training; the windows of the agent are among them
    data : what it learned from; "" = the training seeds of the scenario
    """

    name: str
    kind: str
    summary: str
    environment: str
    scenario: str
    clairvoyant: bool
    sha256: str
    made_by: list[str]
    simulated_jobs: int
    hours: float
    machine: str
    seeds: dict[str, tuple[int, int]]
    metric: str
    compared_seeds: int
    ratios: dict[str, tuple[float, float, float]]
    intended_use: str
    limits: str
    versions: dict[str, Any]
    training: dict[str, Any]
    data: str = ""

    @property
    def file(self) -> Path:
        """The checkpoint."""
        return shipped_folder() / f"{self.name}.npz"

    def checked_file(self) -> Path:
        """Return the checkpoint's path."""
        if file_digest(self.file, SchedulerError) != self.sha256:
            raise SchedulerError(f"{self.file}: its SHA-256 is not that of its card; install the package again")
        if self.file.stat().st_size > LARGEST_BYTES:
            raise SchedulerError(f"{self.file}: a shipped agent may have at most {LARGEST_BYTES:,} bytes")
        return self.file


def shipped_folder() -> Path:
    """Return the folder of the shipped agents."""
    return Path(str(files("gpusched_env.agents"))) / "shipped"


def shipped_agents() -> list[str]:
    """Return the names of all shipped agents."""
    return sorted(path.stem for path in shipped_folder().glob("*.json"))


def read_card(name: str) -> Card:
    """Return the card of a shipped agent."""
    if name not in shipped_agents():
        told = unknown_name("agent", name, shipped_agents(), "gpusched agents list")
        raise SchedulerError(f"{told}; or give a model: learned:path=FILE")
    path = shipped_folder() / f"{name}.json"
    try:
        card = msgspec.json.decode(path.read_bytes(), type=Card)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SchedulerError(f"{path}: not the card of an agent ({error}); install the package again") from error
    if card.name != name or card.kind not in PLAYED_BY:
        raise SchedulerError(f"{path}: the card is of {card.kind} {card.name!r}; install the package again")
    return card


def kind_of_file(path: Path) -> str:
    """Return the kind of the agent in a checkpoint, a key of :data:`PLAYED_BY`; other files are of a network."""
    kind = format_of(path).removeprefix("gpusched-").rpartition("-")[0]
    return kind if kind in PLAYED_BY else NETWORK_KIND


def file_of(kind: str, agent: str, path: str) -> Path:
    """Return the checkpoint of an agent, which is named as one of the package or by its path."""
    if bool(agent) == bool(path):
        raise SchedulerError(
            f"{kind}: give either agent or path, that is either the name of an agent or the path of its weights; "
            "`gpusched agents list` lists the names"
        )
    return read_card(agent).checked_file() if agent else Path(path)


def put(card: Card, model: Path) -> None:
    """Write a checkpoint and its card into the package; for maintainers."""
    with whole(shipped_folder() / f"{card.name}.npz") as partial:
        partial.write_bytes(model.read_bytes())
    text = msgspec.json.format(msgspec.json.encode(card), indent=1).decode()
    write_whole(shipped_folder() / f"{card.name}.json", text + "\n")
