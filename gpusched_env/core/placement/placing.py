"""Apply a placement rule: reserve a gang's GPUs, find them without reserving, or tell whether the gang fits."""

from __future__ import annotations

from gpusched_env.core.handle import helper, kernel
from gpusched_env.core.placement.parts import in_whole_parts, join_parts
from gpusched_env.core.placement.rules import place
from gpusched_env.core.placement.taking import (
    hide_unusable,
    holds_gang,
    in_parts,
    show_unusable,
    unable_somewhere,
    unreserve,
)
from gpusched_env.core.state import Run


@helper
def goes_anywhere_now(sim: Run, kind: int, rule: int) -> bool:
    """Return whether a rule places every gang of a job class for which enough GPUs are free."""
    return sim.rules[rule]["anywhere"] > 0 and not unable_somewhere(sim, kind)


@kernel
def reserve(sim: Run, at: int, kind: int, gang: int, rule: int, supply: int) -> int:
    """Reserve the GPUs of a gang of a job class by a rule and append them to ``chosen`` from ``at``.

    ``supply`` is the number of free GPUs. Returns the index after the last appended GPU: ``at + gang``, a larger index
    if the rule places several copies, or ``at`` if the rule finds no placement and reserves nothing. The rule does not
    use machines whose GPU type cannot run the class, or that are closed to it. It sees as many GPUs of a machine as
    whole parts of the gang may use; a rule that splits a part nevertheless has chosen the order of machines.
    """
    hides = unable_somewhere(sim, kind)
    if hides:
        supply -= hide_unusable(sim, kind)
    end = at
    if gang <= supply:
        end = max(place(rule, sim, at, kind, gang, supply), at)  # 0 after an error of the rule
        if end > at and in_parts(sim, kind) and not in_whole_parts(sim, kind, at, end):
            join_parts(sim, at, end)
    if hides:
        show_unusable(sim, kind)
    return end


@kernel
def look_for(sim: Run, kind: int, gang: int, rule: int) -> int:
    """Write the GPUs that :func:`reserve` would reserve now to ``chosen``; return their number, 0 = none."""
    random = sim.world["random"]
    end = reserve(sim, 0, kind, gang, rule, sim.world["free_gpus"])
    sim.world["random"] = random
    unreserve(sim, 0, end)
    return end


@kernel
def fits(sim: Run, kind: int, gang: int, rule: int) -> bool:
    """Return whether :func:`reserve` would find GPUs now."""
    supply = sim.world["free_gpus"]
    if gang > supply or goes_anywhere_now(sim, kind, rule):
        return gang <= supply
    if sim.rules[rule]["anywhere"] > 0:
        return holds_gang(sim, kind, gang)
    return look_for(sim, kind, gang, rule) > 0
