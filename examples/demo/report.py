"""Shows the two handlers beside one clean delivery, for a person with half a minute.

Rule: every figure is read from the database or was counted by the broker; none is derived from what
it ought to be.
"""

TABLES = ("carrier_day", "delayed_flight")


def figures(connection, variant, messages):
    """What one variant came to, and whether all of it is as after the clean delivery."""
    def one(query, *values):
        return connection.execute(query, values).fetchone()

    processed, refused = one(f"SELECT sum(processed), sum(refused) FROM {variant}.delivery")
    wrong = {table: one(f'SELECT count(*) FROM {variant}.wrong WHERE "table" = %s', table)[0] for table in TABLES}
    equal = not any(wrong.values()) and processed + refused == messages
    return equal, {
        "messages delivered": messages,
        "processed": processed,
        "refused": refused,
        "departures counted": one(f"SELECT sum(departures) FROM {variant}.carrier_day")[0],
        "delayed flights listed": one(f"SELECT count(*) FROM {variant}.delayed_flight")[0],
        "wrong rows in carrier_day": wrong["carrier_day"],
        "wrong rows in delayed_flight": wrong["delayed_flight"],
        "same as one clean delivery": "YES" if equal else "NO",
    }


def show(connection, log, delivered):
    """Prints the comparison; true when the end state with claim_once equals the clean one."""
    columns = {variant: figures(connection, variant, what["messages"]) for variant, what in delivered.items()}
    killed, again = delivered["with_once"]["killed"], delivered["with_once"]["again"]
    print(f"""
What happens if a consumer dies between its commit and its ack?

{sum(map(len, log)):,} departures from New York in January 2013, one message each, in batches of {len(log[0])}.
Every batch is delivered twice, out of order, to two consumers at once; {killed} consumer is killed after its
commit and before its ack, so {again} batch comes once more.
""")
    print(f"{'':30}{'clean':>12}{'naive':>12}{'claim_once':>12}")
    for name in columns["clean"][1]:
        cells = [columns[variant][1][name] for variant in delivered]
        print(f"{name:30}" + "".join(f"{cell if isinstance(cell, str) else f'{cell:,}':>12}" for cell in cells))
    print("\nThe handlers differ in one line:  IF NOT once.claim_once(key, '7 days') THEN RETURN false; END IF;")
    for variant in delivered:
        differences(connection, variant)
    return columns["with_once"][0]


def differences(connection, variant):
    """The first rows of each table that are not as after one clean delivery."""
    rows = []
    for table in TABLES:
        rows += connection.execute(f"""SELECT "table", "row", clean, here FROM {variant}.wrong
                                        WHERE "table" = %s LIMIT 2""", (table,)).fetchall()
    if rows:
        print(f"\nWrong in {variant}, for example (all of it: SELECT * FROM {variant}.wrong;):")
    for table, row, clean, here in rows:
        print(f"  {table:15} {row:22} {here}, not {clean}")
