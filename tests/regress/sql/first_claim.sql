-- The first five minutes, as typed.
CREATE EXTENSION pg_once;

SELECT once.claim_once('order-42:paid', '7 days');   -- true: do the work in this transaction
SELECT once.claim_once('order-42:paid', '7 days');   -- false: done already

-- The key and its effect commit or vanish together.
CREATE TABLE payment (order_id bigint, amount numeric);
BEGIN;
SELECT once.claim_once('order-43:paid');
INSERT INTO payment VALUES (43, 9.95);
ROLLBACK;
BEGIN;
SELECT once.claim_once('order-43:paid') AS fresh \gset
\if :fresh
INSERT INTO payment VALUES (43, 9.95);
\endif
COMMIT;
SELECT once.claim_once('order-43:paid') AS again;
TABLE payment;

-- Two consumers of one event: the effect keeps them apart.
SELECT once.claim_once('evt-1', effect => 'mailer') AS mailer, once.claim_once('evt-1', effect => 'ledger') AS ledger;
SELECT once.claim_once('evt-1', effect => 'mailer') AS mailer, once.claim_once('evt-1', effect => 'ledger') AS ledger;

-- Keys of other types agree with their text.
SELECT once.claim_once(42), once.claim_once('42');
SELECT once.claim_once('a81bc81b-dead-4e5d-abff-90865d1e13b1'::uuid), once.claim_once('a81bc81b-dead-4e5d-abff-90865d1e13b1');

-- The whole answer.
SELECT outcome, claimed_at <= clock_timestamp() AS claimed, expires_at - claimed_at AS window, result
  FROM once.claim('order-44:paid', '2 hours');
SELECT outcome, claimed_at <= clock_timestamp() AS claimed, expires_at - claimed_at AS window, result
  FROM once.claim('order-44:paid', '5 hours');
SELECT expires_at - claimed_at AS window, result FROM once.lookup('order-44:paid');
SELECT expires_at - claimed_at AS window, result FROM once.lookup('order-45:paid');

-- Many at once, answered in the order asked.
SELECT * FROM once.claim_many(ARRAY['order-44:paid', 'order-46:paid', 'order-45:paid', 'order-46:paid']);
SELECT * FROM once.claim_many('{}');

-- Who is in flight elsewhere is told apart on request; here nobody is.
SELECT outcome FROM once.claim('order-47:paid', wait => false);
SELECT enum_range(NULL::once.outcome);

SELECT key, effect, expires_at - claimed_at AS window, fingerprint, result FROM once.processed_events ORDER BY key, effect;
