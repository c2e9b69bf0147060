"""Two charts: what a new key costs by the number of live days, and how far each figure is from its target.

Rule: drawn from the results alone; every axis has a label and a unit.
"""

import os
import sys
from statistics import median

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "monitoring"))

from chart import FRAME, GRID, INK, nice, number, page, text

from targets import Figures

ONCE, PLAIN, HAND, MET, MISSED = "#0969da", "#8c959f", "#bc4c00", "#2da44e", "#cf222e"


def _frame(x, y, width, height, title):
    return [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="#ffffff" stroke="{FRAME}"/>',
            text(x + 16, y + 24, title, size=13, fill=INK, weight="600")]


def _line(x1, y1, x2, y2, colour, width=1.0, dashed=False):
    dash = ' stroke-dasharray="5 3"' if dashed else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{dash}/>'


def _panel(x, title, figures, kind, days, width=440, height=320):
    """Lines over days, with the smallest and largest of the rounds."""
    left, right, top, bottom = x + 58, x + width - 24, 76, height - 54
    sides = [("once", "pg_once", ONCE), ("plain", "(a) ON CONFLICT", PLAIN), ("hand", "(b) by hand", HAND)]
    series = {}
    for side, _, _ in sides:
        found = {day: list(figures.loop("new", side, f"{kind}{day}").values()) for day in days}
        series[side] = {day: values for day, values in found.items() if values}
    # The hand-made version is named and not drawn where it would press the others flat.
    shown = [value for side in ("once", "plain") for values in series[side].values() for value in values]
    limit, step = nice(max(shown, default=1.0))
    parts = _frame(x, 8, width, height - 16, title)

    def across(day):
        return left + (right - left) * (days.index(day) + 0.5) / len(days)

    def up(value):
        return bottom - (bottom - top) * value / limit

    for n in range(round(limit / step) + 1):
        parts += [_line(left, up(n * step), right, up(n * step), GRID), text(left - 7, up(n * step) + 4, number(n * step), anchor="end")]
    parts += [text(across(day), bottom + 18, f"{day}", anchor="middle") for day in days]
    parts += [text((left + right) / 2, bottom + 34, "live days", anchor="middle"),
              text(x + 17, (top + bottom) / 2, "microseconds a new key", anchor="middle", turn=-90)]
    at = x + 16
    for side, name, colour in sides:
        if not series[side]:
            continue
        points = [(across(day), median(values), min(values), max(values)) for day, values in series[side].items()]
        off = points[-1][1] > limit
        name += f": {number(round(points[-1][1]))} us at {list(series[side])[-1]} days" if off else ""
        parts += [f'<rect x="{at}" y="46" width="10" height="10" rx="2" fill="{colour}"/>', text(at + 15, 55, name)]
        at += 15 + 6.2 * len(name) + 16
        if off:
            continue
        path = " ".join(f"{px:.1f},{up(middle):.1f}" for px, middle, _, _ in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for px, middle, low, high in points:
            parts += [_line(px, up(low), px, up(min(high, limit)), colour), f'<circle cx="{px:.1f}" cy="{up(middle):.1f}" r="3.5" fill="{colour}"/>']
    return parts


def _under(about):
    return f"PostgreSQL {about['server']}, {about['cores']} cores, {about['date']}, commit {about['commit']}, {about['plan']} run of {about['rounds']} rounds"


def days(results, about):
    """A new key by live days."""
    figures = Figures(results)
    parts = _panel(8, "A new key, natural keys", figures, "n", [1, 7, 30, 90]) + _panel(456, "A new key, random UUIDs", figures, "u", [1, 30])
    parts.append(text(16, 334, _under(about) + "; medians, lines from the smallest to the largest round"))
    return page(904, 344, parts, "Microseconds for a claim of a new key with 1 to 90 live days, beside ON CONFLICT DO NOTHING")


def targets(rows, about):
    """Each judged line as a share of what is allowed: within 1 is met."""
    parts, y, left, right, most = [], 40, 460, 790, 3.0
    unit = (right - left) / most
    for row in rows:
        parts.append(text(16, y + 12, row.name, size=12, fill=INK, weight="600"))
        y += 20
        for line in row.lines:
            parts.append(text(32, y + 11, f"{line.label} ({line.target()})"))
            share = None
            if line.figure is not None:
                limit = line.most if line.most is not None else line.least
                share = (line.figure / limit if limit else 1.0 + line.figure) if line.most is not None else limit / max(line.figure, 1e-9)
                share = 0.0 if limit == 0 and line.figure <= 0 else share
            colour = MET if line.met else MISSED
            if share is not None:
                parts.append(f'<rect x="{left}" y="{y + 2}" width="{max(2.0, unit * min(share, most)):.1f}" height="11" rx="2" fill="{colour}"/>')
            said = "not there" if share is None else f"{line.figure:,.3g}" if abs(line.figure) < 100 else f"{line.figure:,.0f}"
            parts.append(text(right + 10, y + 11, said, fill=colour))
            y += 17
        y += 8
    grid = [_line(left + unit * n, 30, left + unit * n, y, GRID) for n in (0, 2, 3)] + [_line(left + unit, 30, left + unit, y, INK, dashed=True)]
    head = _frame(4, 4, 892, y + 36, "Each figure as a share of what its target allows (shorter is better; cut off at three)")
    foot = [text(left + unit, y + 14, "target", anchor="middle"), text(16, y + 32, _under(about))]
    return page(900, y + 46, head + grid + parts + foot, "Every target of the benchmark and how far its figure is from it")
