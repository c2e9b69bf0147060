"""POST /payments, which may be sent again: the same Idempotency-Key makes one payment and gets one answer.

    uvicorn payments:app        the database is where PGHOST, PGDATABASE and PGUSER say

Rule: the claim of the key, the payment and its answer are one transaction, and nothing is answered before it
has committed. Whoever dies, and when, either all three are there and a retry gets the answer, or none is and
a retry does the work.
"""

import json
import re
from contextlib import asynccontextmanager
from typing import Annotated

import psycopg
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool
from pydantic import BaseModel, ConfigDict, Field

# In autocommit mode each transaction() below is a transaction, and has committed when its block ends.
pool = ConnectionPool(
    kwargs={"autocommit": True}, max_size=10, timeout=10, open=False, check=ConnectionPool.check_connection
)

# One caller's keys are nothing to another: the account is part of the key.
CLAIM = """SELECT outcome, result
             FROM once.claim(once.natural_key(%(account)s, %(key)s), effect => 'POST /payments', store => 'requests',
                             fingerprint => once.fingerprint(%(body)s), wait => false)"""
COMPLETE = """SELECT once.complete(once.natural_key(%(account)s, %(key)s), %(answer)s,
                                   effect => 'POST /payments', store => 'requests')"""


@asynccontextmanager
async def lifespan(_):
    with pool:
        yield


app = FastAPI(lifespan=lifespan)


class Payment(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    order: str = Field(pattern="^[A-Za-z0-9-]{1,64}$")
    cents: int = Field(gt=0, le=10**9)

    def as_sent(self) -> Jsonb:
        """For the fingerprint: a default that a later version adds must not make a retry another request."""
        return Jsonb(self.model_dump(exclude_unset=True))


def authenticated(request: Request) -> str:
    """Whose request it is. Nobody gets as far as a key without it."""
    token = request.headers.get("authorization", "").removeprefix("Bearer ")
    with pool.connection() as connection:
        query = "SELECT id FROM account WHERE token_digest = sha256(convert_to(%s, 'UTF8'))"
        found = connection.execute(query, [token]).fetchone()
    if not found:
        raise HTTPException(401, "Whose request is this?", {"WWW-Authenticate": "Bearer"})
    return found[0]


def idempotency_key(request: Request) -> str:
    """The key: in quotation marks, as the draft has it, or without, as most clients do. One header, not two."""
    header = ", ".join(request.headers.getlist("idempotency-key"))
    found = re.fullmatch(r'("?)([!#-\[\]-~]{1,255})\1', header)
    if not found:
        raise HTTPException(400, "This needs an Idempotency-Key of 1 to 255 visible characters")
    return found[2]


Account = Annotated[str, Depends(authenticated)]
Key = Annotated[str, Depends(idempotency_key)]


@app.post("/payments")
def pay(payment: Payment, account: Account, key: Key) -> Response:
    request = {"account": account, "key": key, "body": payment.as_sent()}
    with pool.connection() as connection, connection.transaction():
        outcome, answer = connection.execute(CLAIM, request).fetchone()
        if outcome == "claimed":
            answer = perform(connection, account, payment)
            connection.execute(COMPLETE, request | {"answer": Jsonb(answer)})
    return respond(outcome, answer)


def perform(connection, account: str, payment: Payment) -> dict:
    """The work, and the answer that is final: a refusal too, unless a retry is to be judged anew."""
    taken = connection.execute(
        "UPDATE account SET cents = cents - %(cents)s WHERE id = %(id)s AND cents >= %(cents)s",
        {"cents": payment.cents, "id": account},
    )
    if taken.rowcount == 0:
        return final(402, {"error": "There is not enough money"})
    paid = connection.execute(
        "INSERT INTO payment (account, order_no, cents) VALUES (%s, %s, %s) RETURNING id",
        [account, payment.order, payment.cents],
    ).fetchone()
    return final(201, {"payment": paid[0], "order": payment.order, "cents": payment.cents})


def final(status: int, body: dict) -> dict:
    """An answer to keep. Its body is kept as text, so that a replay is the same to the byte."""
    return {"status": status, "body": json.dumps(body)}


def respond(outcome: str, answer: dict | None) -> Response:
    """What the caller gets, after the commit: the answer, or why there is none."""
    if outcome == "mismatch":
        raise HTTPException(422, "This Idempotency-Key was used for another request")
    if answer is None:
        raise HTTPException(409, "The first request with this Idempotency-Key is not done", {"Retry-After": "1"})
    first = outcome in ("claimed", "started", "taken_over")
    headers = {} if first else {"Idempotent-Replayed": "true"}
    return Response(answer["body"], answer["status"], headers, "application/json")


def problem(status: int, title: str, headers=None) -> Response:
    return JSONResponse({"title": title, "status": status}, status, headers, "application/problem+json")


@app.exception_handler(HTTPException)
def refused(_, error):
    return problem(error.status_code, error.detail, error.headers)


@app.exception_handler(RequestValidationError)
def malformed(_, error):
    return problem(400, "; ".join(f"{part['loc'][-1]}: {part['msg']}" for part in error.errors()))


@app.exception_handler(psycopg.OperationalError)
def unavailable(_, error):
    # It may have been committed or not: who sends the same key again will know.
    return problem(503, "Send it again, with the same Idempotency-Key", {"Retry-After": "1"})
