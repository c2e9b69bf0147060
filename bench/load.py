"""Fills the stores and the tables they are compared with, and seals the days that are over.

Rule: whatever is compared holds the same rows; after the last checkpoint every page that is going
to be written to is made anew, so that no full-page image of an old page is in a figure.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from place import Missing, say
from plan import ANSWERS, FILLING_SHARE, RETENTION

WORKERS = 2


def make_days(store, first, last):
    """SQL that has the days made, as moving in makes them: one claim of each is imported."""
    return f"""
        DROP TABLE IF EXISTS bench.seed_{store};
        CREATE TABLE bench.seed_{store} AS
            SELECT 'seed-' || n AS key, date_trunc('day', now(), 'UTC') - n * interval '1 day' AS at FROM generate_series({first}, {last}) AS n;
        CALL once.import_claims('{store}', 'bench.seed_{store}', 'key', 'at');"""


def days(pair):
    """SQL that fills all days of a store."""
    rows = [pair.today] + [pair.older] * (pair.days - 1)
    fills = "".join(f"SELECT bench.fill('{pair.name}', {n}, '{pair.kind}', {count}, '{RETENTION}');\n" for n, count in enumerate(rows))
    return (f"SELECT once.create_store('{pair.name}', retention => '{RETENTION}');" + make_days(pair.name, 0, pair.days - 1) + "\n"
            + fills)


def _fill(server, pair, hand):
    began = time.monotonic()
    server.run(days(pair))
    server.run_file("pair.sql", pair=pair.name)
    if pair.name in ("n1", "u1"):
        server.run_file("limit.sql", pair=pair.name)
    if pair.name == ANSWERS:
        server.run_file("answers.sql", pair=pair.name)
        server.run(f"VACUUM ANALYZE bench_{pair.name}.effect")
    if hand:
        server.run_file("hand.sql", pair=pair.name, days=pair.days)
        server.run(f"VACUUM ANALYZE bench_{pair.name}.hand")
    limit = f", bench_{pair.name}.sorted" if pair.name in ("n1", "u1") else ""
    server.run(f"VACUUM ANALYZE once.{pair.name}, bench_{pair.name}.plain{limit}")
    say(f"{pair.name}: {pair.days} days, {pair.rows:,} rows, and as many beside it, in {time.monotonic() - began:.0f} s")


def _indexes(server, pair, hand):
    """Today's indexes and that of the plain table, as random inserts have left them; then the two sides must be alike."""
    name, key = pair.name, "ADD PRIMARY KEY (key, effect) WITH (fillfactor = 70)"
    tables = [f"bench_{name}.plain"] + ([f"bench_{name}.sorted"] if name in ("n1", "u1") else [])
    wider = [f"bench_{name}.effect"] if name == ANSWERS else []
    script = f"SELECT bench.settle_index(bench.pkey(bench.leaf('{name}', 0)));\n"
    for table in tables + wider:
        script += f"ALTER TABLE {table} {key};\nDO $$ BEGIN EXECUTE format('ALTER INDEX %s RESET (fillfactor)', bench.pkey('{table}')); END $$;\n"
    if hand:
        script += f"SELECT bench.settle_index(bench.pkey('bench_{name}.hand_0'));\n"
    server.run(script)
    alike = server.run("".join(f"SELECT bench.layout(bench.leaf('{name}', 0)) IS NOT DISTINCT FROM bench.layout('{table}');\n" for table in tables)
                       + f"SELECT (SELECT count(*) FROM once.{name}) = (SELECT count(*) FROM bench_{name}.plain)")
    if set(alike) != {"t"}:
        raise Missing(f"the tables of {name} differ in layout or rows from the store's")


def _warm(server, pair, hand):
    """Reads every index into shared buffers, whose size it must fit: figures are of tables in use, not of ones just filled."""
    tables = [f"once.{pair.name}", f"bench_{pair.name}.plain"] + ([f"bench_{pair.name}.hand"] if hand else [])
    tables += [f"bench_{pair.name}.effect"] if pair.name == ANSWERS else []
    counts = "".join(f"SELECT count(*) FROM {table} WHERE key >= '';\n" for table in tables)
    server.run("SET enable_seqscan = off; SET enable_bitmapscan = off;\n" + counts)


def _seal(server):
    """Passes of maintenance for as long as they seal days; how many days."""
    sealed = -1
    while True:
        now = int(server.run("CALL once.maintain();\nSELECT count(*) FROM once.maintenance_log WHERE action = 'seal'")[0])
        if now <= max(sealed, 0):
            return now
        sealed = now


# What a row of a large store costs more than one of the first: more of it leaves shared_buffers, and a second one is
# filled at the same time. Seen on the machine whose figures are here; it need not be exact.
DEARER = 3


def _share(plan, hand, seconds):
    """How much of the older days' rows there is time for, by what the store of one day took."""
    first, others = plan.pairs[0], plan.pairs[1:]
    rows = sum(pair.rows * (3 if pair.name == hand else 2) for pair in others)
    likely = seconds / (3 * first.rows) * rows * DEARER / WORKERS
    return min(1.0, plan.seconds * FILLING_SHARE / likely)


def fill(server, plan, hand):
    """Everything in the main database; `hand` names the pair that has the hand-made version beside it. Returns
    the plan, with fewer rows in older days where filling would take too long, and what it took."""
    began = time.monotonic()
    server.set("fsync", "off")
    server.run_file("load.sql")
    server.run_file("measure.sql")
    first = time.monotonic()
    _fill(server, plan.pairs[0], False)
    share = _share(plan, hand, time.monotonic() - first)
    if share < 1:
        plan = plan.with_older(share)
        say(f"this machine is slow or not idle: days before today are given {share:.0%} of their rows")
    largest_first = sorted(plan.pairs, key=lambda pair: -pair.rows * (2 if pair.name == hand else 1))
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda pair: _fill(server, pair, pair.name == hand), [pair for pair in largest_first if pair is not plan.pairs[0]]))
    maintaining = time.monotonic()
    sealed = _seal(server)
    maintained = time.monotonic() - maintaining
    say(f"maintenance sealed {sealed} of {sum(pair.days - 1 for pair in plan.pairs)} days that are over, in {maintained:.0f} s")
    server.run("CHECKPOINT")
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda pair: _indexes(server, pair, pair.name == hand), largest_first))
        list(pool.map(lambda pair: _warm(server, pair, pair.name == hand), largest_first))
    # What filling left to the system's cache is on disk before anything is measured.
    os.sync()
    server.set("fsync", "on")
    return plan, {"filling_seconds": time.monotonic() - began - maintained, "maintenance_seconds": maintained, "sealed_days": sealed,
                  "share_of_older_rows": share}
