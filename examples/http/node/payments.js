// POST /payments, which may be sent again: the same Idempotency-Key makes one payment and gets one answer.
//
// Rule: the claim of the key, the payment and its answer are one transaction, and nothing is answered before it
// has committed. Whoever dies, and when, either all three are there and a retry gets the answer, or none is and
// a retry does the work.
import Fastify from "fastify";
import pg from "pg";

// The database is where PGHOST, PGDATABASE and PGUSER say.
export const pool = new pg.Pool({ max: 10, connectionTimeoutMillis: 10_000 });
// A connection that the server ends is thrown away and says so here; whoever was using it gets an error of its own.
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));

// Types are not coerced and nothing is removed or added: what is checked is what came, and so is the fingerprint.
const customOptions = { coerceTypes: false, removeAdditional: false, useDefaults: false };
export const app = Fastify({ logger: true, ajv: { customOptions } });

export const payment = {
  type: "object",
  required: ["order", "cents"],
  additionalProperties: false,
  properties: {
    order: { type: "string", pattern: "^[A-Za-z0-9-]{1,64}$" },
    cents: { type: "integer", minimum: 1, maximum: 1e9 },
  },
};

// One caller's keys are nothing to another: the account is part of the key.
const CLAIM = `SELECT outcome, result
                 FROM once.claim(once.natural_key($1, $2), effect => 'POST /payments', store => 'requests',
                                 fingerprint => once.fingerprint($3), wait => false)`;
const COMPLETE = `SELECT once.complete(once.natural_key($1, $2), $3, effect => 'POST /payments', store => 'requests')`;

/** Whose request it is. Nobody gets as far as a key without it. */
export async function authenticated(request) {
  const token = (request.headers.authorization ?? "").replace(/^Bearer /, "");
  const query = "SELECT id FROM account WHERE token_digest = sha256(convert_to($1, 'UTF8'))";
  const { rows } = await pool.query(query, [token]);
  if (!rows.length) throw problem(401, "Whose request is this?", { "WWW-Authenticate": "Bearer" });
  request.account = rows[0].id;
}

/** The key: in quotation marks, as the draft has it, or without, as most clients do. Two headers are joined by ", ". */
export async function keyed(request) {
  const found = /^("?)([!#-[\]-~]{1,255})\1$/.exec(request.headers["idempotency-key"] ?? "");
  if (!found) throw problem(400, "This needs an Idempotency-Key of 1 to 255 visible characters");
  request.key = found[2];
}

/** A transaction. Where it fails its connection is thrown away, which rolls back whatever is left of it. */
export async function transaction(work) {
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query("COMMIT");
    client.release();
    return result;
  } catch (error) {
    client.release(error);
    throw error;
  }
}

app.post("/payments", { onRequest: [authenticated, keyed], schema: { body: payment } }, async (request, reply) => {
  const { account, key, body } = request;
  const { outcome, result } = await transaction(async (client) => {
    const { rows } = await client.query(CLAIM, [account, key, JSON.stringify(body)]);
    if (rows[0].outcome === "claimed") {
      rows[0].result = await perform(client, account, body);
      await client.query(COMPLETE, [account, key, rows[0].result]);
    }
    return rows[0];
  });
  return respond(reply, outcome, result);
});

/** The work, and the answer that is final: a refusal too, unless a retry is to be judged anew. */
async function perform(client, account, { order, cents }) {
  const take = "UPDATE account SET cents = cents - $1 WHERE id = $2 AND cents >= $1";
  if ((await client.query(take, [cents, account])).rowCount === 0) {
    return final(402, { error: "There is not enough money" });
  }
  const pay = "INSERT INTO payment (account, order_no, cents) VALUES ($1, $2, $3) RETURNING id::int";
  const { rows } = await client.query(pay, [account, order, cents]);
  return final(201, { payment: rows[0].id, order, cents });
}

/** An answer to keep. Its body is kept as text, so that a replay is the same to the byte. */
export function final(status, body) {
  return { status, body: JSON.stringify(body) };
}

/** What the caller gets, after the commit: the answer, or why there is none. */
export function respond(reply, outcome, answer) {
  if (outcome === "mismatch") throw problem(422, "This Idempotency-Key was used for another request");
  if (answer === null) {
    throw problem(409, "The first request with this Idempotency-Key is not done", { "Retry-After": "1" });
  }
  if (!["claimed", "started", "taken_over"].includes(outcome)) reply.header("Idempotent-Replayed", "true");
  return reply.code(answer.status).type("application/json").send(answer.body);
}

export function problem(statusCode, title, headers) {
  return Object.assign(new Error(title), { statusCode, headers });
}

app.setErrorHandler((error, request, reply) => {
  let { statusCode = 500, message: title, headers = {} } = error;
  if (statusCode >= 500) request.log.error(error);
  if (statusCode === 500) {
    // It may have been committed or not: who sends the same key again will know.
    [statusCode, title, headers] = [503, "Send it again, with the same Idempotency-Key", { "Retry-After": "1" }];
  }
  return reply.code(statusCode).headers(headers).type("application/problem+json").send({ title, status: statusCode });
});
