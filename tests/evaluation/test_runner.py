"""The runner: equal results for any number of processes, fresh schedulers, early errors."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterable

import joblib
import pytest

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation import evaluate
from gpusched_env.evaluation import progress as progress_module
from gpusched_env.evaluation.processes import in_processes, processes
from gpusched_env.evaluation.progress import ProgressBar
from gpusched_env.metrics import lower_bounds, summarise, validate
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import ClusterView, Decision, Scheduler, Start, simulate

SCENARIO = "tiny-v1"
SPECS = ["fifo", "srtf", "tiresias"]


class Forgetful(Scheduler):
    """A scheduler with state that must not leak between runs: it plays worse after its first run."""

    def __init__(self) -> None:
        self.decisions = 0

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        self.decisions += 1
        waiting = view.waiting
        for job in waiting[::-1] if self.decisions % 2 else waiting:
            yield Start(int(job), "pack")


def test_results_equal_simulation_metrics_and_bounds() -> None:
    found = evaluate(SCENARIO, SPECS, [0, 3], keep_logs=True, progress=False)
    assert [(r.scheduler.name, r.seed) for r in found] == [
        (make_scheduler(spec).name, seed) for spec in SPECS for seed in (0, 3)
    ]
    for result in found:
        instance = get_scenario(SCENARIO).instance(result.seed)
        assert result.log is not None
        validate(instance, result.log)
        assert result.digest == result.log.digest()
        assert result.bounds == lower_bounds(instance, result.window)
        assert result.metrics == summarise(instance, result.log, window=result.window)
        assert result.against_bound() >= 1 - 1e-9
        assert result.wall_s > 0
    alone = simulate(get_scenario(SCENARIO).instance(3), make_scheduler("srtf"))
    assert found[3].digest == alone.digest()


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    one = evaluate(SCENARIO, [*SPECS, Forgetful()], range(4), workers=1)
    two = evaluate(SCENARIO, [*SPECS, Forgetful()], range(4), workers=2)
    assert [r.as_dict() for r in one] == [r.as_dict() for r in two]
    assert one[0].log is None


def test_a_scheduler_is_copied_for_each_run() -> None:
    player = Forgetful()
    twice = [evaluate(SCENARIO, [player], [0])[0].digest for _ in range(2)]
    assert twice[0] == twice[1]
    assert player.decisions == 0


def test_the_window_is_the_scenario_s_unless_given() -> None:
    scenario = get_scenario(SCENARIO).replace(tracked_window=(2, 5))
    assert evaluate(scenario, ["fifo"], [0])[0].metrics["jobs"] == 3
    assert evaluate(scenario, ["fifo"], [0], window=(0, 4))[0].window == (0, 4)


def test_wrong_input_is_refused_before_the_first_run() -> None:
    for arguments, reason in (
        ((SCENARIO, [], [0]), "at least one scheduler"),
        ((SCENARIO, ["fifo"], []), "at least one"),
        ((SCENARIO, ["fifo", "fifi"], [0]), "did you mean"),
        (("tiny-v9", ["fifo"], [0]), "tiny-v1"),
        ((SCENARIO, "fifo,srtf", [0]), "schedulers is 'fifo,srtf'; give a list"),
        ((SCENARIO, Forgetful(), [0]), "give a list"),
        ((SCENARIO, Forgetful, [0]), "give a list"),
        ((SCENARIO, [Forgetful], [0]), "give a spec, or an object"),
        ((SCENARIO, {"mine": Forgetful}, [0]), "give a spec, or an object"),
        ((SCENARIO, ["fifo", "las", "fifo"], [0]), "two schedulers are called 'fifo'"),
        ((SCENARIO, ["fifo"], 3), "seeds is 3; give a list"),
        ((SCENARIO, ["fifo"], [1, 2, 1]), "one seed twice"),
    ):
        with pytest.raises(GpuschedError, match=reason):
            evaluate(*arguments)
    with pytest.raises(GpuschedError, match="workers"):
        evaluate(SCENARIO, ["fifo"], [0], workers=0)
    for workers in (1, 2):  # an error in a worker process is raised here
        with pytest.raises(GpuschedError, match="window 0"):
            evaluate(SCENARIO, ["fifo"], [0, 1], window=(0, 10**6), workers=workers)


@pytest.mark.parametrize(("workers", "calls"), [(1_000, 1_000), (1_000, 3), (3, 1_000), (2, 1), (1, 9), (-1, 1_000)])
def test_at_most_as_many_processes_as_cores_and_calls(workers: int, calls: int) -> None:
    asked = joblib.cpu_count() if workers == -1 else workers
    assert processes(workers, calls) == min(asked, calls, joblib.cpu_count())


def process_number(_: int) -> int:
    return os.getpid()


def test_a_thousand_workers_are_limited_to_the_cores() -> None:
    assert len(set(in_processes(process_number, [(call,) for call in range(50)], 1_000))) <= joblib.cpu_count()


KILLED = """
import os, time
from gpusched_env.evaluation.processes import in_processes
def process_number(_):
    time.sleep(0.2)
    return os.getpid()
for number in in_processes(process_number, [(call,) for call in range(1_000)], 2):
    print(number, flush=True)
"""


@pytest.mark.skipif(joblib.cpu_count() < 2 or os.name != "posix", reason="needs two cores, and a system with signals")
def test_the_processes_of_a_killed_command_end() -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert int(command.stdout.readline()) != command.pid
        command.kill()
        try:  # the workers have the pipe, too; without a check of their parent they wait for calls for ever
            command.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            pytest.fail("a worker lives on")


STOPPED = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
from gpusched_env.evaluation import Interrupted, evaluate
from gpusched_env.simulator import Scheduler
class Stops(Scheduler):
    def decide(self, view):
        os.kill(os.getpid(), signal.SIGINT)
        yield from ()
try:
    evaluate("tiny-v1", ["fifo", Stops()], [0, 1])
except Interrupted as stop:
    print([(r.label, r.seed) for r in stop.results], stop.runs, stop)
"""


def test_an_interrupt_returns_the_finished_runs() -> None:
    told = subprocess.run([sys.executable, "-c", STOPPED], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[('fifo', 0)] 4 1 of 4 runs were finished"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_late_and_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(stream: io.StringIO, delay_s: float, enabled: bool = True) -> str:
        monkeypatch.setattr(sys, "stderr", stream)
        with ProgressBar(3, enabled, delay_s) as bar:
            bar.jobs_finished("fifo, seed 0", 7, 9)
            if not delay_s and bar._timer is not None:
                bar._timer.join()  # the timer has shown the bar
            bar.run_finished()
        return stream.getvalue()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(progress_module, "REFRESH_S", -1.0)  # redraws at every call
    assert shown(Terminal(), 3600.0) == ""
    assert shown(io.StringIO(), 0.0) == ""
    assert shown(Terminal(), 0.0, enabled=False) == ""
    visible = shown(Terminal(), 0.0)
    assert "fifo, seed 0: jobs" in visible
    assert "7/9" in visible
    assert "runs" in visible
    assert progress_module.DELAY_S == 2.0


def test_importing_the_metrics_imports_nothing_heavy() -> None:
    heavy = "matplotlib", "rich", "scipy", "joblib", "numba", "pandas"
    code = (
        "import sys, gpusched_env.metrics, gpusched_env.evaluation\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
