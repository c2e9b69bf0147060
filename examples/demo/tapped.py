"""The double tap of the demo: is a handler ready for duplicates, before the first one comes?

Rule: the report is printed as once.double_tap_report gives it, less what repeats itself.
"""

import os

HERE = os.path.dirname(os.path.abspath(__file__))
CALL = """SELECT once.double_tap_report('SELECT * FROM double_tap.message ORDER BY number',
    %s::regprocedure, '{double_tap.flight,double_tap.carrier,double_tap.late_notice}')"""
FAULTS = ("double_tap.flight, column seen_at:", "double_tap.flight, column created_by:",
          "double_tap.carrier, column departures:", "double_tap.late_notice:")


def load(connection, log):
    """Makes the tables and handlers, and puts the log into one of them."""
    with open(os.path.join(HERE, "double_tap.sql"), encoding="utf-8") as file:
        connection.execute(file.read())
    messages = [message for batch in log for message in batch]
    with connection.cursor() as cursor, cursor.copy("COPY double_tap.message FROM STDIN") as copy:
        for number, message in enumerate(messages, 1):
            copy.write_row((number, *message))
    connection.execute("ANALYZE double_tap.message")


def show(connection, log):
    """Prints both reports; true where the faults are found, and nothing is left of them in the mended form."""
    load(connection, log)
    faulty, mended = (connection.execute(CALL, [f"double_tap.{handler}(double_tap.message)"]).fetchone()[0]
                      for handler in ("handle_with_faults", "handle_mended"))
    print("""
Is a pipeline ready for duplicates, before the first one comes? Every message is handed over twice, and rolled back.

A handler with four faults, none of which harms as long as every message comes once:
""")
    print("    " + faulty.replace("\n", "\n    "))
    print("\nThe same behind once.claim_once:\n\n    " + mended.replace("\n", "\n    "))
    return faulty.startswith("NOT READY") and all(fault in faulty for fault in FAULTS) and mended.startswith("READY")
