"""Schema of an entry of the leaderboard: claims, and the decisions that prove them. Format: docs/leaderboard.md.

An entry holds no code, and its claims are not trusted: :mod:`gpusched_env.leaderboard.verifying` replays its decisions.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal

import msgspec

FORMAT: Final = "gpusched-entry-1"

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Step = Annotated[int, msgspec.Meta(ge=-(2**40), le=2**40)]
# Sums of 2**22 steps of at most 2**40 fit into 64 bits.
_Counts = Annotated[list[_Count], msgspec.Meta(max_length=2**22)]
_Steps = Annotated[list[_Step], msgspec.Meta(max_length=2**22)]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Name = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[ -~]*\Z")]  # plain ASCII, one line
# No control characters, no characters that change the direction of writing, and no invisible ones, so that two titles
# that look equal are equal. The list is Unicode's Default_Ignorable_Code_Point, and all spaces but U+0020. A _Text may
# have line feeds.
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
    """Base of all records: an unknown field, a missing field or a wrong type is an error."""


class Decisions(Schema, frozen=True):
    """All decisions of one run that had an effect, in order, by columns. Most integer columns are delta-encoded.

    A delta ("step") is the difference from the previous value of the column, the first from 0. Decisions without effect
    are left out: refused ones, leases that change nothing, and waits that ended early because of another event.
    ``unpack`` of :mod:`gpusched_env.leaderboard.columns` gives arrays.

    Attributes
    ----------
    kinds : one letter per decision: S = Start, P = Preempt, L = Lease, W = Wait
    points : deltas of each decision's decision point. Points of a run are numbered from 0, with or without decisions
    times_ms : deltas of each decision's simulated time, rounded [ms]; for readers, and to locate where a replay differs
    jobs : deltas of the job row of each S, P and L
    gpu_counts : GPUs of each S [GPU]
    gpus : deltas of the GPU ids of all S, one gang after the other, in the order given
    until_s : exact end of each L and W [s]; null = inf, no lease
    shares : of each S, 1 = another job holds one of its GPUs at the start; empty = all are 0
    sub_steps : gradient-accumulation sub-steps of each S, 0 = not named; empty = all are 0
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
    """One seed: the problem, the decisions, and the results that they are claimed to have.

    Attributes
    ----------
    seed : one of the track's report seeds
    instance, workload : SHA-256 of the drawn problem, and of its jobs alone
    metrics : :data:`gpusched_env.metrics.COLUMNS` by name, null = undefined
    bounds : lower bounds, ``mean_jct_s`` and ``makespan_s`` [s]
    digest : SHA-256 of the event log
    decisions : the decisions of the run
    """

    seed: _Count
    instance: _Sha256
    workload: _Sha256
    metrics: _Numbers
    bounds: _Numbers
    digest: _Sha256
    decisions: Decisions


class Player(Schema, frozen=True):
    """The scheduler.

    Attributes
    ----------
    spec : scheduler as given to ``--scheduler``; the verifier never runs it
    name, parameters : name and parameters of the scheduler
    clairvoyant : whether it read true run times, or anything else that a real cluster does not know
    """

    spec: _Name
    name: _Name
    parameters: Annotated[dict[_Name, _Parameter], msgspec.Meta(max_length=100)]
    clairvoyant: bool


class About(Schema, frozen=True):
    """Description of the entry in its authors' words. Nothing here can be verified.

    Attributes
    ----------
    title : title of the entry in tables
    authors : names
    how : what the scheduler does, and how it was trained and chosen
    hardware : hardware of training and runs, and for how long
    training_seeds : half-open ranges ``(first, end)`` of the seeds used for training, or by the authors for choosing
    link : http or https address of code or paper, or empty
    licence : licence of the entry, an SPDX identifier such as CC-BY-4.0
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
    version : version of gpusched-env that made the entry; for readers
    results_version : version of the results, :data:`gpusched_env.scenarios.RESULTS_VERSION`
    track : name of the track
    fingerprint : SHA-256 of the track: scenario, seeds, rules
    player, about : the scheduler, and the authors' description
    runs : one for each report seed of the track, in order
    sha256 : the seal, SHA-256 of the whole entry with this field empty
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
        """The entry as JSON, in the only encoding that is accepted."""
        return msgspec.json.encode(self, order="deterministic")

    def seal(self) -> str:
        """SHA-256 over everything but the seal itself."""
        return hashlib.sha256(msgspec.structs.replace(self, sha256="").text()).hexdigest()

    def sealed(self) -> Entry:
        """The same entry with its seal in ``sha256``."""
        return msgspec.structs.replace(self, sha256=self.seal())
