"""Write docs/observation_and_action.md from the environment's own tables.

python -m gpusched_env.envs.observation.columns_page > docs/observation_and_action.md
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.observation.columns import LINK_TABLES, TABLES, Column, markdown_rows
from gpusched_env.envs.observation.sharing_columns import SHARING_TABLES
from gpusched_env.envs.observation.size_columns import SIZE_TABLES
from gpusched_env.envs.observation.tenant_columns import TENANT_TABLES
from gpusched_env.envs.observation.type_columns import TYPE_TABLES
from gpusched_env.envs.registration import ENVIRONMENTS
from gpusched_env.envs.rewards import COMPONENTS
from gpusched_env.simulator import PLACEMENT_RULES


class _Section(NamedTuple):
    """Arrays of observations that appear together: their columns, and the shape of each with what a row stands for."""

    heading: str
    text: str
    tables: Mapping[str, tuple[Column, ...]]
    shapes: dict[str, str]


_SECTIONS: Final = (
    _Section(
        "## Observations",
        """
        All values are float32 in [0, 1]. The row of an empty slot is all zeros. If the scenario varies
        (`gpusched/Family-v0`), the arrays have the shapes of the largest problem, and the rows of nodes, links and
        GPU types that a problem lacks are all zeros.
        """,
        TABLES,
        {
            "queue": "[K, {}], one row per queue slot (`queue_window` = K; `queue_order` chooses the jobs)",
            "running": "[V, {}], one row per running slot (`running_window` = V; `running_order` chooses the jobs)",
            "nodes": "[N, {}], one row per node",
            "links": "[3, {}], one row per tier: machine, rack, network",
            "cluster": "[{}]",
        },
    ),
    _Section(
        "### Where the network is a topology",
        """
        `links` then has the columns below, and the observation has `flows` as well. Links are in the order of
        `instance.links`, which holds their names. Rates are those of the gangs that hold GPUs after the latest
        decision. The contention models `none`, `flat`, `table` and `budget` have no link rates; under them, a load
        is what the gangs would send if each ran alone.
        """,
        LINK_TABLES,
        {
            "links": "[L, {}], one row per link",
            "flows": "[V, {}], one row per running slot, as in `running`",
        },
    ),
    _Section(
        "### Where GPUs are of several types, or gangs may run in copies",
        """
        There are T GPU types, in the order of `instance.cluster.gpu_types`. A rate on a type is the rate on the
        tightest tier whose machines of that type can hold the gang, on an idle network.
        """,
        TYPE_TABLES,
        {
            "queue_types": "[K T, {}], one row per queue slot and GPU type: row k T + t",
            "forks": "[K, {}], one row per queue slot",
            "running_types": "[V T, {}], one row per running slot and GPU type: row v T + t",
            "copies": "[V, {}], one row per running slot",
            "node_types": "[N, {}], one row per node",
            "types": "[T, {}], one row per GPU type",
        },
    ),
    _Section(
        "### Where jobs may share GPUs",
        """
        S is at least 1: without `sub_batches`, only the whole batch is shown. xi is the slowdown of sharing:
        iteration time beside the other job / iteration time alone, on the GPU type of the running gang's first GPU.
        """,
        SHARING_TABLES,
        {
            "sub_batches": "[K S, {}], one row per queue slot and sub-batch: row k S + s",
            "company": "[V, {}], one row per running slot",
            "partners": "[C, {}], one row per partner slot, columns as in `company`",
            "pairs": "[K C, {}], one row per queue slot and partner slot: row k C + i",
            "seats": "[{}]",
        },
    ),
    _Section(
        "### Where actions choose the sizes of elastic jobs",
        """
        `sizes` are the S numbers of GPUs that an action can name. A rigid job has one row that is not 0. `queue`,
        `running` and the other arrays show a running gang at its present size, and a waiting job at the size that it
        requests.
        """,
        SIZE_TABLES,
        {
            "queue_sizes": "[K S, {}], one row per queue slot and size: row k S + s",
            "running_sizes": "[V S, {}], one row per running slot and size: row v S + s, columns as in `queue_sizes`",
        },
    ),
    _Section(
        "### Where tenants are shown",
        """
        With `tenant_window` > 0. Parents come before their children; the root has no row. What a tenant above others
        holds and asks for is that of all tenants below it.
        """,
        TENANT_TABLES,
        {
            "tenants": "[Q, {}], one row per tenant (`tenant_window` = Q), in the order of the tree",
            "queue_tenants": "[K, {}], one row per queue slot: the row of its job's tenant in `tenants`",
            "running_tenants": "[V, {}], one row per running slot, likewise",
        },
    ),
)


def page() -> str:
    """Return the page as Markdown."""
    document = inspect.cleandoc(ClusterEnv.__doc__ or "")
    sections = {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in document.split("## ")[1:]}
    lines = [
        "# Observations, actions and rewards of the environments",
        "",
        "Generated by `python -m gpusched_env.envs.observation.columns_page`; a test checks that it is up to date.",
        "",
        "All environments are of one class and differ only in their default arguments. `make` accepts other values.",
        "",
        "| id | arguments |",
        "|---|---|",
        *(f"| `{name}` | {_written(arguments)} |" for name, arguments in ENVIRONMENTS.items()),
        "",
        "## Actions",
        "",
        sections["Action Space"],
        "",
        "Placement rules (`rules`):",
        "",
        "| rule | which GPUs the gang gets |",
        "|---|---|",
        *(f"| `{name}` | {meaning} |" for name, meaning in PLACEMENT_RULES.items()),
    ]
    for section in _SECTIONS:
        lines += ["", section.heading, "", inspect.cleandoc(section.text)]
        for key, shape in section.shapes.items():
            lines += _table(key, shape, section.tables[key])
    lines += ["", "## Rewards", "", sections["Rewards"], "", "| component | return of an episode |", "|---|---|"]
    lines += [f"| `{name}` | {component.meaning} |" for name, component in COMPONENTS.items()]
    lines += ["", "## Episode", "", sections["Starting State"], "", sections["Episode End"]]
    return "\n".join(lines) + "\n"


def _written(arguments: dict[str, Any]) -> str:
    return ", ".join(f"`{name}={value!r}`" for name, value in arguments.items()) or "the defaults"


def _table(key: str, shape: str, columns: tuple[Column, ...]) -> list[str]:
    return ["", f"### `{key}` {shape.format(len(columns))}", "", *markdown_rows(columns)]


if __name__ == "__main__":
    print(page(), end="")
