"""Actions of an environment: what each number means, and the registry of actions that users add."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpusched_env.core.handle import Numbered, kernel
from gpusched_env.core.registering import put_named
from gpusched_env.core.state import Run
from gpusched_env.envs.env_arrays import EnvArrays
from gpusched_env.errors import GpuschedError, unknown_name

if TYPE_CHECKING:
    from gpusched_env.envs.windows import Windows
    from gpusched_env.simulator.decisions import Decision

__all__ = ["Action", "slot_action"]

START, RESIZE, PREEMPT, WAIT = "start", "resize", "preempt", "wait"
_MOST: Final = 64


@dataclass(frozen=True)
class Action:
    """What an action means.

    Parameters
    ----------
    kind : "start", "resize", "preempt", "wait", or the name of an action of ``more_actions``
    slot : number of the queue slot ("start") or running slot ("resize", "preempt"); None = a wait
    rule : placement rule of a start or a resize; None = a start beside a partner
    partner : number of the partner slot beside whose gang the job starts
    sub_batch : number of the sub-batch that a start names, the batch being halved so many times; None = it names none
    size : number of GPUs that a start or a resize names; None = it names none
    delay_s : length of a bounded wait [s]; None = until the next event
    job : row of the job that is now in the slot; None = none. It is no part of the meaning, so it need not be given
    """

    kind: str
    slot: int | None = None
    rule: str | None = None
    partner: int | None = None
    sub_batch: int | None = None
    size: int | None = None
    delay_s: float | None = None
    job: int | None = field(default=None, compare=False)


class SlotAction(NamedTuple):
    """A registered action; the fields are those of :func:`slot_action`."""

    number: int
    slots: str
    decision: Callable[[int], Decision]
    meaning: str


def _feasibility(sim: Run, env: EnvArrays, row: int) -> bool:
    raise NotImplementedError


def _decision(sim: Run, row: int) -> int:
    raise NotImplementedError


# In a kernel: may_act(number, sim, env, row) and carry_out(number, sim, row).
may_act: Final = Numbered("slot-action-feasibility", _feasibility, most=_MOST)
carry_out: Final = Numbered("slot-action-decisions", _decision, most=_MOST)
SLOT_ACTIONS: Final[dict[str, SlotAction]] = {}


def slot_action(
    name: str, slots: str, decision: Callable[[int], Decision], apply: Any, meaning: str = ""
) -> Callable[[Any], Any]:
    """Register an action about the job in a slot, which environments made with ``more_actions=(name,)`` have.

    Decorate a function ``(sim: Run, env: EnvArrays, row: int) -> bool``: a kernel, or a plain Python function where
    speed does not matter. It returns whether the action is feasible for a job that is in one of the slots now.

    Parameters
    ----------
    name : kind of the action
    slots : "queue" = one action for each queue slot; "running" = one for each running slot
    decision : makes the decision for which the action stands from the row of the job, such as ``Refuse``
    apply : the kernel ``(sim: Run, row: int) -> int`` that carries out this decision, such as that of the core
    meaning : half a sentence for the table of the documentation; empty = it has no row
    """

    def register(function: Any) -> Any:
        if slots not in ("queue", "running"):
            raise GpuschedError(f"action {name!r}: {unknown_name('slots', slots, ('queue', 'running'))}")
        is_taken = name in SLOT_ACTIONS or name in (START, RESIZE, PREEMPT, WAIT)
        put_named("action", name, is_taken, len(SLOT_ACTIONS), [(may_act, function), (carry_out, apply)])
        SLOT_ACTIONS[name] = SlotAction(len(SLOT_ACTIONS), slots, decision, meaning)
        return function

    return register


@kernel(lazy=True)
def mark_slot_actions(sim: Run, env: EnvArrays) -> int:
    """Mark the feasible ones of the registered actions, which come last; return their number."""
    choices = 0
    at = env.config["first_slot_action"]
    for i in range(len(env.slot_actions)):
        slots = env.victims if env.slot_actions[i]["running"] > 0 else env.queue
        for k in range(len(slots)):
            feasible = 1 if slots[k] >= 0 and may_act(env.slot_actions[i]["number"], sim, env, slots[k]) else 0
            env.mask[at] = feasible
            choices += feasible
            at += 1
    return choices


@kernel(lazy=True)
def act_in_slot(sim: Run, env: EnvArrays, place: int) -> int:
    """Carry out the ``place``-th of the registered actions; return the row of its job."""
    row = -1
    for i in range(len(env.slot_actions)):
        slots = env.victims if env.slot_actions[i]["running"] > 0 else env.queue
        if 0 <= place < len(slots):
            row = slots[place]
            carry_out(env.slot_actions[i]["number"], sim, row)
        place -= len(slots)
    return row


def _kinds(windows: Windows) -> Iterator[tuple[str, list[dict[str, Sequence[Any]]]]]:
    """Yield the kinds of actions in the order of their numbers, and the axes of each.

    The number of an action among those of its kind is an index in C order. An axis has the values of a field of Action,
    or of several fields, one after the other.
    """
    running = range(windows.running_window)
    place = {"rule": windows.rules, "partner": range(windows.partner_window)}
    batch: dict[str, Sequence[Any]] = {"sub_batch": range(windows.sub_batches) or (None,)}
    yield START, [{"slot": range(windows.queue_window)}, place, {"size": windows.sizes or (None,)}, batch]
    resizable = running if windows.sizes else range(0)
    yield RESIZE, [{"slot": resizable}, {"rule": windows.rules}, {"size": windows.sizes}]
    yield PREEMPT, [{"slot": running}]
    yield WAIT, [{"delay_s": (None, *windows.delays_s)}]
    for name in windows.more_actions:
        yield name, [{"slot": range(windows.slots_of(name))}]


def _length(axis: dict[str, Sequence[Any]]) -> int:
    return sum(map(len, axis.values()))


def meaning_of(windows: Windows, action: int) -> Action:
    """Return what an action means; ``action`` is the number of an action of these windows."""
    meant: dict[str, Any] = {}
    for kind, axes in _kinds(windows):
        meant = {"kind": kind}
        count = math.prod(map(_length, axes))
        if action < count:
            break
        action -= count
    for axis in reversed(axes):
        action, at = divmod(action, _length(axis))
        for name, values in axis.items():
            if 0 <= at < len(values):
                meant[name] = values[at]
            at -= len(values)
    return Action(**meant)


def number_of(windows: Windows, action: Action) -> int:
    """Return the number of an action: the inverse of :func:`meaning_of`."""
    if not isinstance(action, Action):
        raise GpuschedError(f"{action!r} is no Action; gpusched_env.envs.actions has this class")
    number = 0
    for kind, axes in _kinds(windows):
        if kind == action.kind:
            break
        number += math.prod(map(_length, axes))
    else:
        known = [kind for kind, _ in _kinds(windows)]
        raise GpuschedError(f"{action}: {unknown_name('kind', str(action.kind), known)}; more_actions names others")
    at = 0
    for axis in axes:
        at = at * _length(axis) + _index(action, axis)
    meant = meaning_of(windows, number + at)
    if meant != action:  # a field that this kind of action does not have
        unused = [one.name for one in fields(Action) if one.compare and getattr(meant, one.name) is None]
        given = ", ".join(name for name in unused if getattr(action, name) is not None)
        raise GpuschedError(f"{action}: this kind of action has no {given}; leave it out")
    return number + at


def _index(action: Action, axis: dict[str, Sequence[Any]]) -> int:
    """Return the index of a field's value among those that the windows have; of several fields, the last one given."""
    name = next((name for name in reversed(axis) if getattr(action, name) is not None), next(iter(axis)))
    values, names = axis[name], list(axis)
    try:
        return sum(len(axis[other]) for other in names[: names.index(name)]) + values.index(getattr(action, name))
    except ValueError:
        known = ", ".join(map(str, values)) if len(values) else "none"
        raise GpuschedError(
            f"{action}: {name} is {getattr(action, name)!r}, but the environment has {known}; choose one of these, or "
            "make the environment with others"
        ) from None
