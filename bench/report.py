"""Results as a table, as JSON and as charts.

Rule: every row of targets.rows is shown, whatever it holds, and so is every figure it was made of.
"""

import json
import os
from statistics import median

import charts
import targets
from targets import Figures

SIDES = {"once": "pg_once", "plain": "(a)", "hand": "(b)", "sorted": "(d)", "updates": "(e)"}
WORKS = {"new": "new key", "today": "duplicate of today", "oldest": "duplicate of the oldest day", "array": "array",
         "answer": "claim and answer", "effect": "effect begun and completed"}


def _number(value):
    """Three figures, or all before the point."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if value else "0"


def table(rows):
    """The judged lines: median or what is judged (smallest..largest)."""
    lines = []
    for row in rows:
        lines.append(f"{row.name}: {'met' if row.met else 'MISSED'}")
        for line in row.lines:
            spread = f"({_number(min(line.values))}..{_number(max(line.values))})" if line.values else ""
            lines.append(f"    {line.label:56} {line.target():20} {_number(line.figure):>8} {spread:18} "
                         f"{'met' if line.met else 'MISSED'}{', ' + line.note if line.note else ''}".rstrip())
    return "\n".join(lines)


def figures(results):
    """What the lines were made of: [what, who, where, unit, median, smallest, largest]."""
    f, found = Figures(results), []

    def add(what, who, where, unit, values):
        if values:
            found.append({"what": what, "who": who, "where": where, "unit": unit, "median": median(values),
                          "min": min(values), "max": max(values), "rounds": len(values)})

    for work, side, pair in dict.fromkeys((s["work"], s["side"], s["pair"]) for s in results["loops"]):
        add(WORKS[work], SIDES[side], pair, "us a key", list(f.loop(work, side, pair).values()))
        add(WORKS[work], SIDES[side], pair, "bytes of WAL a key", list(f.loop(work, side, pair, "wal_bytes", 1).values()))
    for work, side, clients in dict.fromkeys((s["work"], s["side"], s["clients"]) for s in results["clients"]):
        add("transaction" if work == "spread" else "hot keys", SIDES[side], f"{clients} clients", "a second", list(f.tps(work, side, clients).values()))
    for side, who, what in (("once", SIDES["once"], "retiring a day"), ("plain", SIDES["plain"], "DELETE and VACUUM"),
                            ("idle", SIDES["once"], "a pass without work"), ("bare", "PostgreSQL", "DROP TABLE alone")):
        add(what, who, "days", "s", [s[side]["seconds"] for s in results["retired"]])
        add(what, who, "days", "bytes of WAL", [s[side]["wal_bytes"] for s in results["retired"]])
    add("sealing a day", SIDES["once"], "days", "s", [s["seconds"] for s in results["seals"]])
    for side in ("once", "plain"):
        add("bytes on disk", SIDES[side], "grown", "bytes a row", [s[side] for s in results["sizes"]])
    return found


def shown(results):
    """The figures for people, and what else a reader wants to know."""
    lines = [f"{'':28} {'':8} {'':12} {'median':>10}   smallest..largest"]
    for one in figures(results):
        lines.append(f"{one['what']:28} {one['who']:8} {one['where']:12} {_number(one['median']):>10}   "
                     f"{_number(one['min'])}..{_number(one['max'])} {one['unit']}")
    lines.append(f"full-page images in the loops: {sum(s['full_page_images'] for s in results['loops'])}")
    lines.append(f"locks after a claim: {results['locks']}; filters: {results['filters'] or 'none'}; memory: {results['memory']}")
    return "\n".join(lines)


def write(folder, name, about, rows, results):
    """Everything as JSON, one sample a line, and the charts."""
    os.makedirs(folder, exist_ok=True)
    judged = [{"row": row.name, "met": row.met, "lines": [
        {"label": line.label, "target": line.target(), "figure": line.figure, "min": min(line.values, default=None),
         "max": max(line.values, default=None), "measured": len(line.values), "met": line.met, "note": line.note} for line in row.lines]} for row in rows]
    body = {"about": about, "targets": judged, "figures": figures(results),
            "once": {key: results[key] for key in ("plan", "locks", "filters", "memory", "sizes", "loaded")}}
    samples = [json.dumps({"of": key, **sample}) for key in ("loops", "clients", "retired", "seals") for sample in results[key]]
    with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(body, indent=1)[:-2] + ',\n "samples": [\n  ' + ",\n  ".join(samples) + "\n ]\n}\n")
    for chart, drawn in (("days", charts.days(results, about)), ("targets", charts.targets(rows, about))):
        with open(os.path.join(folder, f"{name}-{chart}.svg"), "w", encoding="utf-8") as file:
            file.write(drawn)


def finish(folder, major, about, results):
    """Prints and writes everything; the exit code, which is 0 only if every row is met."""
    rows = targets.rows(results)
    print(f"PostgreSQL {about['server']}, {about['cores']} cores ({about['processor']}), {about['memory_gb']} GB, {about['rounds']} rounds, "
          f"{about['date']}, commit {about['commit']}, {about['seconds']} s, {about['plan']} run")
    print(", ".join(f"{name} = {value}" for name, value in about["settings"].items()))
    print("stores: " + ", ".join(f"{p['name']} {p['days']} days, {p['today']:,} rows today and {p['older']:,} a day before" for p in results["plan"]["pairs"]))
    print("\n" + shown(results) + "\n\n" + table(rows) + "\n")
    write(folder, f"postgresql-{major}", about, rows, results)
    missed = sum(not row.met for row in rows)
    print(f"{missed} of {len(rows)} rows of the table are missed" if missed else "every target is met")
    return 1 if missed else 0
