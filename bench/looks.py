"""What is looked at once: locks after a claim, memory of a backend, bytes on disk, the filter.

Rule: what is not there gives None, which is a missed target and says so; it is never left out.
"""

import time

from loops import HAND
from place import Missing


def _array(keys):
    return "ARRAY['" + "','".join(keys) + "']"


def locks(server, pair, keys):
    """Locks a transaction holds more than before its claim of a new key: (a session's first, its second)."""
    count = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid();"
    held = []
    script = "".join(f"BEGIN;\n{count}\nSELECT once.claim_once('{key}', '7 days', '', '{pair.name}');\n{count}\nCOMMIT;\n" for key in keys)
    lines = server.run(script)
    for before, answer, after in (lines[n:n + 3] for n in range(0, len(lines), 3)):
        if answer != "t":
            raise Missing(f"a new key was no new one: {answer}")
        held.append(int(after) - int(before))
    return held


def memory(server, plan, loops):
    """Private bytes of a backend more than at its start, after a million claims over 30 days: half of them new,
    half duplicates of all days. Stops after its time; `claims` says how many it were."""
    pair = plan.pair(HAND)
    session = server.session()
    try:
        claim = f"SELECT bench_{pair.name}.once_each({{}})"
        session.ask(claim.format("'{}'::text[]"))
        start, claims, began, step = session.private_bytes(), 0, time.monotonic(), 1_000
        while claims < plan.memory_claims and time.monotonic() - began < plan.memory_seconds:
            keys = loops.new_keys(pair.kind, step // 2)
            for day in range(pair.days):
                keys += loops.keys_of_day(pair, day, max(1, step // 2 // pair.days))
            session.ask(claim.format(_array(keys)))
            claims += len(keys)
        return {"bytes": session.private_bytes() - start, "claims": claims}
    finally:
        session.close()


def sizes(server, rows, loops):
    """Bytes on disk a row, heap and index, of a leaf and a plain table that grew by so many claims one by one."""
    server.run("SELECT once.create_store('grown');")
    server.run_file("pair.sql", pair="grown")
    server.run("ALTER TABLE bench_grown.plain ADD PRIMARY KEY (key, effect)")
    keys = loops.new_keys("natural", rows)
    rows_in = f"TRUNCATE bench.input;\nCOPY bench.input FROM STDIN;\ngrown\t{{{','.join(keys)}}}\n\\.\n"
    server.run(rows_in + "SELECT bench_grown.once_each(keys), bench_grown.plain_each(keys) FROM bench.input;")
    once, plain = server.run("SELECT pg_total_relation_size(bench.leaf('grown', 0));\nSELECT pg_total_relation_size('bench_grown.plain')")
    return {"rows": rows, "once": int(once) / rows, "plain": int(plain) / rows}


def filters(server, plan, loops):
    """Bytes a key of each store's filter, and how often it says maybe to a key that no day has. The one place
    that names what the filter shows of itself."""
    there = server.run("SELECT to_regclass('once.filters') IS NOT NULL AND to_regproc('once.filter_probe') IS NOT NULL")
    if there != ["t"]:
        return {}
    found = {}
    for pair in plan.pairs:
        line = server.run(f"SELECT days, keys, bytes FROM once.filters WHERE store = '{pair.name}'")
        if not line:
            continue
        days, keys, size = map(int, line[0].split("|"))
        found[pair.name] = {"days": days, "keys": keys, "bytes": size}
        if pair.days == 30 and days and keys:
            asked = loops.new_keys(pair.kind, plan.probes)
            maybe = server.run("TRUNCATE bench.input;\nCOPY bench.input FROM STDIN;\nprobe\t{" + ",".join(asked) + "}\n\\.\n"
                               + f"SELECT count(*) FROM bench.input, unnest(keys) AS k WHERE EXISTS (SELECT FROM once.filter_probe('{pair.name}', k))")
            found[pair.name]["maybe"] = int(maybe[0]) / plan.probes
    return found
