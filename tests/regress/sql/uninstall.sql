-- The extension does not go while a store exists: claims never vanish by accident.
\set VERBOSITY default
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SELECT store FROM once.stores ORDER BY store;
DROP EXTENSION pg_once;
SELECT once.drop_store('orders');
DROP EXTENSION pg_once;
SELECT once.claim_once('order-42:paid');
SELECT once.drop_store('processed_events');
DROP EXTENSION pg_once;
SELECT count(*) FROM pg_namespace WHERE nspname = 'once';
