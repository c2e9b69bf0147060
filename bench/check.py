#!/usr/bin/env python3
"""Holds the benchmark to its promises without a server, on made-up samples; the suite `house` runs it.

Rule: every row of the table in docs/bench/README.md is judged and shown with its target, one missed line
is enough for an exit code that is not 0, and so is one that could not be measured.
"""

import contextlib
import copy
import io
import json
import os
import re
import sys
import tempfile
import xml.etree.ElementTree
from dataclasses import asdict

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(ROOT, "pgrx-config")]

import keys
import report
import targets
from clients import COUNTS
from plan import FULL, PLANS, QUICK

# How much dearer than pg_once the others are in the good samples; (d) is the limit and cheaper.
DEARER = {"once": 1.0, "plain": 3.0, "hand": 5.0, "sorted": 0.95, "updates": 3.0}


def good():
    """Results in which every target is met."""
    samples = []
    for number in range(1, FULL.rounds + 1):
        for pair in FULL.pairs:
            for work in ("new", "today", "oldest", "array", "answer", "effect"):
                for side, dearer in DEARER.items():
                    wal = 0 if work in ("today", "oldest") else 100 * dearer
                    samples.append({"round": number, "work": work, "side": side, "pair": pair.name, "keys": 1, "seconds": 1e-6 * dearer,
                                    "wal_bytes": wal, "own_wal_bytes": wal, "full_page_images": 0})
    clients = [{"round": number, "work": work, "side": side, "clients": count, "seconds": 1, "tps": 1000 / DEARER[side]}
               for number in range(1, FULL.rounds + 1) for work in ("spread", "hot") for side in ("once", "plain", "hand") for count in COUNTS]
    dropped = {"once": {"seconds": 0.01, "wal_bytes": 1e3, "freed": 100}, "plain": {"seconds": 1.0, "wal_bytes": 1e8, "freed": 0},
               "idle": {"seconds": 0.01, "wal_bytes": 0, "freed": 0}, "bare": {"seconds": 0.01, "wal_bytes": 0, "freed": 0}}
    return {
        "plan": asdict(FULL), "loaded": {}, "loops": samples, "clients": clients,
        "seals": [{"round": 1, "rows": 1_000_000, "seconds": 2.0, "wal_bytes": 4e6, "freed": 0}],
        "retired": [{"round": 1, "rows": 1_000_000, "leaf_bytes": 100, **dropped}],
        "locks": {"n1": [5, 5], "n90": [5, 5]}, "filters": {"n30": {"days": 29, "keys": 100, "bytes": 290, "maybe": 0.009}},
        "sizes": [{"rows": 1, "once": 80.0, "plain": 100.0}], "memory": [{"bytes": 2**20, "claims": 1_000_000}],
    }


ABOUT = {"server": "18", "cores": 2, "processor": "none", "memory_gb": 1, "rounds": FULL.rounds, "date": "2020-01-01", "commit": "none",
         "seconds": 1, "plan": "check", "settings": {}}


def spoilt():
    """Results with one thing spoilt, or not measured, each, and how many lines that must miss where it is one for
    one (else None); between them every judged line is missed."""
    every = good()
    for work, pair in sorted({(s["work"], s["pair"]) for s in every["loops"]}):
        for what, add in (("seconds", 1.0), ("wal_bytes", 1e6), ("own_wal_bytes", 1)):
            bad = copy.deepcopy(every)
            for sample in bad["loops"]:
                if (sample["work"], sample["side"], sample["pair"]) == (work, "once", pair):
                    sample[what] += add
            yield bad, None
    for work, count in (("spread", 1), ("spread", 8), ("spread", 32), ("hot", 32)):
        bad = copy.deepcopy(every)
        for sample in bad["clients"]:
            if (sample["work"], sample["side"], sample["clients"]) == (work, "once", count):
                sample["tps"] /= 100
        yield bad, 1 if work == "hot" else 2
    for where, name, value in (("seals", "seconds", 4), ("seals", "wal_bytes", 2e7), ("sizes", "once", 95), ("memory", "bytes", 2**25),
                               ("memory", "claims", 999_999)):
        bad = copy.deepcopy(every)
        bad[where][0][name] = value
        yield bad, 1
    for name, value in (("seconds", 0.03), ("wal_bytes", 2e5), ("freed", 98)):
        bad = copy.deepcopy(every)
        bad["retired"][0]["once"][name] = value
        yield bad, 1
    for name, value in (("bytes", 301), ("maybe", 0.02)):
        bad = copy.deepcopy(every)
        bad["filters"]["n30"][name] = value
        yield bad, 1
    for locks in ({"n1": [7, 7], "n90": [7, 7]}, {"n1": [4, 4], "n90": [5, 5]}):
        yield {**copy.deepcopy(every), "locks": locks}, 1
    # Both lines of "of the oldest", and the WAL of duplicates.
    yield {**copy.deepcopy(every), "loops": [sample for sample in every["loops"] if sample["work"] != "oldest"]}, 3
    for where, nothing, lines in (("loops", [], 19), ("clients", [], 7), ("seals", [], 2), ("retired", [], 3), ("sizes", [], 1),
                                  ("memory", [], 1), ("filters", {}, 2), ("locks", {}, 2)):
        yield {**copy.deepcopy(every), where: nothing}, lines


