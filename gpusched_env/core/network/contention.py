"""The registry of contention models: how gangs that share links slow each other. Users add their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gpusched_env.core.handle import Numbered
from gpusched_env.core.registering import put_named
from gpusched_env.core.state import MODEL_FLAGS, Run
from gpusched_env.network.contention import CONTENTION_MODELS

OWN, PORTS = range(2)  # which gangs are priced when flows change: those listed; also those on changed ports


def _of_gang(sim: Run, number: int) -> None:
    raise NotImplementedError


def _at_start(sim: Run, number: int, slowest: int) -> None:
    raise NotImplementedError


def _seconds(sim: Run, number: int) -> float:
    raise NotImplementedError


def _of_all(sim: Run) -> None:
    raise NotImplementedError


# In a kernel: price(model, sim, number) and so on, where model is sim.world["contention"].
price: Final = Numbered("contention-price", _of_gang, most=len(MODEL_FLAGS))
begin: Final = Numbered("contention-begin", _at_start, most=len(MODEL_FLAGS))
alone: Final = Numbered("contention-alone", _seconds, most=len(MODEL_FLAGS))
solve: Final = Numbered("contention-solve", _of_all, most=len(MODEL_FLAGS))


def model_number(name: str) -> int:
    """Return the number of a contention model in kernels; 0 is that of a network without a topology."""
    return 1 + list(CONTENTION_MODELS).index(name)


def contention_model(
    name: str,
    meaning: str,
    *,
    reach: int = PORTS,
    at_start: Any = None,
    alone_s: Any = None,
    solver: Any = None,
    keeps_idle_flows: bool = False,
) -> Callable[[Any], Any]:
    """Register a contention model under a name, which ``Contention(model=...)`` then takes.

    It decorates a function ``(sim: Run, number: int) -> None``: a kernel, or a plain Python function where speed does
    not matter. The function prices gang ``number`` at the present flows: it sets in ``sim.replicas[number]`` the fields
    ``settled_s``, the seconds of one iteration, and ``bottleneck``, the link that bounds the gang (-1 = none). The
    result must depend on the flows only.

    Parameters
    ----------
    meaning : short description for tables
    reach : OWN = a flow that begins or ends changes no other gang (but see ``solver``); PORTS = it may change the gangs
        on its machines' ports
    at_start : ``(sim, number, slowest)`` may change the compute time and the bytes of a gang that starts; ``slowest`` =
        the GPU type that sets its pace
    alone_s : ``(sim, number) -> float``, seconds of one iteration if no other gang used the network [s]; by default
        computed from the gang's bytes on an idle network
    solver : ``(sim)`` finds the rates of all flows before gangs are priced, and lists the gangs whose rates change
    keeps_idle_flows : gangs that send no bytes still count on their links

    Raises
    ------
    GpuschedError : the name is already in use, or a kernel has another signature
    """

    def register(function: Any) -> Any:
        number = model_number(name) if name in CONTENTION_MODELS else 1 + len(CONTENTION_MODELS)
        is_taken = number < len(MODEL_FLAGS) and bool(MODEL_FLAGS["is_known"][number])
        hooks = ((price, function), (begin, at_start), (alone, alone_s), (solve, solver))
        put_named("contention model", name, is_taken, number, hooks)
        flags = (True, reach == PORTS, at_start is not None, alone_s is not None, solver is not None, keeps_idle_flows)
        MODEL_FLAGS[number] = flags
        CONTENTION_MODELS[name] = meaning  # only once it is registered without an error
        return function

    return register
