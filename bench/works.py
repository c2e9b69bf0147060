"""What is measured, against what, and what must come out.

Rule: both sides of a work get the same keys and end with the same rows; a target is never dropped
or loosened here to make a run pass.
"""

from dataclasses import dataclass

# One line a reason. Everything else is as PostgreSQL ships it: fsync, synchronous_commit and
# full_page_writes are on.
SETTINGS = {
    "shared_buffers": "2GB",              # both tables fit: measured is the work, not the disk
    "max_wal_size": "32GB",               # with checkpoint_timeout: no checkpoint inside a round
    "min_wal_size": "3GB",                # segments are kept and used again, as on a server that has been up for a day
    "checkpoint_timeout": "1d",
    "wal_buffers": "64MB",
    "bgwriter_lru_maxpages": "0",         # nobody else writes pages meanwhile
    "autovacuum": "off",                  # VACUUM runs between the timed parts, on both tables
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "timezone": "UTC",                    # the plain table's "+ interval" at its cheapest
}
# Printed and kept with the results, beside the ones set above.
DEFAULTS_SHOWN = ("fsync", "synchronous_commit", "full_page_writes", "wal_level", "data_checksums", "server_encoding",
                  "huge_pages", "pg_once.precreate_days", "pg_once.max_key_bytes", "pg_once.default_retention")

SINGLE = 100_000
ARRAY = 200_000
ROUNDS = 7


@dataclass(frozen=True)
class Work:
    """One thing to do with some keys, on either side by a function of pair.sql."""

    name: str
    pair: str                   # which pair of tables
    label: str
    duplicate: bool
    keys: int
    once: str
    plain: str
    time: float | None = None   # target: time of pg_once / time of ON CONFLICT; None: shown, not judged
    wal: float | None = None    # target for WAL bytes a key: a ratio; 0: not one byte


# In this order in every round. A statement is what a client sends; an expression is `IF once.claim_once(..)`.
# Keys in the order of a batch shape an index otherwise than single ones, and pages that were filled alike split
# all at once, so works that insert in another order have tables of their own.
WORKS = (
    Work("new", "single", "new key, a statement each", False, SINGLE, "once_statement", "plain_statement", time=0.85, wal=0.8),
    Work("new_if", "single", "new key, in an IF", False, SINGLE, "once_expression", "plain_statement", time=0.85, wal=0.8),
    Work("duplicate", "single", "duplicate, a statement each", True, SINGLE, "once_statement", "plain_statement", time=1.0, wal=0),
    Work("duplicate_if", "single", "duplicate, in an IF", True, SINGLE, "once_expression", "plain_statement", time=1.0, wal=0),
    Work("array", "array", "array of new keys", False, ARRAY, "once_array", "plain_array", time=0.55, wal=0.8),
    Work("array_again", "array", "array of duplicates", True, ARRAY, "once_array", "plain_array", wal=0),
    Work("sorted", "sorted", "array, INSERT sorts it first", False, ARRAY, "once_array", "plain_array_sorted"),
)

# Which works for which keys: all of them for natural keys, what has a meaning of its own for the others.
PLANS = {
    "natural": tuple(work.name for work in WORKS),
    "uuid": ("new", "duplicate", "array"),
    "short": ("new",),
}


def wal_target(work, kind):
    """The target for WAL, where it is judged.

    One row at a time, what is saved is one record of 48 bytes, and the rest is the same row on both sides: the
    ratio is a matter of the key's length. The target was set with keys of 14 bytes and is judged there; that of
    longer keys is shown. Rows written together are judged with every kind of key.
    """
    alone = work.keys == SINGLE and not work.duplicate
    return None if alone and kind != "short" else work.wal
