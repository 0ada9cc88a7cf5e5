"""Charts as inline SVG. Colours are the page's: see `.chart` in page.css.

Small text sizes stay readable because the drawings are no wider than a telephone's screen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from umcqa.report.curves import Point

WIDTH = 420
_LEFT, _RIGHT, _BAR, _LABEL, _GAP = 8, 8, 12, 18, 12
_MOST_CHARACTERS = 44  # of a label, which stands above its bars


@dataclass(frozen=True)
class Bar:
    """A value in percent; ``ci95`` its interval, ``note`` what hovering tells besides."""

    value: float
    ci95: Sequence[float] | None = None
    note: str = ""


def draw_bars(title: str, axis: str, bars: Mapping[str, Mapping[str, Bar]]) -> str:
    """Horizontal bars from 0 to 100%, grouped under labels; a colour for each series.

    ``bars`` maps labels to series to bars. Series are named below the title if there are several.
    """
    series = list(dict.fromkeys(name for group in bars.values() for name in group))
    parts = _legend(series) if len(series) > 1 else []
    top = y = 26 if len(series) > 1 else 6
    inner = WIDTH - _LEFT - _RIGHT
    marks: list[str] = []
    for label, group in bars.items():
        marks.append(_text(_LEFT, y + 12, _shorten(label), title=label))
        y += _LABEL
        for name, bar in group.items():
            marks.append(_bar(y, bar, series.index(name), inner, f"{label}, {name}: "))
            y += _BAR + 2
        y += _GAP
    for percent in range(0, 101, 25):
        x = _LEFT + inner * percent / 100
        anchor = {0: "start", 100: "end"}.get(percent, "middle")
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{y - 4}"/>')
        parts.append(_text(x, y + 10, str(percent), f'class="tick" text-anchor="{anchor}"'))
    parts += [*marks, _text(WIDTH / 2, y + 28, axis, 'class="axis" text-anchor="middle"')]
    return _svg(title, y + 36, parts)


def _bar(y: float, bar: Bar, colour: int, inner: float, lead: str) -> str:
    width = inner * min(100.0, max(0.0, bar.value)) / 100
    told = f"{lead}{bar.value:.1f}%"
    end = width
    whisker = ""
    if bar.ci95 is not None:
        low, high = (_LEFT + inner * limit / 100 for limit in bar.ci95)
        told += f", 95% interval {bar.ci95[0]:.1f} to {bar.ci95[1]:.1f}"
        middle = y + _BAR / 2
        whisker = (
            f'<path class="whisker" d="M{low:.1f} {middle}H{high:.1f}'
            f'M{low:.1f} {y + 3}v{_BAR - 6}M{high:.1f} {y + 3}v{_BAR - 6}"/>'
        )
        end = max(end, high - _LEFT)
    if bar.note:
        told += f", {bar.note}"
    # The value stands behind the bar, or before its end where there is no room.
    fits = end + 44 < inner
    place = _LEFT + (end + 6 if fits else width - 6)
    if not fits and bar.ci95 is not None:
        place = min(place, _LEFT + inner * bar.ci95[0] / 100 - 5)
    style = 'class="value"' if fits else 'class="value inside" text-anchor="end"'
    return (
        f'<g tabindex="-1"><title>{escape(told)}</title>'
        f'<rect class="series{colour}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" '
        f'rx="2"/>{whisker}{_text(place, y + _BAR - 2, f"{bar.value:.1f}", style)}</g>'
    )


def draw_lines(
    title: str,
    axes: tuple[str, str],
    lines: Mapping[str, Sequence[Point]],
    limits: tuple[Point, Point] | None = None,
    whiskers: Sequence[tuple[float, float, float]] = (),
    guide: Sequence[Point] = (),
    height: int = 240,
) -> str:
    """Lines with dots that tell their values; ``limits`` are the least and greatest x and y.

    ``whiskers`` are vertical intervals (x, low, high), ``guide`` a dashed line to compare with.
    """
    (x0, x1), (y0, y1) = limits or _limits([point for line in lines.values() for point in line])
    left, right, top, bottom = 52, 10, 26 if len(lines) > 1 else 10, 44
    inner_width, inner_height = WIDTH - left - right, height - top - bottom

    def place(point: Point) -> Point:
        return (
            left + inner_width * (point[0] - x0) / (x1 - x0),
            top + inner_height * (1 - (point[1] - y0) / (y1 - y0)),
        )

    parts = _legend(list(lines)) if len(lines) > 1 else []
    for value in _ticks(y0, y1):
        _, y = place((x0, value))
        parts += [
            f'<line class="grid" x1="{left}" x2="{WIDTH - right}" y1="{y:.1f}" y2="{y:.1f}"/>',
            _text(left - 6, y + 4, _number(value), 'class="tick" text-anchor="end"'),
        ]
    for value in _ticks(x0, x1):
        x, _ = place((value, y0))
        anchor = "end" if x > WIDTH - right - 10 else "middle"
        style = f'class="tick" text-anchor="{anchor}"'
        parts.append(_text(x, height - bottom + 16, _number(value), style))
    parts.append(
        _text(left + inner_width / 2, height - 8, axes[0], 'class="axis" text-anchor="middle"')
    )
    middle = top + inner_height / 2
    turned = f'class="axis" text-anchor="middle" transform="rotate(-90 12 {middle:.0f})"'
    parts.append(_text(12, middle, axes[1], turned))
    if guide:
        parts.append(f'<path class="guide" d="{_path([place(point) for point in guide])}"/>')
    for x_value, low, high in whiskers:
        (x, y_low), (_, y_high) = place((x_value, low)), place((x_value, high))
        parts.append(f'<path class="whisker" d="M{x:.1f} {y_low:.1f}V{y_high:.1f}"/>')
    for number, (name, points) in enumerate(lines.items()):
        placed = [place(point) for point in points]
        parts.append(f'<path class="line line{number}" d="{_path(placed)}"/>')
        for (x, y), point in zip(placed, points, strict=True):
            told = f"{name}: {axes[0]} {_number(point[0])}, {axes[1]} {_number(point[1])}"
            parts.append(
                f'<circle class="series{number}" cx="{x:.1f}" cy="{y:.1f}" r="3">'
                f"<title>{escape(told)}</title></circle>"
            )
    return _svg(title, height, parts)


def _limits(points: Sequence[Point]) -> tuple[Point, Point]:
    """From zero, or from what is below it, to a round number above all points."""
    ends = []
    for values in zip(*points, strict=True):
        low, high = min(0.0, *values), max(0.0, *values)
        high = high if high > low else low + 1
        ticks = _ticks(low, high)
        step = ticks[1] - ticks[0]
        ends.append((math.floor(low / step) * step, math.ceil(high / step - 1e-9) * step))
    return ends[0], ends[1]


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, about five of them."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(one for one in (1, 2, 5, 10) if one * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _number(value: float) -> str:
    if value and abs(value) < 0.001:
        return f"{value:.0e}".replace("e-0", "e-")
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _legend(names: Sequence[str]) -> list[str]:
    parts = []
    x = float(_LEFT)
    for number, name in enumerate(names):
        parts.append(f'<rect class="series{number}" x="{x}" y="4" width="12" height="12" rx="2"/>')
        parts.append(_text(x + 17, 14, name))
        x += 17 + 7.5 * len(name) + 14
    return parts


def _text(x: float, y: float, text: str, attributes: str = "", title: str = "") -> str:
    told = f"<title>{escape(title)}</title>" if title and title != text else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{told}{escape(text)}</text>'


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}; the table holds the values">{"".join(parts)}</svg>'
    )
