"""Draw the animations of the documentation: an episode of each environment, and the cluster of the README.

python docs/animate.py

A simple agent plays: it takes the first feasible start or resize, and waits if there is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image

from gpusched_env.envs.registration import ENVIRONMENTS

MEDIA = Path(__file__).parent / "_static"
FRAMES = 40
FRAME_MS = 250
SEED = 200_002
DARKEST = 20.0


def main() -> None:
    """Write ``_static/environments/NAME.webp`` for each environment with a picture, and ``_static/cluster*.gif``."""
    for name in ENVIRONMENTS:
        frames = play(name)
        slug = name.partition("/")[2].rpartition("-")[0]
        save(frames, MEDIA / "environments" / f"{slug}.webp")
    frames = play("gpusched/Cluster-v0")
    save(frames, MEDIA / "cluster.gif")
    save([dark(frame) for frame in frames], MEDIA / "cluster_dark.gif")
    frames[FRAMES // 2].resize((360, 225)).save(MEDIA / "thumbnail.png")  # of examples that draw nothing


def play(name: str) -> list[Image.Image]:
    """Play until half of the jobs have finished, and give FRAMES pictures evenly spread over simulated time."""
    env: Any = gym.make(name, render_mode="rgb_array", disable_env_checker=True).unwrapped
    _, info = env.reset(seed=SEED)
    actions: list[int] = []
    times: list[float] = []
    world = env.simulation.arrays.world
    while world["finished"] < world["jobs"] // 2:
        actions.append(choose(env, info["action_mask"]))
        info = env.step(actions[-1])[-1]
        times.append(env.simulation.now_s)
    moments = np.linspace(0.2 * times[-1], times[-1], FRAMES)  # at first the cluster is empty
    shown = set((np.searchsorted(times, moments, side="right") - 1).clip(0).tolist())
    env.reset(seed=SEED)
    frames = []
    for step, action in enumerate(actions):
        env.step(action)
        if step in shown:
            frames.append(Image.fromarray(env.render()))
    return frames


def choose(env: Any, mask: np.ndarray) -> int:
    """Take the first feasible start or resize; else wait for the next event."""
    wait: int = env.windows.wait_action
    starts = np.flatnonzero(mask[: env.windows.first_preemption])
    return int(starts[0]) if len(starts) else wait


def dark(frame: Image.Image) -> Image.Image:
    """Exchange light and dark, and keep hues: what was white is the ground of the site's dark theme."""
    pixels = np.asarray(frame.convert("RGB")).astype(float)
    turned = pixels + 255.0 - pixels.max(axis=-1, keepdims=True) - pixels.min(axis=-1, keepdims=True)
    return Image.fromarray((DARKEST + turned * (1.0 - DARKEST / 255.0)).round().astype(np.uint8))


def save(frames: list[Image.Image], path: Path) -> None:
    """Write an animation, 720 pixels wide."""
    path.parent.mkdir(parents=True, exist_ok=True)
    small = [frame.resize((720, 720 * frame.height // frame.width), Image.Resampling.LANCZOS) for frame in frames]
    if path.suffix == ".gif":
        small = [frame.quantize(255, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE) for frame in small]
    small[0].save(path, save_all=True, append_images=small[1:], duration=FRAME_MS, loop=0, quality=70, method=6)


if __name__ == "__main__":
    main()
