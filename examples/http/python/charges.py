"""POST /charges, which calls a payment provider: what is outside cannot be rolled back, so it is leased.

    uvicorn charges:app         PROVIDER is the provider's URL, LEASE how long one attempt may take

Rule: the lease is committed before the provider is called, and the provider gets the same key on every
attempt. Whoever dies in between, exactly one other takes over when the lease ends, and charges nothing twice.
"""

import os

import httpx
import psycopg
from fastapi import HTTPException, Response
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

from payments import Account, Key, Payment, app, final, pool, problem, respond

PROVIDER = os.environ.get("PROVIDER", "http://localhost:9000/charges")
# Longer than TIMEOUT: while it lasts, nobody else calls.
LEASE, TIMEOUT = os.environ.get("LEASE", "30 seconds"), 10

ONE_EFFECT = "effect => 'POST /charges', store => 'requests'"
BEGIN = f"""SELECT outcome, fence, downstream_key, result
              FROM once.begin_effect(once.natural_key(%(account)s, %(key)s), lease => %(lease)s, {ONE_EFFECT},
                                     fingerprint => once.fingerprint(%(body)s))"""
COMPLETE = f"SELECT once.complete_effect(once.natural_key(%(account)s, %(key)s), %(fence)s, %(answer)s, {ONE_EFFECT})"
FAIL = f"""SELECT once.fail_effect(once.natural_key(%(account)s, %(key)s), %(fence)s, %(error)s,
                                   retry_after => '1 second', {ONE_EFFECT})"""


@app.post("/charges")
def charge(payment: Payment, account: Account, key: Key) -> Response:
    request = {"account": account, "key": key, "body": payment.as_sent(), "lease": LEASE}
    with pool.connection() as connection:  # committed when it returns, and the connection is given back
        effect = connection.cursor(row_factory=namedtuple_row).execute(BEGIN, request).fetchone()
    answer = effect.result
    if effect.outcome in ("started", "taken_over"):
        try:
            answer = call(effect.downstream_key, payment)
        except httpx.HTTPError as error:
            with pool.connection() as connection:
                connection.execute(FAIL, request | {"fence": effect.fence, "error": repr(error)})
            raise HTTPException(503, "The provider cannot be reached", {"Retry-After": "2"}) from error
        keep(request | {"fence": effect.fence, "answer": Jsonb(answer)}, payment, answer)
    if effect.outcome == "gave_up":
        raise HTTPException(502, "This was tried too often; somebody has to look at it")
    return respond(effect.outcome, answer)


def call(downstream_key, payment: Payment) -> dict:
    """The provider's last word. A refusal is one; a 409, a 429, a 5xx or silence is not, and raises."""
    headers = {"Idempotency-Key": f'"{downstream_key}"'}
    reply = httpx.post(PROVIDER, json={"cents": payment.cents}, headers=headers, timeout=TIMEOUT)
    if reply.status_code in (409, 429) or reply.status_code >= 500:
        reply.raise_for_status()
    if reply.is_success:
        return final(201, {"charge": reply.json()["id"], "order": payment.order, "cents": payment.cents})
    return final(402, {"error": "The provider refused the charge"})


def keep(request: dict, payment: Payment, answer: dict) -> None:
    """Books the charge and keeps the answer, together. False: another attempt has done both already."""
    book = "INSERT INTO payment (account, order_no, cents, charge) VALUES (%s, %s, %s, %s::jsonb ->> 'charge')"
    with pool.connection() as connection, connection.transaction():
        stored = connection.execute(COMPLETE, request).fetchone()[0]
        if stored and answer["status"] == 201:
            connection.execute(book, [request["account"], payment.order, payment.cents, answer["body"]])


@app.exception_handler(psycopg.DatabaseError)
def overtaken(_, error):
    # A stale fence: the lease was over, and another attempt has the work. Its answer is the answer.
    if error.sqlstate != "OC008":
        raise error
    return problem(409, "Another attempt has taken over", {"Retry-After": "1"})
