"""Fills the stores and the tables they are compared with, and seals the days that are over.

Rule: whatever is compared holds the same rows; after the last checkpoint every page that is going
to be written to is made anew, so that no full-page image of an old page is in a figure.
"""

import time
from concurrent.futures import ThreadPoolExecutor

from place import Missing, say
from plan import RETENTION


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
    script = f"SELECT bench.settle_index(bench.pkey(bench.leaf('{name}', 0)));\n"
    for table in tables:
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


def fill(server, plan, hand):
    """Everything in the main database; `hand` names the pair that has the hand-made version beside it. Returns
    seconds taken by filling and by the pass that seals."""
    began = time.monotonic()
    server.set("fsync", "off")
    server.run_file("load.sql")
    server.run_file("measure.sql")
    largest_first = sorted(plan.pairs, key=lambda pair: -pair.rows * (2 if pair.name == hand else 1))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda pair: _fill(server, pair, pair.name == hand), largest_first))
    maintaining = time.monotonic()
    sealed = _seal(server)
    maintained = time.monotonic() - maintaining
    say(f"maintenance sealed {sealed} of {sum(pair.days - 1 for pair in plan.pairs)} days that are over, in {maintained:.0f} s")
    server.run("CHECKPOINT")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda pair: _indexes(server, pair, pair.name == hand), largest_first))
        list(pool.map(lambda pair: _warm(server, pair, pair.name == hand), largest_first))
    server.set("fsync", "on")
    return {"filling_seconds": time.monotonic() - began - maintained, "maintenance_seconds": maintained, "sealed_days": sealed}
