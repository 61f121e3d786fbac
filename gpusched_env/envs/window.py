"""The window of ``render_mode="human"``; pygame has one for a process."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final

import numpy as np
from gymnasium.error import DependencyNotInstalled

if TYPE_CHECKING:
    from gpusched_env.envs.rendering import Drawn

HUMAN: Final = "human"


def need_window() -> None:
    """Raise DependencyNotInstalled if pygame is missing."""
    if importlib.util.find_spec("pygame") is None:
        raise DependencyNotInstalled('render_mode "human" needs pygame: pip install "gpusched-env[human]"')


def show(pixels: np.ndarray, caption: str, frame_ms: int) -> None:
    """Show a picture, uint8 [height, width, 3], for ``frame_ms``; the first one opens the window."""
    import pygame

    if not pygame.display.get_init():
        pygame.display.init()
    screen, size = pygame.display.get_surface(), pixels.shape[1::-1]
    if screen is None or screen.get_size() != size:  # that of another environment may have another size
        screen = pygame.display.set_mode(size)
    pygame.display.set_caption(caption)
    pygame.event.pump()  # the system counts a window as dead whose events nobody takes
    screen.blit(pygame.surfarray.make_surface(pixels.swapaxes(0, 1)), (0, 0))
    pygame.display.flip()
    pygame.time.wait(frame_ms)


def close(env: Drawn) -> None:
    """Close the window; environments have this method."""
    if env.render_mode == HUMAN:
        import pygame

        pygame.display.quit()
