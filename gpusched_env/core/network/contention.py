"""The registry of contention models, which say how gangs that share links slow each other down.

Users register their own models with :func:`contention_model`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gpusched_env.core.handle import Numbered
from gpusched_env.core.registering import put_named
from gpusched_env.core.state import MODEL_FLAGS, Run
from gpusched_env.network.contention import CONTENTION_MODELS

OWN, PORTS = range(2)  # gangs whose times are recomputed when flows change: the listed ones; also those on their ports


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
    """Return the number of a contention model in kernels; a network without a topology has the number 0."""
    return 1 + list(CONTENTION_MODELS).index(name)


def prepare_model(number: int) -> None:
    """Compile a model that a run will use."""
    for hook in (price, begin, alone, solve):
        hook.prepare(number)


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
    """Register a contention model under a name, so that ``Contention(model=name)`` selects it.

    Use it as a decorator of a function ``(sim: Run, number: int) -> None``. The function is a kernel, or a plain Python
    function if speed does not matter. It computes the iteration time of gang ``number`` from the present flows, and
    sets two fields of ``sim.replicas[number]``: ``settled_s``, the time of one iteration [s], and ``bottleneck``, the
    link that bounds the gang (-1 = none). The result must depend only on the flows.

    Parameters
    ----------
    name : name of the model
    meaning : short description, shown in tables
    reach : which gangs a flow affects when it begins or ends. OWN = only its own gang (but see ``solver``); PORTS =
        also the gangs on the ports of its machines
    at_start : function ``(sim, number, slowest)``, called when a gang starts; it may change the compute time and the
        bytes of the gang. ``slowest`` is the slowest GPU type of the gang
    alone_s : function ``(sim, number) -> float`` that returns the time of one iteration if no other gang used the
        network [s]. By default, this time is computed from the bytes of the gang on an idle network
    solver : function ``(sim)`` that computes the rates of all flows before iteration times are computed, and lists the
        gangs whose rates have changed
    keeps_idle_flows : whether gangs that send no bytes count as gangs on their links
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
