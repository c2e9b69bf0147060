"""A day that is over: sealed, and later retired; beside a DELETE and a VACUUM of as many rows.

Rule: what is timed is a whole pass of `once.maintain()`, its fixed cost included, in a database where there is
nothing else for it to do. That time passes is played by hand: a day's rows have expired and its promise is set back.
"""

from load import make_days
from place import Missing
from plan import RETENTION

DATABASE = "days"
# So many days are there, sealed, beside the one that comes or goes.
BESIDE = 2

SETUP = f"""
SET client_min_messages = warning;
SELECT once.create_store('days', retention => '{RETENTION}');
"""

# As many days live beside the one that is deleted, as many as are beside the one that is retired.
PLAIN = f"""
CREATE TABLE bench.plain (LIKE %s INCLUDING ALL);
INSERT INTO bench.plain SELECT claimed_at, now() + interval '30 days', key || ':' || n, effect FROM %s, generate_series(1, {BESIDE}) AS n;
VACUUM ANALYZE bench.plain;
"""


class Days:
    """All rounds of it."""

    def __init__(self, server, rows):
        self._server, self._rows = server, rows
        self._oldest = self._next = 60
        self.seals, self.retired = [], []
        server.run(f"CREATE DATABASE {DATABASE}")
        # A day without claims is nothing unusual here.
        server.run(f"ALTER DATABASE {DATABASE} SET pg_once.away_days = 0")
        server.run_file("load.sql", DATABASE)
        server.run(SETUP, DATABASE)
        for _ in range(BESIDE):
            self._add()
        leaf = self._leaf(self._oldest)
        server.run(PLAIN % (leaf, leaf), DATABASE)
        server.run("CALL once.maintain();", DATABASE)

    def _leaf(self, days_ago):
        return self._server.run(f"SELECT bench.leaf('days', {days_ago})", DATABASE)[0]

    def _add(self):
        """One more day, full of claims that have expired by now, ahead of the ones that are there."""
        day, self._next = self._next, self._next - 1
        self._server.run(make_days("days", day, day) + f"\nSELECT bench.fill('days', {day}, 'natural', {self._rows}, '1 hour');"
                         f"\nDELETE FROM once.days WHERE key = 'seed-{day}';\nVACUUM ANALYZE once.days;", DATABASE)

    def _timed(self, *statements):
        """Seconds and bytes of WAL of statements, and by how much the database is smaller afterwards."""
        look = "SELECT extract(epoch FROM clock_timestamp()), pg_current_wal_insert_lsn() - '0/0', pg_database_size(current_database());"
        lines = self._server.run("\n".join([look, *statements, look]), DATABASE)
        before, after = ([float(part) for part in lines[n].split("|")] for n in (0, -1))
        return {"seconds": after[0] - before[0], "wal_bytes": after[1] - before[1], "freed": before[2] - after[2]}

    def _sealed(self):
        """How many days maintenance says it sealed so far."""
        return int(self._server.run("SELECT count(*) FROM once.maintenance_log WHERE action = 'seal'", DATABASE)[0])

    def round(self, number):
        """One more day is sealed, the oldest is retired, and as many rows are deleted beside it."""
        self._add()
        before = self._sealed()
        pass_ = self._timed("CALL once.maintain();")
        if self._sealed() == before + 1:
            self.seals.append({"round": number, "rows": self._rows, **pass_})

        old, self._oldest = self._oldest, self._oldest - 1
        leaf = self._leaf(old)
        self._server.run(f"INSERT INTO bench.plain SELECT * FROM {leaf};\nVACUUM bench.plain;", DATABASE)
        size = int(self._server.run(f"SELECT pg_total_relation_size('{leaf}')", DATABASE)[0])
        self._server.run(f"UPDATE once.leaf_promise SET keep_until = now() - interval '1 hour' WHERE leaf = '{leaf}'::regclass;", DATABASE)
        self._server.run(f"CREATE TABLE bench.bare (LIKE {leaf} INCLUDING ALL);\nINSERT INTO bench.bare SELECT * FROM {leaf};", DATABASE)
        work = {"once": ("CALL once.maintain();",),
                "plain": ("DELETE FROM bench.plain WHERE expires_at <= now();", "VACUUM bench.plain;")}
        sample = {"round": number, "rows": self._rows, "leaf_bytes": size}
        for side in ("once", "plain") if number % 2 else ("plain", "once"):
            sample[side] = self._timed(*work[side])
        if self._server.run(f"SELECT to_regclass('{leaf}')", DATABASE):
            raise Missing("maintenance did not drop a day whose promise is over")
        # Shown beside: what a pass costs that finds nothing to do, and what PostgreSQL takes to drop a table as large, which
        # nothing that drops one can beat. Both are in the figure, and neither is taken off.
        sample["idle"] = self._timed("CALL once.maintain();")
        sample["bare"] = self._timed("DROP TABLE bench.bare;")
        self.retired.append(sample)
