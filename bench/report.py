"""From samples to figures: medians, spread, ratios, and whether each target is met.

Rules: a target for time is judged by the median of the ratios of the rounds, in each of which both
sides ran next to each other. A target for WAL is judged by the bytes of all rounds together: they are
counted, not timed, and rounds in which many index pages split outweigh others by their nature. None
means none: not one byte in any round.
"""

import json
import os
from statistics import median

from works import PLANS, WORKS, wal_target

TIME, WAL = "server time, us a key", "WAL, bytes a key"


def _spread(values):
    return {"median": median(values), "mean": sum(values) / len(values), "min": min(values), "max": max(values)}


def _row(what, work, kind, once, plain, target):
    """One line of the table; once and plain are figures a key, one a round, in the same order."""
    row = {"what": what, "work": work.label, "keys": kind, "keys_a_round": work.keys, "once": _spread(once), "plain": _spread(plain)}
    if min(plain) > 0:
        row["ratio"] = _spread([a / b for a, b in zip(once, plain)])
        row["ratio_of_medians"] = median(once) / median(plain)
        row["ratio_of_totals"] = sum(once) / sum(plain)
    if target is not None:
        judged = row["ratio"]["median"] if what == TIME else max(once) if target == 0 else row["ratio_of_totals"]
        row.update(target=target, judged=judged, met=judged <= target)
    return row


def rows(results):
    """Every line of the table, for {kind of keys: what rounds.run returned}."""
    made = []
    for what in (TIME, WAL):
        for kind, result in results.items():
            for work in (work for work in WORKS if work.name in PLANS[kind]):
                # None at all is asked of the backend, where no other process can spoil it; volume, of the WAL itself.
                figure, unit, target = ("seconds", 1e6, work.time) if what == TIME else \
                    ("own_wal_bytes" if work.duplicate else "wal_bytes", 1, wal_target(work, kind))
                once, plain = ([s[figure] * unit / s["keys"] for s in result["samples"]
                                if (s["work"], s["side"]) == (work.name, side)] for side in ("once", "plain"))
                made.append(_row(what, work, kind, once, plain, target))
    return made


def _figure(spread, digits):
    return f"{spread['median']:.{digits}f} ({spread['min']:.{digits}f}..{spread['max']:.{digits}f})"


def table(made):
    """The lines as a person reads them: median (smallest..largest) of the rounds."""
    lines = []
    for what, digits in ((TIME, 2), (WAL, 1)):
        second = "of medians" if what == TIME else "of totals"
        lines += [what, f"{'':29} {'keys':8} {'pg_once':22} {'ON CONFLICT':22} {'ratio of each round':20} {second:11} target"]
        for row in (row for row in made if row["what"] == what):
            ratio = other = "-"
            if "ratio" in row:
                ratio = _figure(row["ratio"], 2)
                other = f"{row['ratio_of_medians' if what == TIME else 'ratio_of_totals']:.3f}"
            target = ""
            if "target" in row:
                target = ("= 0   " if row["target"] == 0 else f"<= {row['target']:.2f}") + ("  met" if row["met"] else "  MISSED")
            lines.append(f"{row['work']:29} {row['keys']:8} {_figure(row['once'], digits):22} "
                         f"{_figure(row['plain'], digits):22} {ratio:20} {other:11} {target}".rstrip())
        lines.append("")
    return "\n".join(lines)


def _beside(result):
    """What is shown without a target."""
    pages = {side: sum(s["full_page_images"] for s in result["samples"] if s["side"] == side) for side in ("once", "plain")}
    return {"empty_loop_us": median(result["loop"]) * 1e6, "full_page_images": pages, "tables": result["sizes"]}


def beside(results):
    """The same for a person."""
    lines = []
    for kind, shown in ((kind, _beside(result)) for kind, result in results.items()):
        lines.append(f"{kind} keys: the empty loop takes {shown['empty_loop_us']:.2f} us a key; full-page images in the "
                     f"timed parts: {shown['full_page_images']['once']} and {shown['full_page_images']['plain']}")
        for pair, sizes in shown["tables"].items():
            once, plain = (sizes[name] / sizes["rows"] for name in ("once_bytes", "plain_bytes"))
            lines.append(f"    tables of {pair + ':':8} {sizes['rows']:,} rows, bytes on disk a row {once:.1f} and {plain:.1f}")
    return "\n".join(lines)


def write(path, about, made, results):
    """Everything as JSON, one sample a line."""
    body = {"about": about, "figures": made, "beside": {kind: _beside(result) for kind, result in results.items()}}
    samples = [json.dumps({"kind": kind, **sample}) for kind, result in results.items() for sample in result["samples"]]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(body, indent=1)[:-2] + ',\n "samples": [\n  ' + ",\n  ".join(samples) + "\n ]\n}\n")
