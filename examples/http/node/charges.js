// POST /charges, which calls a payment provider: what is outside cannot be rolled back, so it is leased.
//
// Rule: the lease is committed before the provider is called, and the provider gets the same key on every
// attempt. Whoever dies in between, exactly one other takes over when the lease ends, and charges nothing twice.
import { app, authenticated, final, keyed, payment, pool, problem, respond, transaction } from "./payments.js";

const PROVIDER = process.env.PROVIDER ?? "http://localhost:9000/charges";
// The lease is longer than the timeout: while it lasts, nobody else calls.
const [LEASE, TIMEOUT] = [process.env.LEASE ?? "30 seconds", 10_000];

const BEGIN = `SELECT outcome, fence, downstream_key, result
                 FROM once.begin_effect(once.natural_key($1, $2), lease => $4, effect => 'POST /charges',
                                        store => 'requests', fingerprint => once.fingerprint($3))`;
const COMPLETE = `SELECT once.complete_effect(once.natural_key($1, $2), $3, $4, effect => 'POST /charges',
                                              store => 'requests') AS stored`;
const FAIL = `SELECT once.fail_effect(once.natural_key($1, $2), $3, $4, retry_after => '1 second',
                                      effect => 'POST /charges', store => 'requests')`;

app.post("/charges", { onRequest: [authenticated, keyed], schema: { body: payment } }, async (request, reply) => {
  const { account, key, body } = request;
  // Committed when it returns, and the connection is given back.
  const { rows } = await pool.query(BEGIN, [account, key, JSON.stringify(body), LEASE]);
  const [{ outcome, fence, downstream_key, result }] = rows;
  if (outcome === "gave_up") throw problem(502, "This was tried too often; somebody has to look at it");
  if (outcome !== "started" && outcome !== "taken_over") return respond(reply, outcome, result);
  try {
    const answer = await call(downstream_key, body).catch(async (error) => {
      await pool.query(FAIL, [account, key, fence, String(error)]);
      throw problem(503, "The provider cannot be reached", { "Retry-After": "2" });
    });
    await transaction((client) => keep(client, [account, key, fence, answer], body));
    return respond(reply, outcome, answer);
  } catch (error) {
    // A stale fence: the lease was over, and another attempt has the work. Its answer is the answer.
    if (error.code !== "OC008") throw error;
    throw problem(409, "Another attempt has taken over", { "Retry-After": "1" });
  }
});

/** The provider's last word. A refusal is one; a 409, a 429, a 5xx or silence is not, and throws. */
async function call(downstreamKey, { order, cents }) {
  const reply = await fetch(PROVIDER, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": `"${downstreamKey}"` },
    body: JSON.stringify({ cents }),
    signal: AbortSignal.timeout(TIMEOUT),
  });
  if ([409, 429].includes(reply.status) || reply.status >= 500) throw new Error(`the provider says ${reply.status}`);
  if (!reply.ok) return final(402, { error: "The provider refused the charge" });
  return final(201, { charge: (await reply.json()).id, order, cents });
}

/** Books the charge and keeps the answer, together. False: another attempt has done both already. */
async function keep(client, names, { order, cents }) {
  const [account, , , answer] = names;
  const { rows } = await client.query(COMPLETE, names);
  if (!rows[0].stored || answer.status !== 201) return;
  const book = "INSERT INTO payment (account, order_no, cents, charge) VALUES ($1, $2, $3, $4)";
  await client.query(book, [account, order, cents, JSON.parse(answer.body).charge]);
}
