"""Ten simulated days of three stores on a real server, the last seven of them sampled.

Rule: every number comes from the queries of postgres_exporter.yml, as an exporter would get it; the clock is the
server's, moved by libfaketime, and what happens in the week is fixed by a seed.
"""

import glob
import json
import math
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from datetime import datetime, timezone

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "pgrx-config")]

from cluster import Cluster
from place import ROOT, Missing, home, say

MINUTE, HOUR, DAY = 60, 3600, 86400
# A Monday, in the past: in a future that real time has not reached no timeout would end a wait.
MONDAY = datetime(2025, 3, 3, tzinfo=timezone.utc).timestamp()
BEFORE, DAYS, STEP = 3, 7, 30 * MINUTE

# name: (retry horizon, claims a minute by day)
STORES = {"orders": ("56 hours", 30), "payments": ("1 day", 12), "clicks": ("16 hours", 80)}


def queries():
    """The queries of the exporter's file, by the name that its metrics begin with."""
    with open(os.path.join(HERE, "postgres_exporter.yml"), encoding="utf-8") as file:
        found = re.findall(r"^(\w+):\n  query: \|\n((?:    .*\n)+)", file.read(), re.MULTILINE)
    return {name: " ".join(sql.split()) for name, sql in found}


def libfaketime():
    """Where the library is, got if it is not installed."""
    tools = subprocess.run([os.path.join(ROOT, "pgrx-config", "servers"), "tools"], stdout=subprocess.PIPE, text=True)
    named = dict(word.split("=", 1) for word in shlex.split(tools.stdout) if "=" in word)
    places = [os.environ.get("PG_ONCE_FAKETIME"), named.get("PG_ONCE_FAKETIME"),
              *glob.glob("/usr/lib/*/faketime/libfaketime.so.1"), "/usr/lib/faketime/libfaketime.so.1"]
    for place in places:
        if place and os.path.exists(place):
            return place
    raise Missing("libfaketime is missing: install the package faketime")


class Psql:
    """One session that answers statement by statement."""

    def __init__(self, program, socket):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        self._process = subprocess.Popen(
            [program, "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-h", socket, "-U", "postgres"],
            env=clean, cwd="/", text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, sql):
        """Sends statements without waiting for what they answer."""
        self._process.stdin.write(sql + ";\n\\echo done\n")
        self._process.stdin.flush()

    def receive(self):
        """The rows that the statements sent before gave."""
        rows = []
        for line in self._process.stdout:
            if line == "done\n":
                return rows
            rows.append(line.rstrip("\n").split("\t"))
        raise Missing("the simulation's SQL failed (see above)")

    def run(self, sql):
        """Sends and receives."""
        self.send(sql)
        return self.receive()

    def close(self):
        """Ends the session."""
        self._process.stdin.close()
        self._process.wait()


