"""Runs the rounds: in each, every work on both sides in one backend, who goes first taking turns.

Rule: the timed parts of a round hold the work and nothing else, keys and VACUUM come between them,
and an answer that is not what the keys say ends the run: figures of wrong work are worth nothing.
"""

import json
from datetime import datetime, timezone

from keys import Supply
from place import Missing, say
from works import PLANS, SINGLE, WORKS

SEED = 20_240_229


def _copy(parts):
    """COPY of the arrays a round works on."""
    rows = "".join(f"{part}\t{{{','.join(keys)}}}\n" for part, keys in parts.items())
    return f"TRUNCATE bench.input;\nCOPY bench.input FROM STDIN;\n{rows}\\.\n"


def _script(works, parts, number):
    """One round as a psql script; it prints one JSON line for each measurement."""
    lines = [_copy(parts), "SELECT bench.measure('bench.empty_loop', 'new');"]
    for work in works:
        sides = [("once", work.once), ("plain", work.plain)]
        for side, loop in sides if number % 2 else reversed(sides):
            lines.append(f"SELECT jsonb_build_object('work', '{work.name}', 'side', '{side}') "
                         f"|| bench.measure('bench_{work.pair}.{loop}', '{work.name}');")
        if not work.duplicate:
            # The first to look at new rows sets their hint bits; here that is nobody's timed part.
            lines.append(f"VACUUM once.{work.pair}; VACUUM bench_{work.pair}.plain;")
    return "\n".join(lines)


def _check(line, work):
    expected = 0 if work.duplicate else work.keys
    if (line["keys"], line["claimed"]) != (work.keys, expected):
        raise Missing(f"{line['loop']} claimed {line['claimed']} of {line['keys']} keys, not {expected}")


def _sizes(server, pair):
    """Rows and bytes (heap, index, maps) of a pair's tables; they must hold the same."""
    sizes = json.loads(server.run(f"""
        SELECT jsonb_build_object('rows', (SELECT count(*) FROM bench_{pair}.plain),
               'claims', (SELECT count(*) FROM once.{pair}),
               'plain_bytes', pg_total_relation_size('bench_{pair}.plain'),
               'once_bytes', pg_total_relation_size(bench_{pair}.leaf()))""")[0])
    if sizes["rows"] != sizes["claims"]:
        raise Missing(f"the tables of {pair} differ: {sizes['claims']} claims, {sizes['rows']} plain rows")
    return sizes


def run(server, kind, rounds):
    """All rounds for one kind of keys: samples, the empty loop in seconds a key, sizes of each pair."""
    works = [work for work in WORKS if work.name in PLANS[kind]]
    pairs = sorted({work.pair for work in works})
    supply = Supply(kind, sum(work.keys for work in works if not work.duplicate) * (rounds + 1), SEED)
    day = datetime.now(timezone.utc).date()
    server.run_file("measure.sql")
    for pair in pairs:
        server.run_file("pair.sql", pair=pair)
    # The only checkpoint: every page of the tables is made after it, so no full-page image is in the figures.
    server.run("CHECKPOINT")
    samples, loop = [], []
    for number in range(rounds + 1):
        # Round 0 fills the tables and is thrown away.
        say(f"{kind} keys: " + (f"round {number} of {rounds}" if number else "filling the tables"))
        # In the order of the works: a duplicate's key was claimed by a work before it.
        parts = {work.name: (supply.claimed if work.duplicate else supply.new)(work.pair, work.keys) for work in works}
        empty, *lines = map(json.loads, server.run(_script(works, parts, number)))
        for line in lines:
            _check(line, next(work for work in works if work.name == line["work"]))
            if number:
                samples.append({"round": number, **line})
        if number:
            loop.append(empty["seconds"] / SINGLE)
    if datetime.now(timezone.utc).date() != day:
        raise Missing("midnight (UTC) passed during the run, so two days were live: run it again")
    sizes = {pair: _sizes(server, pair) for pair in pairs}
    for pair in pairs:
        server.run(f"DROP SCHEMA bench_{pair} CASCADE; SELECT once.drop_store('{pair}')")
    return {"samples": samples, "loop": loop, "sizes": sizes}
