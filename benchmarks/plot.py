"""The figures as one picture: how far each value is from its target, on a scale by powers. SVG by hand, no library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, LABEL, LINE, TOP = 980, 430, 22, 56
LOWEST, HIGHEST = 0.03, 30.0
MET, MISSED = "#2c7a4b", "#b3452c"
FONT = 'font-family="sans-serif" font-size="12"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One value with its target, which is not 0."""

    label: str
    value: float
    target: float

    @property
    def of_target(self) -> float:
        return self.value / self.target


def picture(title: str, bars: Sequence[Bar]) -> str:
    """An SVG document with a bar for each value; the line in the middle is its target."""
    height = TOP + LINE * len(bars) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="22" {FONT} font-weight="bold">{escape(title)}</text>',
        *(_tick(factor, height) for factor in (0.1, 1, 10)),
        *(_bar(bar, TOP + LINE * number) for number, bar in enumerate(bars)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(of_target: float) -> float:
    share = math.log(min(max(of_target, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return LABEL + share * (WIDTH - LABEL - 90)


def _tick(factor: float, height: int) -> str:
    x, text = _x(factor), "target" if factor == 1 else f"{factor:g} x target"
    colour = "black" if factor == 1 else "#bbbbbb"
    return (
        f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 14}" stroke="{colour}"/>'
        f'<text x="{x:.1f}" y="{TOP - 12}" {FONT} text-anchor="middle">{text}</text>'
    )


def _bar(bar: Bar, y: int) -> str:
    colour, end = MET if bar.of_target <= 1 else MISSED, _x(bar.of_target)
    return (
        f'<text x="{LABEL - 8}" y="{y + 14}" {FONT} text-anchor="end">{escape(bar.label)}</text>'
        f'<rect x="{LABEL}" y="{y + 3}" width="{max(1.0, end - LABEL):.1f}" height="{LINE - 8}" fill="{colour}"/>'
        f'<text x="{end + 5:.1f}" y="{y + 14}" {FONT}>{bar.value:.3g} of {bar.target:g}</text>'
    )
