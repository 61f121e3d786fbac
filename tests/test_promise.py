"""What docs/api.md promises: public names, ids, commands and files of a major version stay."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

import numpy as np
import pytest
from interface import FILES, KEPT, documented, interface, listed, public_modules

from gpusched_env.event_log import EventLog
from gpusched_env.leaderboard import read_entry
from gpusched_env.metrics import validate
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.support import deprecation
from gpusched_env.support.deprecation import deprecated, old_names
from gpusched_env.traces import read_kueue_quotas
from gpusched_env.twin.example import example_twin
from gpusched_env.twin.model import read_twin
from gpusched_env.twin.snapshot import read_snapshot

HOW = "Keep the old name with a warning (support/deprecation.py), or, before a release, run tests/support/interface.py."


@pytest.mark.parametrize("module", sorted(public_modules()))
def test_a_public_module_lists_its_names_and_has_them(module: str) -> None:
    names = listed(module)
    assert names
    assert documented().get(module, set()) <= set(names)
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        pytest.skip(f"{error.name} is missing")
    assert [name for name in names if not hasattr(found, name)] == []


@pytest.mark.parametrize("kind", ["names", "commands", "schedulers", "ids"])
def test_nothing_that_was_promised_is_missing(kind: str) -> None:
    kept, now = json.loads(KEPT.read_text("utf-8"))[kind], interface()[kind]
    missing = {name: gone for name, parts in kept.items() if (gone := sorted({*parts} - {*now.get(name, ())}))}
    assert not missing, f"{missing}. {HOW}"
    assert kept.keys() <= now.keys(), HOW


def test_files_that_1_0_0_wrote_say_the_same() -> None:
    tiny = get_scenario("tiny-v1")
    assert get_scenario(str(FILES / "scenario.json")) == tiny
    jobs, instance = Workload.load(FILES / "jobs.npz"), tiny.instance(0)
    assert (len(jobs), jobs.fingerprint()) == (len(instance.workload), instance.workload.fingerprint())
    with np.load(FILES / "log.npz") as arrays:
        validate(tiny.instance(tiny.seeds.report[0]), EventLog(**arrays))
    assert read_twin(FILES / "twin.json") == example_twin()
    now = read_snapshot(FILES / "now.json")
    assert (now.time_s, now.running[0].nodes) == (1735743600.0, {"n1": 8, "n2": 8})
    entry = read_entry(FILES / "a.entry.xz")
    assert (entry.track, entry.player.spec, len(entry.runs)) == ("soak", "srtf", 2)


def test_an_old_name_works_and_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "_TOLD", set())
    with pytest.warns(DeprecationWarning, match="read_kueue_tenants is now .*read_kueue_quotas.* version 2.0") as told:
        from gpusched_env.traces import read_kueue_tenants
    assert read_kueue_tenants is read_kueue_quotas
    assert [one.filename for one in told] == [__file__]
    from gpusched_env.traces import read_kueue_tenants  # no second warning, which would be an error here

    with pytest.raises(AttributeError, match="no attribute 'read_kueue'"):
        old_names("gpusched_env.traces", {})("read_kueue")


def test_a_deprecated_function_names_the_line_of_its_caller() -> None:
    def old() -> None:
        deprecated("test.old", "test.new")

    with pytest.warns(DeprecationWarning, match="test.old is now test.new") as told:
        old()
    assert [one.filename for one in told] == [__file__]
    old()


def test_a_user_sees_the_warning_without_an_option() -> None:
    """Python shows it by itself only where the line is one of the program that was started."""
    code = "from gpusched_env.traces import read_kueue_tenants\n" * 2
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("DeprecationWarning") == 1
