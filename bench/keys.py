"""Keys by number: natural ones (`order-123456789:paid`, 20 bytes) and random UUIDs as text (36 bytes).

Rule: a slot (a day of a store, or one of those from which new keys come) and a number in it make a
key, here and in load.sql alike, and no two make the same.
"""

import hashlib
import random

SLOTS, NEW = 128, 90        # slots 0..89: so many days ago; 90..127: new keys
A_SLOT = 1_000_000
STRIDE = 7


def natural(slot, number):
    """An order number and what happened to it; the numbers of a slot are spread over all of them."""
    spread = number * STRIDE + ((number * 40503) >> 3) % STRIDE
    return f"order-{slot + SLOTS * spread:09d}:paid"


def uuid(slot, number):
    """Version 4."""
    m = hashlib.md5(f"{slot}-{number}".encode()).hexdigest()
    return f"{m[:8]}-{m[8:12]}-4{m[13:16]}-a{m[17:20]}-{m[20:32]}"


MAKERS = {"natural": natural, "uuid": uuid}


class Supply:
    """Hands out keys of one kind: new ones in random order, each once in a run, and ones that a day was filled with."""

    def __init__(self, kind, seed):
        self._make = MAKERS[kind]
        self._random = random.Random(seed)
        self._new = self._numbers()

    def _numbers(self):
        for slot in range(NEW, SLOTS):
            for number in self._random.sample(range(A_SLOT), A_SLOT):
                yield slot, number

    def new(self, count):
        """Keys that no table has yet."""
        return [self._make(*next(self._new)) for _ in range(count)]

    def of_day(self, days_ago, rows, count):
        """Keys of a day that was filled with so many rows."""
        return [self._make(days_ago, number) for number in self._random.choices(range(rows), k=count)]
