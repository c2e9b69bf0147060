"""Plain charts as SVG: lines, stacked steps, a heatmap, tiles. Standard library only.

Rule: every axis has a label and a unit, and one name has one colour wherever it is drawn.
"""

from html import escape

INK, FAINT, GRID, FRAME = "#24292f", "#6e7781", "#e7eaee", "#d0d7de"
PAD_LEFT, PAD_TOP, PAD_RIGHT, PAD_BOTTOM = 56, 62, 16, 34


def text(x, y, words, size=11, fill=FAINT, anchor="start", weight="normal", turn=None):
    """A line of text."""
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn is not None else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
            f'font-weight="{weight}"{turned}>{escape(str(words))}</text>')


def nice(top):
    """A round number no less than top, and the step of its grid lines."""
    magnitude = 1.0
    while magnitude * 10 <= top:
        magnitude *= 10
    while magnitude > top and top > 0:
        magnitude /= 10
    for steps in (1, 1.5, 2, 3, 4, 5, 6, 8, 10):
        if magnitude * steps >= top:
            return magnitude * steps, magnitude * steps / (3 if steps in (1.5, 3, 6) else 4 if steps in (2, 4, 8) else 5)
    return magnitude * 10, magnitude * 2


def number(value):
    """As short as it can be said."""
    return f"{value:g}" if value < 10_000 else f"{value / 1000:g}k"


class Panel:
    """One chart of a week: days from left to right."""

    def __init__(self, x, y, width, height, title, axis, hours, pad=PAD_LEFT):
        self.x, self.y, self.hours = x, y, hours
        self.left, self.right = x + pad, x + width - PAD_RIGHT
        self.top, self.bottom = y + PAD_TOP, y + height - PAD_BOTTOM
        self.parts = [
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="#ffffff" stroke="{FRAME}"/>',
            text(x + 16, y + 24, title, size=13, fill=INK, weight="600"),
            text(x + 17, (self.top + self.bottom) / 2, axis, anchor="middle", turn=-90),
        ]
        self._days()

    def at(self, hour):
        """Where an hour is."""
        return self.left + (self.right - self.left) * hour / self.hours

    def up(self, value, top):
        """How high a value is."""
        return self.bottom - (self.bottom - self.top) * min(value, top) / top

    def _days(self):
        for day, name in enumerate(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")):
            x = self.at(24 * day)
            self.parts.append(f'<line x1="{x:.1f}" y1="{self.top}" x2="{x:.1f}" y2="{self.bottom}" stroke="{GRID}"/>')
            self.parts.append(text(self.at(24 * day + 12), self.bottom + 18, name, anchor="middle"))

    def scale(self, top, say=number):
        """Grid lines with their values; gives the top."""
        top, step = nice(top)
        for n in range(round(top / step) + 1):
            y = self.up(step * n, top)
            self.parts.append(f'<line x1="{self.left}" y1="{y:.1f}" x2="{self.right}" y2="{y:.1f}" stroke="{GRID}"/>')
            self.parts.append(text(self.left - 7, y + 4, say(step * n), anchor="end"))
        return top

    def legend(self, names, dashed=None):
        """Names with their colours, in one line under the title."""
        x = self.x + 16
        for name, colour in names:
            self.parts.append(f'<rect x="{x}" y="{self.y + 37}" width="10" height="10" rx="2" fill="{colour}"/>')
            self.parts.append(text(x + 15, self.y + 46, name))
            x += 15 + 6.4 * len(name) + 16
        if dashed:
            self.parts.append(f'<line x1="{x}" y1="{self.y + 42}" x2="{x + 18}" y2="{self.y + 42}" stroke="{FAINT}" '
                              f'stroke-width="1.5" stroke-dasharray="5 3"/>')
            self.parts.append(text(x + 23, self.y + 46, dashed))

    def line(self, points, top, colour, dashed=False):
        """A line through (hour, value); None leaves a gap."""
        run, runs = [], []
        for hour, value in points:
            if value is None:
                runs, run = runs + [run], []
            else:
                run.append(f"{self.at(hour):.1f},{self.up(value, top):.1f}")
        style = ' stroke-dasharray="5 3" opacity="0.75"' if dashed else ""
        for run in [*runs, run]:
            if run:
                self.parts.append(f'<polyline points="{" ".join(run)}" fill="none" stroke="{colour}" stroke-width="1.6" '
                                  f'stroke-linejoin="round"{style}/>')

    def stack(self, series, top):
        """Stacked steps: [(colour, [(hour, value)])] from the bottom up."""
        below = [0.0] * len(series[0][1])
        for colour, points in series:
            above = [low + (value or 0) for low, (_, value) in zip(below, points)]
            hours = [hour for hour, _ in points]
            path = self._steps(hours, above, top) + list(reversed(self._steps(hours, below, top)))
            if any(value for _, value in points):
                self.parts.append(f'<polygon points="{" ".join(path)}" fill="{colour}" fill-opacity="0.75"/>')
            below = above

    def _steps(self, hours, values, top):
        path = []
        for n, (hour, value) in enumerate(zip(hours, values)):
            until = hours[n + 1] if n + 1 < len(hours) else hour
            path += [f"{self.at(hour):.1f},{self.up(value, top):.1f}", f"{self.at(until):.1f},{self.up(value, top):.1f}"]
        return path

    def heat(self, rows, columns, most, colours):
        """Cells: rows are (label, {hour: count}) from the bottom up; an hour's cell ends there."""
        height, step = (self.bottom - self.top) / len(rows), columns[1] - columns[0]
        cells = {colour: [] for colour in colours}
        for n, (label, counts) in enumerate(rows):
            y = self.bottom - height * (n + 1)
            self.parts.append(text(self.left - 7, y + height / 2 + 4, label, size=10, anchor="end"))
            # Neighbours of one colour are one rectangle.
            runs = []
            for hour in columns:
                count = counts.get(hour, 0)
                shade = min(len(colours) - 1, int((count / most) ** 0.45 * len(colours))) if count > 0 else None
                if runs and runs[-1][0] == shade:
                    runs[-1][2] = hour
                else:
                    runs.append([shade, hour - step, hour])
            for shade, since, until in runs:
                if shade is not None:
                    width = self.at(until) - self.at(since)
                    cells[colours[shade]].append(f"M{self.at(since):.1f} {y + 0.5:.1f}h{width:.1f}v{height - 1:.1f}h-{width:.1f}z")
        self.parts += [f'<path d="{"".join(path)}" fill="{colour}"/>' for colour, path in cells.items() if path]

    def svg(self):
        """What was drawn."""
        return "\n".join(self.parts)


def tile(x, y, width, height, title, lines):
    """A number or a few: (label, value, colour)."""
    parts = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="#ffffff" stroke="{FRAME}"/>',
             text(x + 16, y + 24, title, size=13, fill=INK, weight="600")]
    share = (width - 32) / len(lines)
    for n, (label, value, colour) in enumerate(lines):
        parts.append(text(x + 16 + share * n, y + 58, value, size=22, fill=colour, weight="600"))
        parts.append(text(x + 16 + share * n, y + 76, label))
    return "\n".join(parts)


def page(width, height, parts, description):
    """The whole drawing."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n'
            f"<title>{escape(description)}</title>\n"
            f'<rect width="{width}" height="{height}" fill="#f6f8fa"/>\n' + "\n".join(parts) + "\n</svg>\n")
