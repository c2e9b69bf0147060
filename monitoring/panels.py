"""The dashboard's panels, from the samples of a week.

Rule: what a panel shows, grafana.json shows from the same metrics; per minute or day here, where a week is slow.
"""

from chart import FAINT, INK, Panel, page, text, tile
from week import MONDAY

STORES = {"orders": "#2f6db5", "payments": "#d9822b", "clicks": "#3d9a6b"}
SEVERITIES = {"info": "#8ab4e8", "warning": "#e8a33d", "error": "#d1453b"}
STATES = {"current": "#2f6db5", "open": "#8fb3dd", "future": "#cfdcec", "held": "#e8a33d", "due": "#d1453b"}
BLUES = ("#dbe8f6", "#bcd4ed", "#93bae1", "#659bd1", "#3c7cbd", "#1f5f9f", "#11447a")
WIDTH, GAP = 1200, 14
DAY = 86_400


def draw(samples):
    """The whole picture."""
    return page(WIDTH, 1306, list(_parts(_Samples(samples))),
                "pg_once dashboard: seven simulated days of three stores, measured on PostgreSQL")


class _Samples:
    """Sums and rates over what was sampled."""

    def __init__(self, samples):
        self.all = samples
        self.hours = samples[-1][0]

    def sum(self, query, metric, **labels):
        """[(hour, sum over the rows with these labels)]."""
        def fits(row):
            return all(row[label] == value for label, value in labels.items())
        return [(hour, sum(row[metric] or 0 for row in rows[query] if fits(row))) for hour, rows in self.all]

    def increase(self, query, metric, **labels):
        """[(hour, increase since the sample before)]."""
        sums = self.sum(query, metric, **labels)
        return [(hour, max(0, now - before)) for (hour, now), (_, before) in zip(sums[1:], sums)]

    def rate(self, query, metric, per, **labels):
        """[(hour, increase a `per` seconds)]."""
        step = (self.all[1][0] - self.all[0][0]) * 3600
        return [(hour, value * per / step) for hour, value in self.increase(query, metric, **labels)]

    def one(self, query, metric, store):
        """[(hour, a gauge of the store, None where it is none)]."""
        def value(rows):
            return next((row[metric] for row in rows[query] if row["store"] == store), None)
        return [(hour, value(rows)) for hour, rows in self.all]


def _top(series):
    return max((value or 0 for points in series for _, value in points), default=1) or 1


def _lines(samples, place, title, axis, series, say=None, top=None):
    panel = Panel(*place, title, axis, samples.hours)
    top = panel.scale(top or _top(series.values()), **({"say": say} if say else {}))
    panel.legend([(store, STORES[store]) for store in series])
    for store, points in series.items():
        panel.line(points, top, STORES[store])
    return panel


def _parts(samples):
    third = (WIDTH - 2 * GAP - 2 * GAP) / 3
    columns = [GAP + n * (third + GAP) for n in range(3)]
    yield text(GAP + 2, 30, "pg_once", size=18, fill=INK, weight="600")
    yield text(GAP + 96, 30, "seven simulated days, three stores, PostgreSQL 18; every point by monitoring/postgres_exporter.yml")
    yield from _tiles(samples, 44)
    places = [(x, y, third, 250) for y in (150, 414) for x in columns]
    by_store = lambda make: {store: make(store) for store in STORES}
    claims = by_store(lambda s: samples.rate("pg_once_stat", "claimed_total", 60, store=s))
    duplicates = by_store(lambda s: samples.rate("pg_once_stat", "duplicates_total", 60, store=s))
    yield _lines(samples, places[0], "Claims", "claims a minute", claims).svg()
    yield _lines(samples, places[1], "Duplicates", "duplicates a minute", duplicates).svg()
    share = by_store(lambda s: [(hour, 100 * again / (again + new) if again + new else None)
                                for (hour, new), (_, again) in zip(claims[s], duplicates[s])])
    yield _lines(samples, places[2], "Share of duplicates", "% of answers", share, say=lambda v: f"{v:g} %").svg()
    yield _ages(samples, (columns[0], 414, 2 * third + GAP, 300))
    yield _retention(samples, (columns[2], 414, third, 300))
    places = [(x, y, third, 270) for y in (728, 1012) for x in columns]
    waited = by_store(lambda s: samples.increase("pg_once_stat", "wait_seconds_total", store=s))
    counted = by_store(lambda s: samples.increase("pg_once_stat", "waits_total", store=s))
    waits = by_store(lambda s: _every_three_hours(counted[s]))
    yield _lines(samples, places[0], "Waits for another transaction", "waits in 3 hours", waits).svg()
    seconds = by_store(lambda s: _every_three_hours(waited[s]))
    mean = by_store(lambda s: [(hour, 1000 * t / n if n else None) for (hour, t), (_, n) in zip(seconds[s], waits[s])])
    yield _lines(samples, places[1], "Time waited", "mean wait, ms", mean).svg()
    since = by_store(lambda s: [(hour, (MONDAY + hour * 3600 - at) / 3600) for hour, at in
                                samples.one("pg_once_store", "maintained_timestamp_seconds", s)])
    yield _lines(samples, places[2], "Last maintenance", "hours ago", since).svg()
    bytes_ = by_store(lambda s: [(hour, value / 2**20) for hour, value in samples.sum("pg_once_leaves", "bytes", store=s)])
    yield _lines(samples, places[3], "Bytes by store", "size on disk, MiB", bytes_).svg()
    yield _stacked(samples, places[4], "Leaves by state", "leaves", "pg_once_leaves", "count", "state", STATES)
    yield _stacked(samples, places[5], "Findings by severity", "rows of once.health", "pg_once_health", "findings",
                   "severity", SEVERITIES)


