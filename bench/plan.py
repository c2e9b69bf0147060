"""How large everything is, and the settings it runs with.

Rule: what is measured is bounded by time, never by what comes out; a size that was cut is printed
with the results.
"""

from dataclasses import dataclass, replace

# One line a reason. Everything else is as PostgreSQL ships it: fsync, synchronous_commit and
# full_page_writes are on while something is measured (fsync is off while tables are filled).
SETTINGS = {
    "max_wal_size": "48GB",               # with checkpoint_timeout: no checkpoint inside a measured part
    "min_wal_size": "4GB",                # segments are kept and used again, as on a server that has been up for a day
    "checkpoint_timeout": "1d",
    "wal_buffers": "64MB",
    "bgwriter_lru_maxpages": "0",         # nobody else writes pages meanwhile
    "autovacuum": "off",                  # VACUUM runs between the measured parts
    "max_parallel_workers_per_gather": "0",
    "maintenance_work_mem": "512MB",      # indexes of the tables that are compared, built beforehand
    "jit": "off",
    "timezone": "UTC",                    # the plain table's "+ interval" at its cheapest
}
# Of the machine's memory; what does not fit is in the system's cache.
SHARED_BUFFERS_SHARE, SHARED_BUFFERS_MOST = 0.35, 8 * 2**30
# Printed and kept with the results, beside the ones set above.
DEFAULTS_SHOWN = ("fsync", "synchronous_commit", "full_page_writes", "wal_level", "data_checksums", "server_encoding",
                  "huge_pages", "shared_buffers", "pg_once.precreate_days", "pg_once.max_key_bytes")

# Filling may take this share of a run; where it would take longer, older days are given fewer rows.
FILLING_SHARE = 0.3

# The pair that claims are answered and effects are run in.
ANSWERS = "n1"

# Longer than any store's days, so that each of them can hold a live claim.
RETENTION = "100 days"


@dataclass(frozen=True)
class Pair:
    """A store of so many live days, and one plain table that holds the same rows."""

    name: str
    kind: str       # of keys, see keys.py
    days: int
    today: int      # rows in today's leaf, the same in all stores of a kind
    older: int      # rows in each day before
    array: bool     # whether arrays are measured here

    @property
    def rows(self):
        """How many rows either side is filled with."""
        return self.today + (self.days - 1) * self.older


@dataclass(frozen=True)
class Plan:
    """A run."""

    name: str
    seconds: int            # how long all of it may take, the cluster's making included
    space: int              # gigabytes of disk
    rounds: int
    pairs: tuple[Pair, ...]
    single: int             # keys of one measurement of claims one by one, at most
    single_seconds: float   # fewer keys where so many would take longer than this
    array: int              # keys of an array
    hand: int               # keys of one measurement of the hand-made version, which holds a lock a key
    client_seconds: float   # of one pgbench run, at most; never less than one
    day_rows: int           # of the days that are sealed and retired
    memory_claims: int
    memory_seconds: int     # fewer claims, and a missed target, where they would take longer
    size_rows: int
    probes: int             # keys that the filter is asked for

    def pair(self, name):
        """By its name."""
        return next(pair for pair in self.pairs if pair.name == name)

    def with_older(self, share):
        """The same with so much of the rows in days before today; what today's leaf holds is never cut."""
        def cut(rows):
            return max(1, int(rows * share)) if rows else 0

        return replace(self, pairs=tuple(replace(pair, older=cut(pair.older)) for pair in self.pairs))


def _pairs(today, week, month, quarter):
    return (Pair("n1", "natural", 1, today, 0, True), Pair("n7", "natural", 7, today, week, False),
            Pair("n30", "natural", 30, today, month, True), Pair("n90", "natural", 90, today, quarter, False),
            Pair("u1", "uuid", 1, today, 0, True), Pair("u30", "uuid", 30, today, quarter, True))


FULL = Plan("full", 15 * 60, 45, 7, _pairs(1_000_000, 1_000_000, 500_000, 200_000), single=25_000, single_seconds=0.6,
            array=200_000, hand=1_000, client_seconds=3.0, day_rows=1_000_000, memory_claims=1_000_000, memory_seconds=40,
            size_rows=300_000, probes=200_000)
QUICK = Plan("quick", 3 * 60, 10, 3, _pairs(100_000, 100_000, 20_000, 10_000), single=10_000, single_seconds=0.3,
             array=50_000, hand=500, client_seconds=1.0, day_rows=100_000, memory_claims=100_000, memory_seconds=8,
             size_rows=50_000, probes=50_000)
# For working on the benchmark itself, and for its own test: every line of it, and figures that mean nothing.
TINY = Plan("tiny", 3 * 60, 2, 2, _pairs(3_000, 2_000, 500, 300), single=500, single_seconds=0.1,
            array=1_000, hand=100, client_seconds=1.0, day_rows=3_000, memory_claims=2_000, memory_seconds=3,
            size_rows=2_000, probes=1_000)
PLANS = {plan.name: plan for plan in (FULL, QUICK, TINY)}
