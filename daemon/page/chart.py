"""Charts as SVG with presentation attributes, so that no style attribute is needed. Pure.

Each has a text of its figures, for people who do not see it. Source: W3C, SVG 1.1, "Styling".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.page.html import Markup, join, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 120, 24
MAX_POINTS = 120
"""More would be closer than a pixel."""


def thinned(
    course: Sequence[tuple[float, float]], count: int = MAX_POINTS
) -> list[tuple[float, float]]:
    """Return at most so many points: of equal times the highest value, so that no peak is lost."""
    if len(course) <= count:
        return list(course)
    first, last = course[0][0], course[-1][0]
    step = (last - first) / count or 1.0
    found: dict[int, tuple[float, float]] = {}
    for at, value in course:
        slot = min(int((at - first) / step), count - 1)
        if slot not in found or value > found[slot][1]:
            found[slot] = (at, value)
    return list(found.values())


def sparkline(course: Sequence[tuple[float, float]], label: str) -> Markup:
    """Return a small line of at least two values; '' for fewer."""
    if len(course) < 2 or course[0][0] == course[-1][0]:
        return Markup("")
    values = [value for _, value in course]
    low, high = min(values), max(values)
    points = Markup(_points(thinned(course), (low, high), WIDTH, HEIGHT - 4, 2))
    return tag(
        "svg",
        tag(
            "polyline",
            points=points,
            fill="none",
            stroke="currentColor",
            stroke_width=1.5,
            stroke_linejoin="round",
        ),
        class_="spark",
        role="img",
        aria_label=label,
        width=WIDTH,
        height=HEIGHT,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
    )


def area(
    course: Sequence[tuple[float, float]],
    limits: Sequence[tuple[str, float]],
    label: str,
) -> Markup:
    """Return a course from 0 with horizontal lines, each of a class and a value."""
    width, height = 600, 140
    if len(course) < 2:
        return Markup("")
    high = max([value for _, value in course] + [value for _, value in limits]) * 1.05 or 1.0
    points = Markup(_points(thinned(course, 300), (0.0, high), width, height, 0))
    lines = [
        tag(
            "line",
            x1=0,
            x2=width,
            y1=round(height - value / high * height, 1),
            y2=round(height - value / high * height, 1),
            class_=name,
            stroke_width=1.5,
            stroke_dasharray="6 4",
        )
        for name, value in limits
    ]
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=width, height=height, class_="back"),
        tag("polygon", points=Markup(f"0,{height} {points} {width},{height}"), class_="area"),
        tag("polyline", points=points, fill="none", stroke="currentColor", stroke_width=2),
        join(*lines),
        class_="chart",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {width} {height}",
        preserveAspectRatio="none",
    )


def meter(ratio: float, onset_ratio: float | None, label: str) -> Markup:
    """Return a bar that is filled by a ratio, with a mark where writers are paused."""
    width = 600
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=width, height=16, class_="back"),
        tag(
            "rect",
            x=0,
            y=0,
            width=round(width * min(max(ratio, 0), 1), 1),
            height=16,
            fill="currentColor",
        ),
        None
        if onset_ratio is None
        else tag(
            "line",
            x1=round(width * min(onset_ratio, 1), 1),
            x2=round(width * min(onset_ratio, 1), 1),
            y1=0,
            y2=16,
            class_="onset",
            stroke_width=3,
        ),
        class_="meter",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {width} 16",
        preserveAspectRatio="none",
    )


def _points(
    course: Sequence[tuple[float, float]],
    span: tuple[float, float],
    width: float,
    height: float,
    margin: float,
) -> str:
    first, last = course[0][0], course[-1][0]
    low, high = span
    across = (last - first) or 1.0
    up = (high - low) or 1.0
    x, y = width / across, height / up
    bottom = margin + height
    return " ".join(
        [f"{(at - first) * x:.1f},{bottom - (value - low) * y:.1f}" for at, value in course]
    )