def _every_three_hours(points):
    """Sums of six samples each: in a single half hour there is often nothing."""
    groups = [points[n:n + 6] for n in range(0, len(points) - 5, 6)]
    return [(group[2][0], sum(value for _, value in group)) for group in groups]


def _tiles(samples, y):
    rows = samples.all[-1][1]
    fourth = (WIDTH - 2 * GAP - 3 * GAP) / 4
    at = [GAP + n * (fourth + GAP) for n in range(4)]
    green = "#3d9a6b"
    count = {s: sum(r["findings"] for r in rows["pg_once_health"] if r["severity"] == s) for s in SEVERITIES}
    yield tile(at[0], y, fourth, 92, "Findings", [(s, count[s], SEVERITIES[s] if count[s] else green)
                                                  for s in ("error", "warning", "info")])
    by_store = {r["store"]: r for r in rows["pg_once_store"]}
    yield tile(at[1], y, fourth, 92, "Days ahead", [(s, by_store[s]["days_ahead"], green) for s in STORES])
    advice = {r["store"]: r for r in rows["pg_once_retention"]}
    yield tile(at[2], y, fourth, 92, "Headroom of the retention",
               [(s, f'{(advice[s]["headroom_seconds"] or 0) / DAY:.1f} d', green) for s in STORES])
    verdict = {r["store"]: r["verdict"] for r in rows["pg_once_advice"]}
    yield tile(at[3], y, fourth, 92, "Retention the evidence supports",
               [(s, f'{advice[s]["supported_seconds"] / DAY:.1f} d' if advice[s]["supported_seconds"] else "-",
                 green if advice[s]["supported_seconds"] else FAINT) for s in verdict if s in STORES])


SHOWN = ((1, "1 s"), (15, "15 s"), (60, "1 min"), (600, "10 min"), (1800, "30 min"), (7200, "2 h"), (14_400, "4 h"),
         (28_800, "8 h"), (57_600, "16 h"), (86_400, "1 d"), (172_800, "2 d"), (259_200, "3 d"))


def _ages(samples, place):
    panel = Panel(*place, "Age of duplicates when they come", "no older than", samples.hours, pad=68)
    upto = {le: dict(samples.increase("pg_once_duplicate_age_seconds", "bucket", le=str(le))) for le, _ in SHOWN}
    hours = [hour for hour, _ in samples.all[1:]]
    rows, before = [], {}
    for le, label in SHOWN:
        rows.append((label, {hour: upto[le][hour] - before.get(hour, 0) for hour in hours}))
        before = upto[le]
    most = max(count for _, counts in rows for count in counts.values())
    panel.heat(rows, hours, most, BLUES)
    x = place[0] + 16
    panel.parts.append(text(x, place[1] + 46, "few"))
    for n, colour in enumerate(BLUES):
        panel.parts.append(f'<rect x="{x + 26 + 14 * n}" y="{place[1] + 37}" width="14" height="10" fill="{colour}"/>')
    panel.parts.append(text(x + 32 + 14 * len(BLUES), place[1] + 46, f"many ({most:,} in 30 min)"))
    return panel.svg()


def _retention(samples, place):
    panel = Panel(*place, "Oldest duplicate against retention", "days", samples.hours)
    days = lambda points: [(hour, value / DAY if value is not None else None) for hour, value in points]
    oldest = {s: days(samples.one("pg_once_retention", "oldest_duplicate_seconds", s)) for s in STORES}
    window = {s: days(samples.one("pg_once_retention", "window_seconds", s)) for s in STORES}
    top = panel.scale(_top(window.values()) * 1.1)
    panel.legend(STORES.items(), dashed="retention")
    for store, colour in STORES.items():
        panel.line(window[store], top, colour, dashed=True)
        panel.line(oldest[store], top, colour)
    return panel.svg()


def _stacked(samples, place, title, axis, query, metric, label, colours):
    panel = Panel(*place, title, axis, samples.hours)
    series = [(colour, samples.sum(query, metric, **{label: value})) for value, colour in colours.items()]
    sums = [sum(points[n][1] for _, points in series) for n in range(len(samples.all))]
    top = panel.scale(max(2, *sums))
    panel.stack(series, top)
    panel.legend(colours.items())
    return panel.svg()
