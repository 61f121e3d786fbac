"""Files of agents that are damaged or made to harm: one line of error each, no code, little memory."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpusched_env.agents.cards import read_card, shipped_agents, shipped_folder
from gpusched_env.agents.checkpoints import MOST_BYTES, write_checkpoint
from gpusched_env.agents.learned_timers import LearnedTimers
from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import SchedulerError
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import simulate

TUNER = shipped_folder().parent / "delay_tuner.npz"


def loaded(path: Path) -> None:
    """Load the agent of a checkpoint, and its weights; a network has its windows in a file beside it."""
    path.with_name("config.json").write_text(json.dumps({"training": read_card("philly-64").training}))
    scheduler: Any = make_scheduler(f"learned:path={path}")
    if hasattr(scheduler, "_load"):
        scheduler._load()


def complaint_of(load: Callable[[], object], path: Path) -> str:
    """Return the error of loading a file, which is one line and names the file; "" = there is none."""
    try:
        load()
    except SchedulerError as error:
        message = str(error)
    else:
        return ""
    if "\n" in message or len(message) > 600 or str(path) not in message:
        pytest.fail(f"not one line that names {path}: {message}")
    return message


def refused(path: Path) -> str:
    """Return the error of a checkpoint, which must have one."""
    message = complaint_of(partial(loaded, path), path)
    assert message
    return message


def parts_of(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return metadata and arrays of a checkpoint."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("metadata").tobytes()), arrays


def written(path: Path, metadata: bytes, **arrays: np.ndarray) -> Path:
    """Write a checkpoint with any metadata."""
    np.savez(path, metadata=np.frombuffer(metadata, np.uint8), **arrays)
    return path


@pytest.mark.parametrize("name", shipped_agents())
def test_no_flipped_byte_of_an_agent_is_played(name: str, tmp_path: Path) -> None:
    """A flip that the reader does not notice (in a date of the archive, say) leaves all weights as they were."""
    data = (shipped_folder() / f"{name}.npz").read_bytes()
    before = parts_of(shipped_folder() / f"{name}.npz")
    generator = np.random.default_rng(0)
    path = tmp_path / "model.npz"
    for at in generator.integers(0, len(data), 40):
        path.write_bytes(data[:at] + bytes([data[at] ^ int(generator.integers(1, 256))]) + data[at + 1 :])
        if complaint_of(partial(loaded, path), path):
            continue
        metadata, arrays = parts_of(path)
        assert metadata == before[0]
        for key, array in before[1].items():
            if array.size:  # an agent may do without empty arrays
                np.testing.assert_equal(arrays[key], array)


@pytest.mark.parametrize("metadata", [b"", b"[]", b"[1]", b"null", b"{}", b'{"format": 3}', b"[" * 100_000, b"\xff"])
def test_strange_metadata_are_refused(metadata: bytes, tmp_path: Path) -> None:
    refused(written(tmp_path / "model.npz", metadata, weights=np.zeros(3)))


def test_files_that_are_no_archive_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    for content in (b"", b"text", b"PK\x03\x04", b"PK\x03\x04" + bytes(1000)):
        path.write_bytes(content)
        refused(path)
    with path.open("wb") as stream:
        np.save(stream, np.zeros(3))
    assert "no .npz" in refused(path)
    np.savez(path, metadata=np.array([{"format": "gpusched-index-policy-1"}], dtype=object))
    refused(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_that_says_less_than_it_holds_takes_no_memory(method: int, tmp_path: Path) -> None:
    """The size in the headers is a claim: 200 MB of zeros claim to be 100 bytes."""
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("metadata.npy", bytes(200_000_000))
    size = (200_000_000).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (100).to_bytes(4, "little")))
    tracemalloc.start()
    try:
        refused(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_what_an_array_says_of_its_size_is_checked_before_memory_is_taken(tmp_path: Path) -> None:
    part = io.BytesIO()
    np.lib.format.write_array_header_1_0(part, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.npy", part.getvalue() + bytes(80))
    assert "is not an array of" in refused(path)


LIMITED = """
import resource, sys
import gpusched_env.agents.network
from pathlib import Path
from tests.agents.test_checkpoints import refused
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
print(refused(Path(sys.argv[1])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is that of Linux")
def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    """4 GB of zeros take 4 MB in the archive; and a network that says it has 8 GB of weights has none of them."""
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("metadata.npy", "w") as part:
        for _ in range(16):
            part.write(bytes(1 << 25))
    assert path.stat().st_size < 1_000_000
    wide = tmp_path / "wide.npz"
    metadata, arrays = parts_of(shipped_folder() / "philly-64.npz")
    write_checkpoint(wide, metadata | {"width": 40_000}, arrays)
    for one, why in ((path, f"more than {MOST_BYTES:,}"), (wide, "not those of its layout")):
        run = subprocess.run(
            [sys.executable, "-c", LIMITED, one],
            check=False,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert why in run.stdout, run.stderr


@pytest.mark.parametrize("name", shipped_agents())
def test_metadata_and_arrays_of_other_kinds_are_refused_or_played(name: str, tmp_path: Path) -> None:
    """The digest of the weights is made again, so that only the checks of their meaning are left."""
    metadata, arrays = parts_of(shipped_folder() / f"{name}.npz")
    path = tmp_path / "model.npz"
    instance = get_scenario("tiny-v1").instance(0)
    changes: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = []
    for key in metadata.keys() - {"format", "about", "weights_sha256"}:
        changes += [(metadata | {key: value}, arrays) for value in (None, [], {}, "x", -1, 1e300, [[["x"]]])]
    for key, array in arrays.items():
        changes += [
            (metadata, arrays | {key: value}) for value in (array.ravel()[:0], array.ravel()[:1], np.array("x"))
        ]
        changes += [(metadata, arrays | {key: np.full_like(array, value)}) for value in (np.nan, np.inf)]
        changes.append((metadata, {other: value for other, value in arrays.items() if other != key}))
    for about, weights in changes[:: max(len(changes) // 40, 1)]:
        write_checkpoint(path, about, weights)
        if not complaint_of(partial(loaded, path), path):
            with contextlib.suppress(SchedulerError):  # an agent of another kind of scenario says so
                simulate(instance, make_scheduler(f"learned:path={path}"), seed=0)


def test_a_delay_tuner_is_read_by_the_same_rules(tmp_path: Path) -> None:
    data = TUNER.read_bytes()
    path = tmp_path / "tuner.npz"
    for at in range(0, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
        complaint_of(partial(LearnedTimers.load, str(path)), path)
    for metadata in (b"[]", b"[" * 100_000, b"{}"):
        with pytest.raises(SchedulerError, match=r"tuner\.npz: not a delay tuner"):
            LearnedTimers.load(str(written(path, metadata)))