class Week:
    """A server with a clock of its own, from `with` to its end."""

    def __init__(self, pg_config):
        self._pg_config = pg_config
        self._clock = os.path.join(home(), "picture", "clock")
        self._cluster = Cluster("picture", {
            "LD_PRELOAD": libfaketime(), "FAKETIME_TIMESTAMP_FILE": self._clock, "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1", "NO_FAKE_STAT": "1"})
        self._random = random.Random(7)
        self._keys = {store: [] for store in STORES}
        self.now = MONDAY - BEFORE * DAY

    def __enter__(self):
        self._remove()
        os.makedirs(self._cluster.folder, exist_ok=True)
        self._at(self.now)
        self._cluster.start(self._pg_config, fsync="off", autovacuum="off", deadlock_timeout="20s",
                            max_wal_size="4GB", timezone="UTC")
        found = subprocess.run([self._pg_config, "--bindir"], stdout=subprocess.PIPE, text=True, check=True)
        psql = os.path.join(found.stdout.strip(), "psql")
        self.main, self.other, self.reader = (Psql(psql, self._cluster.socket) for _ in range(3))
        return self

    def __exit__(self, *_):
        for session in (self.main, self.other, self.reader):
            session.close()
        self._remove()

    def _remove(self):
        self._cluster.stop()
        shutil.rmtree(self._cluster.data, ignore_errors=True)

    def _at(self, instant):
        """Sets the clock; it runs on from there."""
        self.now = instant
        with open(self._clock + ".new", "w", encoding="utf-8") as file:
            file.write(f"{instant - time.time():+.6f}\n")
        os.rename(self._clock + ".new", self._clock)

    # What happens.

    def _claim(self, store, keys):
        if keys:
            listed = ",".join(map(str, keys))
            self.main.run(f"SELECT count(*) FROM once.claim_many('{{{listed}}}', store => '{store}')")

    def _two_at_once(self, store, key, seconds):
        """One consumer works on a message while another gets it, too."""
        self.other.run(f"BEGIN; SELECT once.claim_once('{key}', store => '{store}')")
        self.other.send(f"SELECT pg_sleep({seconds}); COMMIT")
        self.main.run(f"SELECT once.claim_once('{key}', store => '{store}')")
        self.other.receive()

    def _recent(self, store, back, count):
        """Some keys claimed so many steps ago."""
        steps = self._keys[store]
        keys = steps[-1 - back] if back < len(steps) else []
        return self._random.sample(keys, min(len(keys), round(count)))

    def _step(self, begin, number):
        draw, hour = self._random, (begin - MONDAY) / HOUR
        unacknowledged = 34 <= hour < 37.5
        for store, (_, rate) in STORES.items():
            by_day = 0.25 + 0.75 * max(0.0, math.sin((hour % 24 - 5) / 24 * 2 * math.pi)) ** 0.7
            weekend = 0.5 if hour % 168 >= 120 else 1
            count = round(rate * STEP / MINUTE * by_day * weekend * draw.uniform(0.93, 1.07))
            self._keys[store].append([number * 100_000 + n for n in range(count)])
            self._claim(store, self._keys[store][-1])
        # Redeliveries: at once, after minutes, after hours.
        for offset, share, back in ((20, 0.012, 0), (4 * MINUTE, 0.006, 0), (18 * MINUTE, 0.004, 2), (22 * MINUTE, 0.0015, 9)):
            self._at(begin + offset)
            for store in STORES:
                mean = len(self._keys[store][-1]) * share
                self._claim(store, self._recent(store, back, mean * draw.uniform(0.4, 1.6)))
        if unacknowledged:
            for offset, share in ((6, 0.3), (9, 0.25), (13, 0.2)):
                self._at(begin + offset * MINUTE)
                self._claim("orders", self._recent("orders", 0, len(self._keys["orders"][-1]) * share))
        if 78 <= hour < 80:
            # What the broker of payments kept back comes again after eight to eleven hours.
            for back in (17, 19, 21):
                self._claim("payments", self._recent("payments", back, 60))
        if 129 <= hour < 132:
            # Dead letters of two days are replayed by hand, in a hold.
            for back in range(96, 144, 4):
                self._claim("orders", self._recent("orders", back + draw.randrange(4), 25))
        for store in STORES:
            for n in range(draw.choice((3, 4, 5)) if unacknowledged and store == "orders" else draw.random() < 0.2):
                self._two_at_once(store, f"{number}-{n}", 0.2 if unacknowledged else draw.uniform(0.01, 0.06))

    def _ask(self, sql):
        """The rows of a query, by column."""
        return [json.loads(row) for row, in self.main.run(f"SELECT row_to_json(q) FROM ({sql}) q")]

    def _events(self, hour):
        if hour == 128.5:
            self.main.run("SELECT once.hold('orders', 'replaying the dead letters of two days', now() + interval '5 hours')")
        if hour == 132.5:
            self.main.run("SELECT once.unhold('orders')")
        if hour == 92:
            # A report is left open over night, and the drop of a day has to wait for it.
            self.reader.run("BEGIN; SELECT count(*) FROM once.clicks")
        if hour == 104.5:
            self.reader.run("COMMIT")

    def samples(self):
        """Runs the days; gives (hours since Monday, {query: rows}) for each step of the week."""
        self.main.run("SET client_min_messages = error; CREATE EXTENSION pg_once; SET DateStyle = 'ISO'")
        for store, (horizon, _) in STORES.items():
            self.main.run(f"SELECT once.create_store('{store}', retry_horizon => '{horizon}')")
        steps = (BEFORE + DAYS) * DAY // STEP
        asked = queries()
        for number in range(steps + 1):
            begin = MONDAY - BEFORE * DAY + number * STEP
            hour = (begin - MONDAY) / HOUR
            self._at(begin + 1)
            self._events(hour)
            # From Wednesday to Thursday nobody runs maintenance.
            if number % 2 == 0 and not 54 <= hour < 84:
                self.main.run("CALL once.maintain()")
            if hour >= 0:
                yield hour, {name: self._ask(sql) for name, sql in asked.items()}
            elif hour % 24 == 0:
                say(f"{-hour / 24:.0f} days before the week")
            if hour >= 0 and hour % 24 == 0:
                say(f"day {hour / 24 + 1:.0f} of the week" if hour < DAYS * 24 else "the week is over")
            self._step(begin + 2, number)
