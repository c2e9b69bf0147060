"""What must come out: the rows of the table in docs/bench/README.md, each with its judged lines.

Rules: a target is never dropped or loosened here to make a run pass. Times and rates are judged by the
median of the ratios of the rounds, in each of which both sides ran next to each other; WAL by the bytes
of all rounds together, because index pages split in waves; what must be none, by the worst round. What
could not be measured is missed.
"""

from dataclasses import dataclass, field
from statistics import median

from clients import COUNTS


@dataclass
class Line:
    """One judged figure of a row."""

    label: str
    most: float | None = None       # the figure must be at most this,
    least: float | None = None      # or at least this
    unit: str = "x"
    values: list = field(default_factory=list)
    figure: float | None = None     # None: not there
    note: str = ""

    @property
    def met(self):
        """Whether it is."""
        if self.figure is None:
            return False
        return self.figure <= self.most if self.most is not None else self.figure >= self.least

    def target(self):
        """For people."""
        sign, limit = ("<=", self.most) if self.most is not None else (">=", self.least)
        return f"{sign} {limit:,g} {self.unit}".replace("<= 0 ", "= 0 ")

    def of(self, values, figure=None, note=""):
        """Gives it what was measured; the median of the values unless another figure is judged."""
        self.values, self.note = list(values), note
        if self.values:
            self.figure = median(self.values) if figure is None else figure
        else:
            self.note = note or "not there yet"
        return self


@dataclass
class Row:
    """A row of the table."""

    name: str
    lines: list

    @property
    def met(self):
        """A row is met when all of its lines are."""
        return all(line.met for line in self.lines)


def _ratios(above, below):
    """Of the rounds that have both."""
    return [above[n] / below[n] for n in sorted(above) if below.get(n)]


class Figures:
    """Results by round."""

    def __init__(self, results):
        self.results = results

    def loop(self, work, side, pair, what="seconds", scale=1e6):
        """{round: figure a key} of a measurement; microseconds if nothing else is said."""
        return {s["round"]: s[what] * scale / s["keys"] for s in self.results["loops"]
                if (s["work"], s["side"], s["pair"]) == (work, side, pair)}

    def tps(self, work, side, clients):
        """{round: transactions a second}."""
        return {s["round"]: s["tps"] for s in self.results["clients"] if (s["work"], s["side"], s["clients"]) == (work, side, clients)}

    def times(self, work, above, below):
        """Ratios of two (side, pair)."""
        return _ratios(self.loop(work, *above), self.loop(work, *below))

    def rates(self, work, clients, other):
        """Ratios of pg_once's transactions a second to another side's."""
        return _ratios(self.tps(work, "once", clients), self.tps(work, other, clients))


def rows(results):
    """Every row of the table, judged; for results = {"plan": .., "loops": .., "clients": .., "seals": .., ..}."""
    f = Figures(results)
    kinds = (("natural", "n"), ("uuid", "u"))
    return [
        Row("one key a call, server-side loop, 1 day", [
            Line(f"{kind} keys, to (a)", most=0.75).of(f.times("new", ("once", k + "1"), ("plain", k + "1"))) for kind, k in kinds]),
        Row("the same, 30 days / 90 days", [
            Line(f"{kind} keys, {days} days to its own 1 day", most=most).of(f.times("new", ("once", f"{k}{days}"), ("once", k + "1")))
            for kind, k, days, most in (("natural", "n", 30, 1.10), ("natural", "n", 90, 1.15), ("uuid", "u", 30, 1.10))]),
        Row("duplicate of today / of the oldest of 30 days", [
            Line(f"{kind} keys, {what}, to (a)'s", most=most).of(f.times(work, ("once", k + days), ("plain", k + days)))
            for work, what, days, most in (("today", "of today", "1", 0.8), ("oldest", "of the oldest of 30 days", "30", 1.2))
            for kind, k in kinds]),
        Row("claim and complete, 1 day", [
            Line("natural keys, to (a) RETURNING and an UPDATE", most=1.0).of(f.times("answer", ("once", "n1"), ("plain", "n1")))]),
        Row("begin_effect and complete_effect, 1 day", [
            Line("natural keys, to (e)", most=1.2).of(f.times("effect", ("once", "n1"), ("updates", "n1")))]),
        Row("array of 200,000, 1 day", [
            Line(f"{kind} keys, to {what}", most=most).of(f.times("array", ("once", k + "1"), (side, k + "1")))
            for what, side, most in (("(a) with unnest", "plain", 0.45), ("(d)", "sorted", 1.1)) for kind, k in kinds]),
        Row("array of 200,000, 30 days", [
            Line(f"{kind} keys, to its own 1 day", most=1.15).of(f.times("array", ("once", k + "30"), ("once", k + "1"))) for kind, k in kinds]),
        Row("client, prepared, in a transaction with one UPDATE, 30 days", [
            Line(f"{clients} client{'s' if clients > 1 else ''}, to {what}'s rate", least=least).of(f.rates("spread", clients, side))
            for what, side, least in (("(a)", "plain", 1.0), ("(b)", "hand", 1.8)) for clients in COUNTS]),
        Row("32 clients on 64 hot keys, 90 % duplicates", [
            Line("to (a)'s rate", least=1.0).of(f.rates("hot", 32, "plain"))]),
        Row("WAL a new key / a duplicate", _wal(f)),
        Row("locks held after one claim of a new key, 90 days", _locks(results)),
        Row("retiring a day of 1,000,000 keys", _retiring(results)),
        Row("sealing a day of 1,000,000 keys", _sealing(results)),
        Row("bytes on disk a claim (20-byte key), heap and index", [
            Line("to (a)'s", most=0.9).of([s["once"] / s["plain"] for s in results["sizes"]])]),
        Row("backend memory after 1,000,000 claims over 30 days", _memory(results)),
    ]


