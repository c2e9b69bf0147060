"""A small message broker that delivers at least once, as real ones do.

Rule: a batch is gone only when its delivery was acknowledged. A consumer that hangs up with a
delivery unacknowledged has it delivered again, to whoever asks next. On top of that every batch is
delivered twice (a sender that saw no answer in time and sent again), out of order. The schedule is
the same in every run.
"""

import random
from multiprocessing.connection import Listener, wait

SEED = 2013


def schedule(batches):
    """Batch numbers in the order of delivery: each twice, the first a little, the second well out of order."""
    dice = random.Random(SEED)
    times = [(number + dice.uniform(0, 4), number) for number in range(batches)]
    times += [(number + dice.uniform(0, 30), number) for number in range(batches)]
    return [number for _, number in sorted(times)]


class Broker:
    """Serves consumers on a Unix socket; nothing of it is in the database."""

    def __init__(self, address, batches):
        self.batches = batches
        self.queue = schedule(len(batches))
        self.listener = Listener(address, "AF_UNIX")
        self.unacknowledged = {}
        self.deliveries = 0
        self.messages = 0
        self.again = 0

    def serve(self, on_hang_up):
        """Delivers until every delivery is acknowledged; on_hang_up hears of consumers that died."""
        socket = self.listener._listener._socket
        consumers, idle = [], []
        while self.queue or self.unacknowledged:
            for ready in wait([socket, *consumers]):
                if ready is socket:
                    consumers.append(self.listener.accept())
                    continue
                try:
                    request = ready.recv()
                except EOFError:
                    consumers.remove(ready)
                    for number in self.unacknowledged.pop(ready, {}).values():
                        self.queue.insert(0, number)
                        self.again += 1
                    on_hang_up()
                    continue
                if request == "next":
                    idle.append(ready)
                else:
                    del self.unacknowledged[ready][request]
                    if not self.unacknowledged[ready]:
                        del self.unacknowledged[ready]
            while self.queue and idle:
                self._deliver(idle.pop(0))
        for consumer in consumers:
            consumer.close()

    def _deliver(self, consumer):
        number = self.queue.pop(0)
        self.deliveries += 1
        self.messages += len(self.batches[number])
        self.unacknowledged.setdefault(consumer, {})[self.deliveries] = number
        consumer.send((self.deliveries, self.batches[number]))
