"""Read Minari datasets of episodes that a scheduler played."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import gymnasium as gym

from gpusched_env.agents.checkpoints import DAMAGED
from gpusched_env.envs.windows import Windows
from gpusched_env.errors import GpuschedError
from gpusched_env.support.files import visible

if TYPE_CHECKING:
    from minari import MinariDataset

ENVIRONMENT: Final = "gpusched/Cluster-v0"
ROOT: Final = "MINARI_DATASETS_PATH"  # environment variable: where Minari keeps its datasets


def read_dataset(name: str) -> MinariDataset:
    """Read a dataset of Minari's folder.

    Raises
    ------
    GpuschedError : there is no such dataset, or it was not written by ``tools/datasets``
    """
    minari = minari_library()
    with readable(name):
        dataset: MinariDataset = minari.load_dataset(name)
        spec = dataset.spec.env_spec
    if spec is None or spec.id != ENVIRONMENT or "scenario" not in spec.kwargs:
        raise GpuschedError(f"dataset {name!r} is not of {ENVIRONMENT}; write one by python -m tools datasets")
    return dataset


@contextlib.contextmanager
def readable(name: str) -> Iterator[None]:
    """Turn the errors that a damaged dataset gives, at any time of its reading, into one line."""
    try:
        yield
    except GpuschedError:
        raise
    except (AssertionError, gym.error.Error, *DAMAGED) as error:
        with warnings.catch_warnings():  # Minari warns of each damaged one
            warnings.simplefilter("ignore", UserWarning)
            known = ", ".join(minari_library().list_local_datasets()) or "none"
        why = visible(f"{type(error).__name__}: {error}".splitlines()[0][:200])
        raise GpuschedError(
            f"dataset {name!r} cannot be read ({why}); known: {known}. The variable {ROOT} names another folder"
        ) from error


def settings_of(name: str) -> dict[str, Any]:
    """Return the scenario of a dataset, and the fields of its windows."""
    return window_settings(read_dataset(name))


def window_settings(dataset: MinariDataset) -> dict[str, Any]:
    """Return the scenario of a dataset that was read, and the fields of its windows."""
    spec = dataset.spec.env_spec
    assert spec is not None
    fields = ["scenario", *(field.name for field in dataclasses.fields(Windows))]
    return {name: spec.kwargs[name] for name in fields if name in spec.kwargs}


def minari_library() -> Any:
    """Return the module Minari."""
    try:
        import minari
    except ImportError as error:
        raise GpuschedError('a dataset needs Minari: pip install "gpusched-env[data]"') from error
    return minari
