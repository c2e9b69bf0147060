-- What is refused says so, with its SQLSTATE and what to do.
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT once.claim_once(NULL::text);
SELECT once.claim_once('');
SELECT once.claim_once(repeat('x', 1025));
SELECT once.claim_once('k', effect => NULL);
SELECT once.claim_once('k', effect => repeat('x', 257));
SELECT once.claim_once('k', ttl => '0');
SELECT once.claim_once('k', ttl => '8 days');
SELECT once.claim_once('k', store => 'nowhere');
SELECT once.claim_many('{a,NULL}');
SELECT once.claim_many('{{a,b},{c,d}}');
SELECT once.complete('unclaimed', '1');
SELECT once.claim('k', event_time => '2000-01-01');
SELECT once.create_store('');
SELECT once.create_store(repeat('x', 64));
SELECT once.create_store('orders');
SELECT once.create_store('x', retry_horizon => '7 days', retention => '1 day');
SELECT once.create_store('x', retention => '-1 day');
SELECT once.alter_store('nowhere', retention => '1 day');
SELECT once.drop_store('nowhere');
BEGIN READ ONLY;
SELECT once.claim_once('k');
ROLLBACK;
BEGIN;
CALL once.maintain();
ROLLBACK;

-- Somebody who was granted nothing, then a little, then enough.
CREATE ROLE regress_consumer;
SET ROLE regress_consumer;
SELECT once.claim_once('k');
RESET ROLE;
GRANT USAGE ON SCHEMA once TO regress_consumer;
SET ROLE regress_consumer;
SELECT once.claim_once('k');
SELECT once.create_store('mine');
SELECT once.drop_store('orders');
RESET ROLE;
GRANT INSERT ON once.processed_events TO regress_consumer;
SET ROLE regress_consumer;
SELECT once.claim_once('k');
SELECT * FROM once.lookup('k');
RESET ROLE;
DROP OWNED BY regress_consumer;
DROP ROLE regress_consumer;

-- SQLSTATEs, for those who look at nothing else.
\set VERBOSITY sqlstate
SELECT once.claim_once(NULL::text);
SELECT once.claim_once('');
SELECT once.claim_once('k', store => 'nowhere');
SELECT once.claim_many('{{a,b},{c,d}}');
SELECT once.complete('unclaimed', '1');
