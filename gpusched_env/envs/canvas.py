"""A canvas of pixels with rectangles, text and axes: what a frame needs, in a few milliseconds."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

Colour = tuple[int, int, int]
BLACK: Final[Colour] = (0, 0, 0)
WHITE: Final[Colour] = (255, 255, 255)
TITLE, NORMAL, SMALL, TINY = 14, 12, 10, 8  # sizes of text [pixel]


class Panel(NamedTuple):
    """A rectangle with axes, in pixels; right and bottom are outside."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Pixels from left to right."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Pixels from top to bottom."""
        return self.bottom - self.top

    @property
    def centre(self) -> tuple[int, int]:
        """Pixel in the middle."""
        return (self.left + self.right) // 2, (self.top + self.bottom) // 2


@functools.cache
def _font(size: int) -> Any:
    import matplotlib
    from PIL import ImageFont

    path = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def text_width(text: str, size: int) -> int:
    """Return the width of a text [pixel]."""
    return math.ceil(_font(size).getlength(text))


class Canvas:
    """A white image to draw on.

    Raises
    ------
    ImportError : matplotlib, which brings Pillow and the font, is missing
    """

    def __init__(self, width: int, height: int) -> None:
        import matplotlib  # noqa: F401
        from PIL import Image, ImageDraw

        self._image = Image.new("RGB", (width, height), WHITE)
        self._draw = ImageDraw.Draw(self._image)

    def pixels(self) -> np.ndarray:
        """Return a copy of the image, uint8 [height, width, 3]."""
        return np.array(self._image)

    def paste(self, pixels: np.ndarray, left: int, top: int) -> None:
        """Put pixels, uint8 [height, width, 3], at a place."""
        from PIL import Image

        self._image.paste(Image.fromarray(pixels), (left, top))

    def fill(self, panel: Panel, colour: Colour) -> None:
        """Fill a rectangle."""
        if panel.width > 0 and panel.height > 0:
            self._draw.rectangle((panel.left, panel.top, panel.right - 1, panel.bottom - 1), colour)

    def frame(self, panel: Panel) -> None:
        """Draw the outline of a panel."""
        self._draw.rectangle((panel.left - 1, panel.top - 1, panel.right, panel.bottom), None, BLACK)

    def text(self, x: float, y: float, text: str, size: int, anchor: str = "mm", colour: Colour = BLACK) -> None:
        """Write a text; the anchor is Pillow's: l, m or r and t, m or b."""
        self._draw.text((x, y), text, colour, _font(size), anchor)

    def upward_text(self, x: int, y: int, text: str, size: int) -> None:
        """Write a text from below upwards, centred at (x, y)."""
        from PIL import Image, ImageDraw

        label = Image.new("RGB", (text_width(text, size) + 4, size + 6), WHITE)
        ImageDraw.Draw(label).text((label.width / 2, label.height / 2), text, BLACK, _font(size), "mm")
        label = label.rotate(90, expand=True)
        self._image.paste(label, (x - label.width // 2, y - label.height // 2))

    def tick_below(self, panel: Panel, x: int, label: str) -> None:
        """Draw a tick and its label below a panel."""
        self.fill(Panel(x, panel.bottom, x + 1, panel.bottom + 5), BLACK)
        self.text(x, panel.bottom + 8, label, NORMAL, "mt")

    def tick_beside(self, panel: Panel, y: int, label: str, size: int = NORMAL) -> None:
        """Draw a tick and its label to the left of a panel."""
        self.fill(Panel(panel.left - 5, y, panel.left, y + 1), BLACK)
        self.text(panel.left - 8, y, label, size, "rm")


def ticks(most: float, count: int, least_step: float = 0.0) -> Iterator[tuple[float, str]]:
    """Yield at most ``count`` + 1 round numbers from 0 to ``most`` and their labels; steps are 1, 2 or 5 times 10^k."""
    step = max(most / count, least_step)
    power = 10.0 ** math.floor(math.log10(step))
    step = next(nice * power for nice in (1, 2, 5, 10) if nice * power >= step * (1 - 1e-9))
    places = max(0, -math.floor(math.log10(step)))
    for number in range(math.floor(most / step * (1 + 1e-9)) + 1):
        yield number * step, f"{number * step:.{places}f}"
