"""The spec of a scheduler object builds an equal scheduler."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from gpusched_env.baselines import BASELINES, make_scheduler
from gpusched_env.baselines.registry import LEARNED, split_name
from gpusched_env.baselines.specs import described, spec_of, takes
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import evaluate
from gpusched_env.simulator import ClusterView, Decision, Scheduler


def fields_of(scheduler: Scheduler) -> dict[str, object]:
    assert dataclasses.is_dataclass(scheduler)
    return {field.name: getattr(scheduler, field.name) for field in dataclasses.fields(scheduler) if field.init}


def changed(value: object) -> list[object]:
    """Return other values of a parameter, of its type."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, type(value)(value / 3), type(value)(1e-7)]
    if isinstance(value, tuple):
        return [tuple(sorted({*value, 123.25, 4e7 / 3}))]
    return []


@pytest.mark.parametrize("name", BASELINES)
def test_spec_of_an_object_builds_it_again(name: str) -> None:
    """For every registered scheduler, as it is and with each of its parameters changed."""
    scheduler = make_scheduler(name)
    assert spec_of(scheduler) == (name if name != LEARNED else f"{LEARNED}:general")
    for parameter, value in fields_of(scheduler).items():
        for other in changed(value):
            try:
                changed_one = make_scheduler(name, **{parameter: other})
            except GpuschedError:
                continue  # the class refuses the value
            spec = spec_of(changed_one)
            again = make_scheduler(spec)
            assert type(again) is type(changed_one), spec
            assert fields_of(again) == fields_of(changed_one), spec


def test_specs_use_the_registered_name_with_the_fewest_parameters() -> None:
    for typed, canonical in {
        "tiresias:policy=gittins,knob=8": "tiresias-g:knob=8",
        "sjf:placement=spread": "sjf:placement=spread",
        "dally:tuner=off": "dally-manual",
        "tiresias:thresholds=3250/7200,incumbents_first=on": "tiresias:thresholds=3250/7200,incumbents_first=on",
        "gpusched_env.baselines.fifo:Fifo:variant=skip": "fifo-skip",
        "learned:philly-64": "learned:philly-64",
    }.items():
        assert spec_of(make_scheduler(typed)) == canonical


def test_a_value_that_no_spec_can_write_gives_no_spec() -> None:
    scheduler = make_scheduler("sjf")
    scheduler.placement = "a,b"  # type: ignore[attr-defined]
    assert spec_of(scheduler) == ""


def test_numbers_of_numpy_are_numbers() -> None:
    """A sweep over an array has different specs."""
    specs = [spec_of(make_scheduler("tiresias", knob=knob)) for knob in np.arange(2, 4)]
    assert specs == ["tiresias:knob=2", "tiresias:knob=3"]
    assert spec_of(make_scheduler("sjf", strict=np.bool_(True))) == spec_of(make_scheduler("sjf:strict=true"))


def test_a_description_leaves_out_only_what_has_no_text() -> None:
    scheduler = make_scheduler("sjf", key="gpu-time")
    scheduler.placement = "a,b"  # type: ignore[attr-defined]
    assert described(scheduler) == f"{scheduler.name}:key=gpu-time"


class Filed(Scheduler):
    """A user's scheduler whose default argument names a file that need not exist."""

    def __init__(self, path: str = "no such file") -> None:
        Path(path).read_bytes()

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        return view.list_schedule(view.waiting, "pack")


def test_no_constructor_is_called_that_may_fail_after_a_run() -> None:
    found = evaluate("tiny-v1", [Filed(__file__), "fifo"], [1], progress=False)
    assert [run.label for run in found] == [found[0].scheduler.name, "fifo"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a\nb", "must be printable characters"),
        ("lower bound", "and not 'lower bound'"),
        ("a,b", "without a comma, colon or ="),
        ("srtf", "'srtf' is the name of another scheduler"),
        (1, "the name 1 of a scheduler: give a text"),
    ],
)
def test_names_of_a_mapping_are_checked_before_the_runs(name: str, words: str) -> None:
    for player in ("fifo", Filed(__file__)):
        with pytest.raises(GpuschedError, match=words):
            evaluate("tiny-v1", {name: player}, [1], progress=False)
    assert evaluate("tiny-v1", {"fifo": make_scheduler("fifo")}, [1], progress=False)[0].label == "fifo"


def test_names_stand_before_specs() -> None:
    assert split_name("ours = tiresias:knob=8") == ("ours", "tiresias:knob=8")
    assert split_name("tiresias:knob=8") == (None, "tiresias:knob=8")
    assert split_name("my.module:Class:knob=8") == (None, "my.module:Class:knob=8")
    assert make_scheduler("Ours=tiresias:knob=8") == make_scheduler("tiresias:knob=8")
    for text in ("=sjf", "ours=", "="):
        with pytest.raises(GpuschedError, match="write NAME=SPEC"):
            split_name(text)


def test_parameters_of_a_scheduler() -> None:
    assert takes("sjf:placement=spread", "placement")
    assert not takes("sjf", "knob")
    assert takes("none_such", "knob")  # the error is that of the scheduler
