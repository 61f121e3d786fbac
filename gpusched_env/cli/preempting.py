"""The cost of a preemption that an option sets."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from gpusched_env.errors import GpuschedError

if TYPE_CHECKING:
    from gpusched_env.scenarios import Scenario


def with_preemption_cost(scenario: Scenario, text: str | None) -> Scenario:
    """Return the scenario with another cost of preemption; the name of the new scenario says so."""
    from gpusched_env.errors import unknown_name
    from gpusched_env.problem.instance import PREEMPTION_COSTS
    from gpusched_env.scenarios.scenario import ONE_PROBLEM

    if text is None:
        return scenario
    if scenario.variation is not None:
        raise GpuschedError(f"--preemption-cost: the scenario draws it; {ONE_PROBLEM}")
    checkpoint, slash, restore = text.partition("/")
    try:
        seconds = (float(checkpoint), float(restore)) if slash else PREEMPTION_COSTS[text]
    except KeyError:
        raise GpuschedError(
            f"--preemption-cost: {unknown_name('cost', text, PREEMPTION_COSTS)}; or write CHECKPOINT/RESTORE in seconds"
        ) from None
    except ValueError:
        raise GpuschedError(
            f"--preemption-cost {text!r}: write the seconds of checkpoint and restore, such as 30/30"
        ) from None
    semantics = dataclasses.replace(scenario.semantics, checkpoint_s=seconds[0], restore_s=seconds[1])
    return scenario.replace(semantics=semantics, name=f"{scenario.name} + preemption cost {text}")
