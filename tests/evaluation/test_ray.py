"""The Ray backend: the results of one process, whatever happens to its workers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpusched_env.cli.app import app
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.processes import backend, in_processes

ray = pytest.importorskip("ray", reason="Ray is not installed: the extra ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of two cores that all tests share."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_a_comparison_on_ray_writes_the_bytes_of_one_process(tmp_path: Path) -> None:
    command = ["compare", "--scenario", "tiny-v1", "--schedulers", "fifo,srtf", "--seeds", "4"]
    for name, options in (("here", []), ("ray", ["--backend", "ray", "--workers", "2"])):
        done = CliRunner().invoke(app, [*command, *options, "--output", str(tmp_path / f"{name}.json")])
        assert done.exit_code == 0, done.output
    ray, here = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("ray", "here"))
    assert {**ray, "about": None} == {**here, "about": None}  # the commands differ


@pytest.mark.usefixtures("cluster")
def test_a_call_whose_worker_dies_is_made_again(tmp_path: Path) -> None:
    folder = str(tmp_path)

    def square(number: int) -> int:
        died = Path(folder) / f"died-{number}"
        if number == 3 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number

    with backend("ray"):
        found = list(in_processes(square, [(number,) for number in range(20)], workers=2))
    assert found == [number * number for number in range(20)]
    assert (tmp_path / "died-3").exists()


@pytest.mark.usefixtures("cluster")
def test_the_error_of_a_call_is_raised_as_it_was() -> None:
    def fail(number: int) -> None:
        raise GpuschedError(f"call {number} fails")

    with backend("ray"), pytest.raises(GpuschedError, match=r"^call 0 fails$"):
        list(in_processes(fail, [(0,), (1,)], workers=1))


def test_an_unknown_backend_is_refused() -> None:
    said = "--backend 'slurm': write processes, ray, or ray:ADDRESS"
    with pytest.raises(GpuschedError, match=said), backend("slurm"):
        pass
