"""The render modes of all environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import gymnasium as gym
import numpy as np

from gpusched_env.errors import ScenarioError, unknown_name

if TYPE_CHECKING:
    from gpusched_env.envs.rendering import Drawn

RENDER_MODES: Final = ("ansi", "rgb_array")


def checked_render_mode(mode: str | None) -> str | None:
    """Return a render mode, or None for no pictures.

    Raises
    ------
    ScenarioError : an unknown mode
    """
    if mode is not None and mode not in RENDER_MODES:
        raise ScenarioError(f"render_mode: {unknown_name('render mode', mode, RENDER_MODES)}")
    return mode


def render(env: Drawn, has_begun: bool) -> str | np.ndarray | None:
    """Draw an environment's cluster: text for "ansi", uint8 [height, width, 3] for "rgb_array".

    Raises
    ------
    gymnasium.error.ResetNeeded : before the first reset
    """
    from gpusched_env.envs.picture import picture
    from gpusched_env.envs.rendering import text

    if env.render_mode is None:
        gym.logger.warn('render() without render_mode: make the environment with render_mode="ansi" or "rgb_array"')
        return None
    if not has_begun:
        raise gym.error.ResetNeeded("call reset() before render(): there is no cluster to draw")
    return text(env) if env.render_mode == "ansi" else picture(env)
