"""Clients by pgbench: a claim and one UPDATE in a transaction, and many clients on few keys.

Rule: each side sends what its user would send; statements are prepared, every transaction commits
for itself and waits for its commit, and the sides take turns in every round.
"""

import os
import tempfile

PAIR = "n30"
COUNTS = (1, 8, 32)
ACCOUNTS = 100_000

SETUP = f"""
CREATE TABLE bench.account (id integer PRIMARY KEY, cents bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO bench.account SELECT n, 0 FROM generate_series(1, {ACCOUNTS}) AS n;
CREATE SEQUENCE bench.turn;
VACUUM ANALYZE bench.account;
"""

CLAIM = {
    "once": f"SELECT once.claim_once({{key}}, '7 days', '', '{PAIR}') AS mine",
    "plain": f"INSERT INTO bench_{PAIR}.plain (claimed_at, expires_at, key, effect) "
             "VALUES (clock_timestamp(), clock_timestamp() + '7 days', {key}, '') ON CONFLICT DO NOTHING RETURNING true AS mine",
    "hand": f"SELECT bench_{PAIR}.hand_claim({{key}}) AS mine",
}

# Nine digits in each, so that keys have twenty bytes; a number that comes again is a duplicate on every side.
SPREAD = r"""\set id random(1, {accounts})
\set n random(100000000, 999999999)
BEGIN;
{claim};
UPDATE bench.account SET cents = cents + 1 WHERE id = :id;
END;
"""

# 640 transactions draw from the same 64 keys, so nine in ten find a key that is taken or being taken. Whoever
# gets one does the work; no row comes back for a duplicate of an INSERT, which \aset takes and \gset would not.
HOT = r"""\set id random(1, {accounts})
\set slot random(1, 64)
\set mine false
SELECT nextval('bench.turn') / 640 AS age \gset
BEGIN;
{claim} \aset
\if :mine
UPDATE bench.account SET cents = cents + 1 WHERE id = :id;
\endif
END;
"""


class Clients:
    """The pgbench runs of all rounds."""

    def __init__(self, server):
        self._server = server
        self._folder = tempfile.TemporaryDirectory(prefix="pg_once-bench-")
        self.runs = [("spread", side, clients) for clients in COUNTS for side in ("once", "plain", "hand")]
        self.runs += [("hot", side, 32) for side in ("once", "plain")]
        self.samples = []
        server.run(SETUP)

    def _script(self, work, side):
        # pgbench takes a colon before a letter for a variable of its own, in a literal too. The sides draw their
        # turns from one sequence but write to tables of their own.
        key = {"spread": "'order-' || :n || ':' || 'sent'", "hot": "'hot-' || :slot || ':' || :age"}[work]
        body = {"spread": SPREAD, "hot": HOT}[work].format(accounts=ACCOUNTS, claim=CLAIM[side].format(key=key))
        path = os.path.join(self._folder.name, f"{work}-{side}.sql")
        with open(path, "w", encoding="utf-8") as file:
            file.write(body)
        return path

    def round(self, number, seconds):
        """Every run once; round 0 is thrown away."""
        for work, side, clients in self.runs if number % 2 else reversed(self.runs):
            rate = self._server.pgbench(self._script(work, side), clients, seconds)
            if number:
                self.samples.append({"round": number, "work": work, "side": side, "clients": clients, "seconds": seconds, "tps": rate})
        self._server.run("VACUUM bench.account")

    def close(self):
        """Removes the scripts."""
        self._folder.cleanup()
