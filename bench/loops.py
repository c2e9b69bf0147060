"""Claims in a loop on the server and as arrays: in each round every contender on its own keys, in one backend.

Rule: the timed parts hold the work and nothing else, keys come between them, who goes first takes
turns, and an answer that is not what the keys say ends the run: figures of wrong work are worth nothing.
"""

import json
from dataclasses import dataclass

from keys import Supply
from place import Missing
from plan import ANSWERS

SEED = 20_240_229
# Each round says how many keys fit into the time of a measurement of the next; round 0, which is thrown away, has so many.
TRIAL = 300
# Of the hand-made version, which is dearer than all the others.
HAND = "n30"


@dataclass(frozen=True)
class Line:
    """One measurement of a round."""

    work: str       # new, today, oldest, array; answer, effect: a new key with its answer
    side: str       # once, plain, hand, sorted, updates
    pair: str
    keys: int
    new: bool

    @property
    def part(self):
        """The keys it works on: the same for both sides of a pair, others for the hand-made version."""
        return f"{self.work}-{self.pair}" + ("-hand" if self.side == "hand" else "")

    def script(self):
        """Prints one JSON line."""
        loop = {"once": "once_", "plain": "plain_", "hand": "hand_", "sorted": "copy_", "updates": "updates_"}[self.side]
        loop += {"array": "sorted" if self.side == "sorted" else "array", "answer": "answer", "effect": "effect"}.get(self.work, "each")
        lines = []
        if self.side == "sorted":
            lines.append(f"SELECT bench_{self.pair}.write_sorted(keys) FROM bench.input WHERE part = '{self.part}';")
        lines.append(f"SELECT jsonb_build_object('work', '{self.work}', 'side', '{self.side}', 'pair', '{self.pair}') "
                     f"|| bench.measure('bench_{self.pair}.{loop}', '{self.part}');")
        if (self.work, self.side) == ("new", "plain") and self.pair in ("n1", "u1"):
            # The limit's table gets what its neighbours got.
            lines.append(f"INSERT INTO bench_{self.pair}.sorted (claimed_at, expires_at, key, effect) SELECT now(), now() + interval '7 days', k, '' "
                         f"FROM bench.input, unnest(keys) AS k WHERE part = '{self.part}';")
        if self.pair == ANSWERS and self.side == "once" and self.work in ("new", "answer", "effect"):
            # So do the tables beside the store, of keys that they are not measured with.
            table = f"bench_{self.pair}." + ("plain" if self.work == "effect" else "effect")
            lines.append(f"INSERT INTO {table} (claimed_at, expires_at, key, effect) SELECT now(), now() + interval '7 days', k, '' "
                         f"FROM bench.input, unnest(keys) AS k WHERE part = '{self.part}';")
        return "\n".join(lines)


class Loops:
    """All rounds of them."""

    def __init__(self, server, plan):
        self._server, self._plan = server, plan
        self._supply = {kind: Supply(kind, SEED) for kind in ("natural", "uuid")}
        self._single = {(work, pair.name): TRIAL for work in ("new", "today", "oldest", "answer", "effect")
                        for pair in plan.pairs}
        self._array = plan.array // 20
        self.samples = []

    def _lines(self, kind):
        for pair in (pair for pair in self._plan.pairs if pair.kind == kind):
            sides = [("new", "once"), ("new", "plain")]
            if pair.name == HAND:
                sides.append(("new", "hand"))
            if pair.name == ANSWERS:
                sides += [("answer", "once"), ("answer", "plain"), ("effect", "once"), ("effect", "updates")]
            if pair.days == 1:
                sides += [("today", "once"), ("today", "plain")]
            if pair.days == 30:
                sides += [("oldest", "once"), ("oldest", "plain")]
            if pair.array:
                sides += [("array", "once"), ("array", "plain")] + ([("array", "sorted")] if pair.days == 1 else [])
            for work, side in sides:
                count = self._array if work == "array" else self._plan.hand if side == "hand" else self._single[work, pair.name]
                yield Line(work, side, pair.name, count, new=work in ("new", "array", "answer", "effect"))

    def _keys(self, kind, line):
        pair = self._plan.pair(line.pair)
        if line.new:
            return self._supply[kind].new(line.keys)
        days_ago = 0 if line.work == "today" else pair.days - 1
        return self._supply[kind].of_day(days_ago, pair.older if days_ago else pair.today, line.keys)

    def round(self, number, kind):
        """One round for one kind of keys."""
        lines = list(self._lines(kind))
        parts = {}
        for line in lines:
            if line.part not in parts:
                parts[line.part] = self._keys(kind, line)
        rows = "".join(f"{part}\t{{{','.join(keys)}}}\n" for part, keys in parts.items())
        script = [f"TRUNCATE bench.input;\nCOPY bench.input FROM STDIN;\n{rows}\\.\n"]
        script += [line.script() for line in (lines if number % 2 else reversed(lines))]
        for said in map(json.loads, self._server.run("\n".join(script))):
            line = next(line for line in lines if (line.work, line.side, line.pair) == (said["work"], said["side"], said["pair"]))
            if (said["keys"], said["claimed"]) != (line.keys, line.keys if line.new else 0):
                raise Missing(f"{said['loop']} claimed {said['claimed']} of {said['keys']} keys, which were {'new' if line.new else 'duplicates'}")
            if number:
                self.samples.append({"round": number, **said})
            if line.side == "once" and line.work != "array":
                # Of the next round, on both sides.
                fit = self._plan.single_seconds / (said["seconds"] / said["keys"])
                self._single[line.work, line.pair] = max(min(self._plan.single, int(fit)), TRIAL)
        if number == 0 and kind == "uuid":
            self._array = self._plan.array

    def new_keys(self, kind, count):
        """Keys for whatever else claims."""
        return self._supply[kind].new(count)

    def keys_of_day(self, pair, days_ago, count):
        """Keys of a day that a store was filled with."""
        return self._supply[pair.kind].of_day(days_ago, pair.older if days_ago else pair.today, count)
