"""The schema of an entry of the leaderboard: claims, and the decisions that prove them.

docs/leaderboard.md describes files and verification. An entry has no code. Its claims are not trusted:
:mod:`gpusched_env.leaderboard.verifying` replays its decisions, or plays the scheduler of the package that it names.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal

import msgspec

FORMAT: Final = "gpusched-entry-1"
MOST_RUNS: Final = 1000

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Step = Annotated[int, msgspec.Meta(ge=-(2**40), le=2**40)]
# A column has at most 2**22 steps of at most 2**40 each, so its sums fit into 64 bits.
_Counts = Annotated[list[_Count], msgspec.Meta(max_length=2**22)]
_Steps = Annotated[list[_Step], msgspec.Meta(max_length=2**22)]
_Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Name = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^[ -~]*\Z")]  # plain ASCII, one line
# Texts must not have control characters, characters that change the direction of writing, or invisible characters, so
# that two titles that look equal are equal. The list is Unicode's Default_Ignorable_Code_Point and all spaces except
# U+0020. A _Text may have line feeds.
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
    """Base class of all records; an unknown field, a missing field or a wrong type is an error."""


class Decisions(Schema, frozen=True):
    """All decisions of a run that had an effect, in their order, as columns.

    Most columns of integers are delta-encoded: a delta ("step") is the difference from the previous value of the
    column, and the first delta is the first value. Three kinds of decisions have no effect and are left out: decisions
    that were refused, leases and resizes that change nothing, and waits that ended early because of another event.
    :func:`gpusched_env.leaderboard.unpack` decodes the columns into arrays.

    Attributes
    ----------
    kinds : one letter for each decision: S = Start, P = Preempt, L = Lease, W = Wait, R = Resize,
        X = Refuse
    points : deltas of the decision point of each decision; all decision points of a run are numbered from 0, also those
        without decisions
    times_ms : deltas of the simulated time of each decision, rounded to milliseconds; used by readers and to report
        where a replay differs
    jobs : deltas of the job row of each S, P, L and R
    gpu_counts : number of GPUs of each S and R
    gpus : deltas of the GPU ids of all S and R, one gang after the other, in the order in which the decisions give them
    until_s : exact end of each L and W [s]; null = inf, no lease
    shares : one value for each S: 1 = another job holds at least one of its GPUs at the start, 0 = no other job does;
        empty = all are 0
    sub_steps : number of gradient-accumulation sub-steps of each S; 0 = not given; empty = all are 0
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
    """The run of one seed: its problem, its decisions and its claimed results.

    Attributes
    ----------
    seed : one of the report seeds of the track
    instance, workload : SHA-256 of the drawn problem, and SHA-256 of its jobs alone
    metrics : name of each of :data:`gpusched_env.metrics.COLUMNS` -> value; null = undefined. A run without decisions
        may have only some of them
    bounds : lower bounds on ``mean_jct_s`` and ``makespan_s`` [s]
    digest : SHA-256 of the event log
    decisions : the decisions of the run; null = those of the scheduler of this package that the entry names
    """

    seed: _Count
    instance: _Sha256
    workload: _Sha256
    metrics: _Numbers
    bounds: _Numbers
    digest: _Sha256
    decisions: Decisions | None


class Player(Schema, frozen=True):
    """The scheduler of an entry.

    Attributes
    ----------
    spec : spec of the scheduler as given to ``--scheduler``; the verifier plays only
        those of this package
    name, parameters : name and parameters of the scheduler
    clairvoyant : whether the scheduler read true run times, or anything else that is unknown in a real cluster
    """

    spec: _Name
    name: _Name
    parameters: Annotated[dict[_Name, _Parameter], msgspec.Meta(max_length=100)]
    clairvoyant: bool


class About(Schema, frozen=True):
    """Description of an entry by its authors; nothing in it can be verified.

    Attributes
    ----------
    title : title of the entry in tables
    authors : names of the authors
    how : description of the scheduler, and of how it was trained and chosen
    hardware : hardware on which the scheduler was trained and run, and for how long
    training_seeds : half-open ranges ``(first, end)`` of the seeds that were used for training, or by the authors to
        choose between schedulers or settings
    link : http or https address of code or paper; "" = none
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
    """An entry of the leaderboard: the claimed results of a scheduler on a track, and the decisions that prove them.

    Attributes
    ----------
    format : value of FORMAT
    version : version of gpusched-env that made the entry; not checked
    results_version : value of :data:`gpusched_env.scenarios.RESULTS_VERSION` when the entry was made
    track : name of the track
    fingerprint : SHA-256 of the scenario, seeds and rules of the track
    player : the scheduler
    about : description by the authors
    runs : one run for each report seed of the track, in the order of the seeds
    sha256 : the seal, which is the SHA-256 of the whole entry with this field empty
    """

    format: _Name
    version: _Name
    results_version: _Name
    track: _Name
    fingerprint: _Sha256
    player: Player
    about: About
    runs: Annotated[list[Run], msgspec.Meta(max_length=MOST_RUNS)]
    sha256: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""

    def text(self) -> bytes:
        """Return the entry as JSON, in the only encoding that readers accept."""
        return msgspec.json.encode(self, order="deterministic")

    def seal(self) -> str:
        """Return the SHA-256 over the whole entry except the seal."""
        return hashlib.sha256(msgspec.structs.replace(self, sha256="").text()).hexdigest()

    def sealed(self) -> Entry:
        """Return the entry with its seal in ``sha256``."""
        return msgspec.structs.replace(self, sha256=self.seal())