def _wal(f):
    once, plain = (f.loop("new", side, "n1", "wal_bytes", 1) for side in ("once", "plain"))
    ratios = _ratios(once, plain)
    twice = [f.loop(work, "once", k + days, "own_wal_bytes", 1) for work, days in (("today", "1"), ("oldest", "30")) for k in "nu"]
    every = [value for measured in twice for value in measured.values()]
    whole = all(twice)
    return [Line("a new key, to (a)'s", most=0.75).of(ratios, sum(once.values()) / sum(plain.values()) if ratios else None),
            Line("a duplicate, of today and of the oldest of 30 days", most=0, unit="bytes").of(every if whole else [], max(every, default=None))]


def _locks(results):
    locks = results["locks"]
    many, one = (locks.get(name, []) for name in ("n90", "n1"))
    return [Line("90 days, a session's first or second claim", most=6, unit="locks").of(many, max(many, default=None)),
            Line("more than with 1 day", most=0, unit="locks").of([a - b for a, b in zip(many, one)], max((a - b for a, b in zip(many, one)), default=None))]


def _retiring(results):
    days = results["retired"]
    wal = sum(s["plain"]["wal_bytes"] for s in days) / max(1, sum(s["once"]["wal_bytes"] for s in days))
    return [Line("less time than DELETE and VACUUM", least=50).of([s["plain"]["seconds"] / s["once"]["seconds"] for s in days]),
            Line("less WAL", least=1000).of([s["plain"]["wal_bytes"] / max(1, s["once"]["wal_bytes"]) for s in days], wal),
            Line("of the leaf's bytes given back at once", least=0.99).of([s["once"]["freed"] / s["leaf_bytes"] for s in days],
                                                                        min((s["once"]["freed"] / s["leaf_bytes"] for s in days), default=None))]


def _sealing(results):
    seals, filters = results["seals"], results["filters"]
    # A pass that seals another number of keys is taken to a million of them.
    seconds = [s["seconds"] * 1e6 / s["rows"] for s in seals]
    wal = sum(s["wal_bytes"] for s in seals) / max(1, sum(s["rows"] for s in seals))
    sizes = [s["bytes"] / s["keys"] for s in filters.values() if s["keys"]]
    maybes = [s["maybe"] * 100 for s in filters.values() if "maybe" in s]
    return [Line("a pass of maintenance that seals one", most=3, unit="s").of(seconds),
            Line("WAL of it", most=16, unit="bytes a key").of([s["wal_bytes"] / s["rows"] for s in seals], wal),
            Line("filter, the worst of the stores", most=3, unit="bytes a key").of(sizes, max(sizes, default=None)),
            Line('false "maybe" for any of 30 days, the worst of the kinds', most=1, unit="%").of(maybes, max(maybes, default=None))]


def _memory(results):
    wanted = results["plan"]["memory_claims"]
    found = [m["bytes"] / 2**20 for m in results["memory"] if m["claims"] >= wanted]
    short = [f"only {m['claims']:,} claims in the time there was, {m['bytes'] / 2**20:.1f} MB" for m in results["memory"] if m["claims"] < wanted]
    return [Line("private bytes (RssAnon) above start", most=16, unit="MB").of(found, note="; ".join(short))]
