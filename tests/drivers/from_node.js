// What a consumer in JavaScript does with node-pg: one transcript, compared with every other driver's.
//
//     from_node.js SOCKET_FOLDER PORT DATABASE direct|pooled
//
// Rule: the driver's own defaults: parameters go over the extended protocol as an unnamed statement. A named
// one, which is what this driver prepares, is used where the connection stays one's own.
"use strict";
const { Client } = require("pg");

const say = (...words) => console.log(words.join(" "));

async function run(client, named) {
  const claim = async (key, name) => {
    const query = { text: "SELECT once.claim_once($1, $2) AS claimed", values: [key, "1 hour"], name };
    return (await client.query(query)).rows[0].claimed;
  };

  await client.query("BEGIN");
  say("claim", await claim("order-1"), await claim("order-1"));
  await client.query("INSERT INTO work VALUES ($1)", ["order-1"]);
  await client.query("COMMIT");
  await client.query("BEGIN");
  say("redelivered", await claim("order-1"));
  await client.query("COMMIT");

  await client.query("BEGIN");
  say("fails later", await claim("order-2"));
  await client.query("SELECT 1 / $1::int", [0]).catch((error) => say("error", error.code));
  await client.query("ROLLBACK");
  say("again", await claim("order-2"));

  await client.query("BEGIN");
  await client.query("SAVEPOINT s");
  const first = await claim("order-3");
  await client.query("ROLLBACK TO SAVEPOINT s");
  say("savepoint", first, await claim("order-3"), await claim("order-3"));
  await client.query("COMMIT");

  for (const word of ["first", "second"]) {
    const answers = [];
    for (let number = 0; number < 10; number++) {
      answers.push(await claim(`often-${number}`, named ? "claim" : undefined));
    }
    say(word, ...answers);
  }
  const prepared = await client.query(
    "SELECT count(*)::int AS n FROM pg_prepared_statements WHERE statement LIKE '%claim_once%'",
  );
  say("prepared", prepared.rows[0].n > 0);

  await client.query("BEGIN");
  // This driver sends every value as text of no type: a typed parameter wants a cast.
  const typed = async (type, key) =>
    (await client.query(`SELECT once.claim_once($1::${type}, $2) AS claimed`, [key, "1 hour"])).rows[0].claimed;
  const token = "0191b6a8-2f3c-7d4e-8a9b-123456789abc";
  say("uuid", await typed("uuid", token), await claim(token));
  say("bigint", await typed("bigint", 4711), await claim("4711"));
  const many = await client.query("SELECT key, claimed FROM once.claim_many($1, $2)", [
    ["b", "order-1", "a", "b"],
    "1 hour",
  ]);
  say("many", ...many.rows.flatMap((row) => [row.key, row.claimed]));
  say("outcome", (await client.query("SELECT outcome FROM once.claim($1, $2)", ["a", "1 hour"])).rows[0].outcome);
  await client.query("COMMIT");
}

async function main() {
  const [host, port, database, way] = process.argv.slice(2);
  const client = new Client({ host, port: Number(port), database, user: "postgres" });
  await client.connect();
  try {
    await run(client, way === "direct");
  } finally {
    await client.end();
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
