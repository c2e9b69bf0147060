"""A consumer process: takes a batch, handles it in one transaction, commits, acknowledges.

Rule: commit first, acknowledge second. Whoever dies in between gets the batch again, and whether
that does harm is the handler's business.
"""

import os
import signal
from multiprocessing.connection import Client

import psycopg


def handle(connection, handler, batch):
    """Handles a batch in the open transaction: how many messages were processed and how many refused."""
    # In one order, so that two consumers never wait for each other's counters crosswise.
    in_order = sorted(batch, key=lambda message: (message[1], message[2], message[0]))
    processed = 0
    with connection.cursor() as cursor:
        cursor.executemany(f"SELECT {handler}(%s, %s, %s, %s)", in_order, returning=True)
        while True:
            processed += cursor.fetchone()[0]
            if not cursor.nextset():
                break
    return processed, len(batch) - processed


def consume(broker, database, variant, handler, number, dies_at):
    """Works until the broker hangs up. At delivery dies_at, or the first after, it is killed after its commit."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the demo's to answer
    with Client(broker, "AF_UNIX") as inbox, psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"SET search_path = {variant}")
        while True:
            try:
                inbox.send("next")
                delivery, batch = inbox.recv()
            except (EOFError, ConnectionError):
                return
            with connection.transaction():
                counts = handle(connection, handler, batch)
                connection.execute("INSERT INTO delivery VALUES (%s, %s, %s, %s)", (delivery, number, *counts))
            if dies_at is not None and delivery >= dies_at:
                os.kill(os.getpid(), signal.SIGKILL)  # committed, not acknowledged
            inbox.send(delivery)
