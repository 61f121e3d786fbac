"""A page for each environment id, as Gymnasium's own documentation has it, from the class and its spaces."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
from columns import markdown_rows
from gymnasium import spaces

from gpusched_env.delay_timers.columns import CLASS_COLUMNS, CLUSTER_COLUMNS
from gpusched_env.delay_timers.env import DelayTimersEnv
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.observation.column import SCALES
from gpusched_env.envs.registration import DELAY_TIMERS, ENVIRONMENTS
from gpusched_env.envs.rewards import COMPONENTS
from gpusched_env.simulator import PLACEMENT_RULES
from pages import figures
from pages.markdown import parameters, table, text_of
from pages.markdown import write as write_page

# The decision that each environment is about.
SUMMARIES = {
    "gpusched/Cluster-v0": "One cluster, any scenario: which job starts next, where, and which job is preempted.",
    "gpusched/Steady-v0": "A steady queue of gangs, run times unknown: which starts where, and which is preempted?",
    "gpusched/RingAllReduce-v0": "All jobs arrive at time 0 and contend for server ports; the makespan counts.",
    "gpusched/NetworkSensitive-v0": "Wait for a near placement, or start at once across racks with shared links.",
    "gpusched/Heterogeneous-v0": "Three GPU types whose speeds depend on the model: which job runs on which type.",
    "gpusched/Sharing-v0": "Two jobs may share a GPU: which job joins which, and with how small a sub-batch.",
    "gpusched/Elastic-v0": "On how many GPUs does each job start, and when does a running gang grow or shrink?",
    "gpusched/Tenants-v0": "Three tenants with quotas lend GPUs: whose job starts, and whose is preempted?",
    "gpusched/Pretraining-v0": "Gangs train LLMs, evaluations follow their checkpoints, nodes fail: who starts where?",
    "gpusched/Family-v0": "Another cluster, network and mix of jobs for each seed: what holds for all of them.",
    DELAY_TIMERS: "Dally schedules; the agent sets how long gangs wait for a nearer placement.",
}


def write(folder: Path) -> None:
    """Write an index and a page for each registered id."""
    for name, arguments in ENVIRONMENTS.items():
        write_page(folder / f"{slug(name)}.md", _page(name, ClusterEnv, arguments))
    figures.draw_timers(folder / figures.TIMERS)
    write_page(folder / f"{slug(DELAY_TIMERS)}.md", _page(DELAY_TIMERS, DelayTimersEnv, {}))
    write_page(folder / "index.md", _index())


def slug(name: str) -> str:
    """Name of an id's page: ``gpusched/Cluster-v0`` is on ``Cluster``."""
    return re.sub(r"-v\d+$", "", name.partition("/")[2])


def _index() -> str:
    rows = []
    for name, summary in SUMMARIES.items():
        env = gym.make(name, disable_env_checker=True).unwrapped
        rows.append([f"[`{name}`]({slug(name)}.md)", summary, _space(env.action_space), f"`{env.scenario.name}`"])
    pages = "\n".join(slug(name) for name in SUMMARIES)
    return (
        "# Environments\n\n"
        "Every environment plays the same simulator. They differ in the scenario that they start from, in the actions\n"
        "that they offer and in the reward. `gymnasium.make` takes other arguments for any of them, and\n"
        "`gymnasium.make_vec` runs hundreds of copies in one call.\n\n"
        f"{table(['id', 'the decision', 'actions', 'scenario'], rows)}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{pages}\n../observation_and_action\n```\n"
    )