def finish(results):
    """The exit code a run with these results has, and what it prints; its charts must be well-formed."""
    about = {"server": "18", "cores": 2, "processor": "none", "memory_gb": 1, "rounds": FULL.rounds, "date": "2020-01-01", "commit": "none",
             "seconds": 1, "plan": "check", "settings": {}}
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        code = report.finish(folder, "18", about, results)
        for name in ("days", "targets"):
            xml.etree.ElementTree.parse(os.path.join(folder, f"postgresql-18-{name}.svg"))
        with open(os.path.join(folder, "postgresql-18.json"), encoding="utf-8") as file:
            json.load(file)
    return code, printed.getvalue()


def documented():
    """The rows of the table in the README: [(name, must)]."""
    with open(os.path.join(ROOT, "docs", "bench", "README.md"), encoding="utf-8") as file:
        lines = file.read().split("| work | must |\n")[1].splitlines()[1:]
    return [tuple(cell.strip().replace("`", "") for cell in line.strip("|").split("|"))
            for line in lines[:next(n for n, line in enumerate(lines) if not line.startswith("|"))]]


def keys_are_apart():
    """No two numbers make one key, and natural ones have twenty bytes. That SQL makes the same is seen in every run: a duplicate would be new."""
    for make in keys.MAKERS.values():
        made = {make(slot, number) for slot in (0, 29, 89, 90, 127) for number in (0, 1, 2, 3, 500_000, 999_998, 999_999)}
        assert len(made) == 35, "two numbers make one key"
    assert {len(keys.natural(slot, number)) for slot in (0, 127) for number in (0, 999_999)} == {20}


def check():
    """All of it; raises AssertionError."""
    rows = targets.rows(good())
    assert [row.name for row in rows] == [name for name, _ in documented()], "the table in docs/bench/README.md has other rows"
    for row, (_, must) in zip(rows, documented()):
        for line in row.lines:
            limit = f"{line.most if line.most is not None else line.least:,g}"
            # "The same as with 1 day" and "at once" are targets in words.
            assert re.search(rf"(?<![\d.,]){re.escape(limit)}0?(?![\d.,]*\d)", must) or limit in ("0", "0.99"), f"{row.name}: {limit} is not in its target"

    code, printed = finish(good())
    assert code == 0 and "MISSED" not in printed, "good results miss a target:\n" + printed
    every = {(row.name, line.label) for row in rows for line in row.lines}
    missed = set()
    for results, must_miss in spoilt():
        code, printed = finish(results)
        judged = targets.rows(results)
        here = {(row.name, line.label) for row in judged for line in row.lines if not line.met}
        assert {(row.name, line.label) for row in judged for line in row.lines} == every, "a line was left out"
        assert all(name in printed and label in printed for name, label in every), "a line is not shown"
        assert (code != 0) == bool(here) and ("MISSED" in printed) == bool(here), f"exit code {code} with {len(here)} lines missed"
        assert must_miss in (None, len(here)), f"{len(here)} lines missed where it must be {must_miss}: {sorted(here)}"
        missed |= here
    assert missed == every, f"nothing makes these miss: {every - missed}"
    assert FULL.rounds >= 7 and FULL.seconds <= 900 and QUICK.seconds <= 180 and set(PLANS) == {"full", "quick", "tiny"}
    cut = FULL.with_older(0.473)
    assert [(pair.today, pair.older) for pair in cut.pairs[2:4]] == [(1_000_000, 236_500), (1_000_000, 94_600)]
    assert all(isinstance(pair.rows, int) for pair in cut.pairs)
    keys_are_apart()


if __name__ == "__main__":
    check()
    print("the benchmark judges every row of its table")
