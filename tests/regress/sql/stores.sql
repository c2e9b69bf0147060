-- Stores of one's own, with their window and the reason for it.
SET client_min_messages = warning;
SELECT once.create_store('orders', retry_horizon => '2 days', note => 'the broker redelivers for two days');
SELECT once.create_store('Odd "name"', retention => '36 hours');
SELECT once.claim_once('order-42:paid', store => 'orders'), once.claim_once('order-42:paid', store => 'orders');
SELECT once.claim_once('order-42:paid', store => 'Odd "name"');

SELECT store, owner, retention, retry_horizon, note, days, last_day - first_day AS ahead,
       first_day = (created_at AT TIME ZONE 'UTC')::date AS from_today
  FROM once.stores ORDER BY store;
SELECT store, day - (clock_timestamp() AT TIME ZONE 'UTC')::date AS offset, state,
       leaf LIKE '%\_' || to_char(day, 'YYYYMMDD') AS named_after_it, keep_until - day::timestamp AT TIME ZONE 'UTC' AS kept
  FROM once.partitions ORDER BY store, day;

SELECT once.alter_store('orders', retention => '10 days', note => 'dead letters are replayed after a week');
SELECT store, retention, retry_horizon, note FROM once.stores WHERE store = 'orders';
SELECT once.claim_once('order-43:paid', '9 days', store => 'orders');

-- Days ahead are made, days that are over are dropped.
SET pg_once.precreate_days = 5;
CALL once.maintain();
SELECT store, count(*) FILTER (WHERE state = 'future') AS ahead FROM once.partitions GROUP BY store ORDER BY store;

SELECT once.drop_store('Odd "name"');
SELECT store FROM once.stores ORDER BY store;