def _page(name: str, cls: type[gym.Env[Any, Any]], arguments: dict[str, Any]) -> str:
    env = gym.make(name, disable_env_checker=True).unwrapped
    sections = _sections(cls)
    call = f'gymnasium.make("gpusched_env:{name}")'
    facts = [
        ["Action space", _space(env.action_space)],
        ["Observation space", _space(env.observation_space)],
        ["Scenario", f"`{env.scenario.name}`: {env.scenario.description}"],
        ["Import", f"`{call}`"],
    ]
    generated = {
        "Action Space": _rules(env) if cls is ClusterEnv else [],
        "Observation Space": _arrays(env),
        "Rewards": [table(["component", "return of an episode"], _components())] if cls is ClusterEnv else [],
        "Arguments": [
            f"`{name}` is `gpusched/Cluster-v0` with other defaults, in bold here." if arguments else "",
            table(["argument", "default", "meaning"], _arguments(cls, arguments)),
        ],
    }
    parts = [f"# {slug(name)}", _picture(name, cls), SUMMARIES[name], table(["", f"`{name}`"], facts)]
    for title, text in sections.items():
        sizes = _sizes(env) if title == "Action Space" and cls is ClusterEnv else ""
        parts += [f"## {title}", sizes, text, *generated.get(title, [])]
    return "\n\n".join(part for part in parts if part) + "\n"


def _picture(name: str, cls: type) -> str:
    if cls is DelayTimersEnv:  # it has no render mode: two schedules with extreme timers
        return (
            f"![The same jobs with timers of 0 and with infinite timers]({figures.TIMERS})\n\n"
            "The same jobs with timers of 0 (above) and with infinite timers (below). A colour is a job; hatched: no\n"
            "progress."
        )
    return f"```{{image}} ../_static/environments/{slug(name)}.webp\n:alt: An episode of {name}\n:width: 100%\n```"


def _sections(cls: type) -> dict[str, str]:
    """Cut the class docstring, which is Markdown, at its headings; the numpydoc part is left out."""
    document = inspect.cleandoc(cls.__doc__ or "")
    parts = {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in document.split("\n## ")[1:]}
    numpydoc = re.compile(r"\nParameters\n---.*", re.DOTALL)
    return {title: text_of(numpydoc.sub("", text).strip()) for title, text in parts.items()}


def _space(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Discrete):
        return f"`Discrete({space.n})`"
    if isinstance(space, spaces.Dict):
        return ", ".join(f"`{key}` {list(box.shape or ())}" for key, box in space.items())
    assert isinstance(space, spaces.Box)
    return f"`Box({space.low.min():g}, {space.high.max():g}, {space.shape}, {space.dtype})`"


def _sizes(env: Any) -> str:
    windows = env.windows
    letters = [
        ("K", "queue slots", windows.queue_window),
        ("P", "placement rules", len(windows.rules)),
        ("V", "running slots", windows.running_window),
        ("W", "bounded waits", len(windows.delays_s)),
    ]
    if windows.partner_window or windows.sub_batches:
        letters += [("C", "partner slots", windows.partner_window), ("S", "sub-batches", max(windows.sub_batches, 1))]
    if windows.sizes:
        letters.append(("S", "sizes", len(windows.sizes)))
    if windows.tenant_window:
        letters.append(("Q", "tenants", windows.tenant_window))
    sizes = ", ".join(f"{letter} = {count} {what}" for letter, what, count in letters)
    return f"With the defaults of this environment: {sizes}; {env.action_space.n} actions in all."


def _rules(env: Any) -> list[str]:
    rows = [[f"`{rule}`", PLACEMENT_RULES[rule]] for rule in env.windows.rules]
    head = ["rule", "GPUs that the gang gets"]
    return ["Placement rules of this environment; `rules` takes any others:", table(head, rows)]


def _arrays(env: Any) -> list[str]:
    """Give a section for each array that this environment shows."""
    if isinstance(env, DelayTimersEnv):
        known = {"classes": CLASS_COLUMNS, "cluster": CLUSTER_COLUMNS}
    else:
        known = {name: one.columns for name, one in env.arrays().items()}
    parts = [SCALES]
    for key, box in env.observation_space.items():
        parts += [f"### `{key}` {list(box.shape)}", "\n".join(markdown_rows(known[key]))]
    return parts


def _components() -> list[list[str]]:
    return [[f"`{name}`", component.meaning] for name, component in COMPONENTS.items()]


def _arguments(cls: type, arguments: dict[str, Any]) -> list[list[str]]:
    meanings = parameters(cls)
    rows = []
    for name, parameter in inspect.signature(cls).parameters.items():
        default = f"**`{arguments[name]!r}`**" if name in arguments else f"`{parameter.default!r}`"
        rows.append([f"`{name}`", default, meanings[name]])
    return rows
