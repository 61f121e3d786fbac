"""An entry of the leaderboard: who claims what, and the decisions that prove it. docs/leaderboard.md is its format.

Nothing in an entry is code, and nothing in it is believed: :mod:`gpusched_env.leaderboard.verifying` plays the
decisions.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal

import msgspec

FORMAT: Final = "gpusched-entry-1"

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Step = Annotated[int, msgspec.Meta(ge=-(2**40), le=2**40)]
# Sums of so many steps stay within 64 bits.
_Counts = Annotated[list[_Count], msgspec.Meta(max_length=2**22)]
_Steps = Annotated[list[_Step], msgspec.Meta(max_length=2**22)]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Name = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[ -~]*\Z")]  # plain ASCII, one line
# No control characters, none that turn the direction of writing, and none that nobody sees: two titles that look equal
# are equal. This is Unicode's Default_Ignorable_Code_Point, and spaces but the usual one; a text may have line ends.
_HIDDEN = (
    r"\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    r"\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_Line = Annotated[str, msgspec.Meta(max_length=200, pattern=rf"^[^\x00-\x1f{_HIDDEN}]*\Z")]
_Text = Annotated[str, msgspec.Meta(max_length=4000, pattern=rf"^[^\x00-\x09\x0b-\x1f{_HIDDEN}]*\Z")]
_Scalar = None | bool | int | float | Annotated[str, msgspec.Meta(max_length=1000)]
_Parameter = _Scalar | Annotated[list[_Scalar], msgspec.Meta(max_length=1000)]
_Numbers = Annotated[dict[_Name, float | None], msgspec.Meta(max_length=100)]


class Schema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all records: a field that is unknown, missing or of a wrong type is refused."""


class Decisions(Schema, frozen=True):
    """All decisions of one run that had an effect, in order, by columns. Whole numbers are written as steps.

    A step is the difference from the value before it in the column, the first from 0. A refused decision has no
    effect, nor has a wait that another event overtook: they are left out. ``unpack`` of
    :mod:`gpusched_env.leaderboard.columns` gives arrays.

    Attributes
    ----------
    kinds : one letter a decision: S = Start, P = Preempt, L = Lease, W = Wait
    points : steps of the decision point of each; the first point of a run is 0, whether or not anything is decided
    times_ms : steps of the simulated time of each, rounded [ms]: for reading, and to say where a replay parts from it
    jobs : steps of the job row of each S, P and L
    gpu_counts : GPUs of each S [GPU]
    gpus : steps of the GPU ids of all S, one gang after the other, in the order given
    until_s : of each L and W, exact [s]; null = inf, no lease
    shares : of each S, 1 = others may hold its GPUs too; empty = none shares
    sub_steps : gradient-accumulation sub-steps of each S, 0 = none named; empty = none is named anywhere
    """

    kinds: Annotated[str, msgspec.Meta(max_length=2**22)]
    points: _Counts
    times_ms: _Counts
    jobs: _Steps
    gpu_counts: _Counts
    gpus: _Steps
    until_s: Annotated[list[float | None], msgspec.Meta(max_length=2**22)]
    shares: Annotated[list[Literal[0, 1]], msgspec.Meta(max_length=2**22)]
    sub_steps: _Counts


class Run(Schema, frozen=True):
    """One seed: the problem, the decisions, and what they are claimed to give.

    Attributes
    ----------
    seed : of the track's report seeds
    instance, workload : SHA-256 of the drawn problem, and of its jobs alone
    metrics : :data:`gpusched_env.metrics.COLUMNS` by name, null = no meaning here
    bounds : lower bounds, ``mean_jct_s`` and ``makespan_s`` [s]
    digest : SHA-256 of the event log
    decisions : what was decided
    """

    seed: _Count
    instance: _Sha256
    workload: _Sha256
    metrics: _Numbers
    bounds: _Numbers
    digest: _Sha256
    decisions: Decisions


class Player(Schema, frozen=True):
    """Who decided.

    Attributes
    ----------
    spec : as given to ``--scheduler``; never run by the verifier
    name, parameters : of the scheduler
    clairvoyant : whether it read true run times, or anything else that a real cluster does not tell
    """

    spec: _Name
    name: _Name
    parameters: Annotated[dict[_Name, _Parameter], msgspec.Meta(max_length=100)]
    clairvoyant: bool


class About(Schema, frozen=True):
    """Who, what and how, in their own words. Nothing here can be verified.

    Attributes
    ----------
    title : of the entry, in tables
    authors : names
    how : what the scheduler does, how it was trained and chosen
    hardware : that it was trained and run on, and for how long
    training_seeds : half-open ranges ``(first, end)`` of the seeds that it, or its authors, learned or chose from
    link : http or https address of code or paper, or empty
    licence : of the entry, an SPDX identifier such as CC-BY-4.0
    """

    title: _Line
    authors: _Line
    how: _Text
    hardware: _Line
    training_seeds: Annotated[list[tuple[_Count, _Count]], msgspec.Meta(max_length=100)]
    link: Annotated[str, msgspec.Meta(max_length=500, pattern=r"^(https?://[!-~]+)?\Z")]
    licence: _Name


class Entry(Schema, frozen=True):
    """A claim on one track.

    Attributes
    ----------
    format : FORMAT
    version : of the environment that it was played with; for readers
    results_version : version of the results, :data:`gpusched_env.scenarios.RESULTS_VERSION`
    track : name of the track
    fingerprint : SHA-256 of the track: scenario, seeds, rules
    player, about : who, what and how
    runs : one for each report seed of the track, in order
    sha256 : of the whole entry with this field empty
    """

    format: _Name
    version: _Name
    results_version: _Name
    track: _Name
    fingerprint: _Sha256
    player: Player
    about: About
    runs: Annotated[list[Run], msgspec.Meta(max_length=1000)]
    sha256: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""

    def text(self) -> bytes:
        """The entry as JSON, in the one way of writing that is accepted."""
        return msgspec.json.encode(self, order="deterministic")

    def seal(self) -> str:
        """SHA-256 over everything but the seal itself."""
        return hashlib.sha256(msgspec.structs.replace(self, sha256="").text()).hexdigest()

    def sealed(self) -> Entry:
        """The same entry with its own checksum in it."""
        return msgspec.structs.replace(self, sha256=self.seal())
