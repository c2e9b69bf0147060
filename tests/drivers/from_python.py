"""What a consumer in Python does with psycopg: one transcript, compared with every other driver's.

    from_python.py SOCKET_FOLDER PORT DATABASE direct|pooled

Rule: the driver's own defaults, with one exception: behind a transaction pooler nothing is prepared on
the server, because the next transaction may run on another connection.
"""

import sys
import uuid
from datetime import timedelta

import psycopg

HOUR = timedelta(hours=1)


def say(*words):
    """One line; truth as every driver's program writes it."""
    print(*(str(word).lower() if isinstance(word, bool) else word for word in words))


def claim(connection, key):
    """The claim as a handler makes it."""
    return connection.execute("SELECT once.claim_once(%s, %s)", [key, HOUR]).fetchone()[0]


def run(connection):
    """The whole transcript."""
    # psycopg opens a transaction with the first statement by itself.
    say("claim", claim(connection, "order-1"), claim(connection, "order-1"))
    connection.execute("INSERT INTO work VALUES (%s)", ["order-1"])
    connection.commit()
    say("redelivered", claim(connection, "order-1"))
    connection.commit()

    say("fails later", claim(connection, "order-2"))
    try:
        connection.execute("SELECT 1 / %s::int", [0])
    except psycopg.Error as error:
        say("error", error.sqlstate)
    connection.rollback()
    say("again", claim(connection, "order-2"))
    connection.commit()

    connection.execute("SAVEPOINT s")
    first = claim(connection, "order-3")
    connection.execute("ROLLBACK TO SAVEPOINT s")
    say("savepoint", first, claim(connection, "order-3"), claim(connection, "order-3"))
    connection.commit()

    # Often enough for any driver to prepare it.
    for word in ("first", "second"):
        answers = []
        for number in range(10):
            answers.append(claim(connection, f"often-{number}"))
            connection.commit()
        say(word, *answers)
    prepared = connection.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%claim_once%'")
    say("prepared", prepared.fetchone()[0] > 0)
    connection.commit()

    token = uuid.UUID("0191b6a8-2f3c-7d4e-8a9b-123456789abc")
    say("uuid", claim(connection, token), claim(connection, str(token)))
    say("bigint", claim(connection, 4711), claim(connection, "4711"))
    many = connection.execute("SELECT key, claimed FROM once.claim_many(%s, %s)", [["b", "order-1", "a", "b"], HOUR])
    say("many", *(word for row in many for word in row))
    say("outcome", connection.execute("SELECT outcome FROM once.claim(%s, %s)", ["a", HOUR]).fetchone()[0])
    connection.commit()


def main():
    """The command line."""
    host, port, database, way = sys.argv[1:]
    with psycopg.connect(host=host, port=port, dbname=database, user="postgres") as connection:
        if way == "pooled":
            connection.prepare_threshold = None
        run(connection)


main()
