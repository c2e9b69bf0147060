"""Keys for a run: natural ones (`order-123456789:paid`), random UUIDs as text, short ones (`evt-1234567890`).

Rule: no key comes twice in a run, in no order, and the same seed gives the same keys.
"""

import random
import uuid
from collections import defaultdict


def natural(count, seed):
    """An order number and what happened to it; 20 bytes."""
    numbers = random.Random(seed).sample(range(10**9), count)
    return [f"order-{number:09d}:paid" for number in numbers]


def random_uuid(count, seed):
    """Version 4, 36 bytes."""
    source = random.Random(seed)
    return [str(uuid.UUID(int=source.getrandbits(128), version=4)) for _ in range(count)]


def short(count, seed):
    """An event number; 14 bytes."""
    return [f"evt-{number:010d}" for number in random.Random(seed).sample(range(10**10), count)]


MAKERS = {"natural": natural, "uuid": random_uuid, "short": short}


class Supply:
    """Hands out new keys, and duplicates of keys that the same pair of tables was given."""

    def __init__(self, kind, count, seed):
        self._keys = iter(MAKERS[kind](count, seed))
        self._given = defaultdict(list)
        self._random = random.Random(seed + 1)

    def new(self, pair, count):
        """Keys that no table has yet."""
        keys = [next(self._keys) for _ in range(count)]
        self._given[pair] += keys
        return keys

    def claimed(self, pair, count):
        """Keys that the pair was given before, from all of the run and in no order."""
        return self._random.sample(self._given[pair], count)
