"""Names that mean something else, too: an account and a partition ``all``; and a time without a limit."""

from pathlib import Path

import numpy as np
import pytest

from gpusched_env.errors import GpuschedError
from gpusched_env.problem.tenants import Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.slurm_files.reading import read_slurm_cluster
from gpusched_env.twin.configuration import known_policy
from gpusched_env.twin.model import grown_tree, leaf_names
from gpusched_env.twin.scoring import _rows


def test_an_account_and_a_partition_that_are_called_all() -> None:
    """Jobs that name nobody are another tenant than the account ``all``, and rows of all jobs than the partition."""
    names = {"account": ["all", "", "all", "b"], "user": ["ann", "", "", "ann"]}
    jobs = Workload.from_columns(
        arrival_s=[0, 1, 2, 3],
        gpus=[1] * 4,
        duration_s=[5] * 4,
        attributes={name: np.array(values) for name, values in names.items()},
    )
    both, one = leaf_names(jobs, ("account", "user")), leaf_names(jobs, ("account",))
    assert both.tolist() == ["all/ann", "/", "all/", "b/ann"]
    assert one.tolist() == ["all", "/", "all", "b"]
    for leaves in (both, one):
        tree = grown_tree(list(dict.fromkeys(leaves.tolist())), set())
        assert len({tenant.name for tenant in tree}) == len(tree)
        Tenants(tree)
    assert leaf_names(jobs, ("user",)).tolist() == ["ann", "all", "all", "ann"]
    rows = [(name, size) for name, size, _ in _rows(np.array(["all", "b"]), np.array(["1", "1"]))]
    assert rows == [
        ("all", "all"), ("all (partition)", "all"), ("b", "all"), ("all", "1"), ("all (partition)", "1"), ("b", "1"),
    ]  # fmt: skip


def test_an_unlimited_age_names_its_key(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("PriorityMaxAge=UNLIMITED\nNodeName=a Gres=gpu:4\nPartitionName=p Nodes=ALL\n")
    with pytest.raises(GpuschedError, match=r"slurm.conf, field 'PriorityMaxAge': 'UNLIMITED': give a time"):
        known_policy(read_slurm_cluster(tmp_path / "slurm.conf")[0])
