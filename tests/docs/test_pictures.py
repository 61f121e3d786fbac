"""Pictures of the documentation: the animation has a dark twin."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
MEDIA = ROOT / "docs" / "_static"


def test_the_animation_has_a_dark_twin_with_the_same_frames() -> None:
    image = pytest.importorskip("PIL.Image")
    light, dark = (image.open(io.BytesIO((MEDIA / name).read_bytes())) for name in ("cluster.gif", "cluster_dark.gif"))
    assert (light.n_frames, light.size) == (dark.n_frames, dark.size)
    for frame in (0, light.n_frames - 1):
        light.seek(frame)
        dark.seek(frame)
        bright, dim = (np.asarray(one.convert("RGB")).astype(int) for one in (light, dark))
        assert np.median(bright[:10]) > 245  # the ground, above the title
        assert np.median(dim[:10]) < 40
        cells = np.ptp(bright, axis=-1) > 60  # colours of jobs stay apart, as far as they were
        assert np.abs(np.ptp(bright, axis=-1) - np.ptp(dim, axis=-1))[cells].mean() < 25
    for page in ("README.md", "docs/index.md"):
        text = (ROOT / page).read_text("utf-8")
        assert text.count("_static/cluster.gif") == text.count("_static/cluster_dark.gif") == 1
