"""Specs of policies: read and change the parameters of a scheduler."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpusched_env.baselines.registry import make_scheduler


def with_parameters(spec: str, qos_times: float = 1.0, **changes: Any) -> str:
    """Return a spec with other parameters, and the weight of the QOS times a factor."""
    name, _, text = spec.partition(":")
    own = dict(part.split("=", 1) for part in text.split(",") if part)
    if qos_times != 1.0:
        own["qos_weight"] = written(float(make_scheduler(spec).qos_weight) * qos_times)  # type: ignore[attr-defined]
    own |= {key: written(value) for key, value in changes.items()}
    return f"{name}:{','.join(f'{key}={value}' for key, value in own.items())}" if own else name


def parameters_of(spec: str) -> dict[str, Any]:
    """Return the parameters that a spec names, or that differ from the defaults of its class, with their values."""
    scheduler = make_scheduler(spec)
    named = {part.partition("=")[0] for part in spec.partition(":")[2].split(",")}
    fields = [item for item in dataclasses.fields(scheduler) if item.init]  # type: ignore[arg-type]
    values = {item.name: getattr(scheduler, item.name) for item in fields}
    return {item.name: values[item.name] for item in fields if item.name in named or values[item.name] != item.default}


def written(value: Any) -> str:
    """Write the value of a parameter as in a spec."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)
