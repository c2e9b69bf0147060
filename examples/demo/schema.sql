-- The handler of the demo: two effects of one message, in one transaction.
--
-- The demo loads this file three times, into the schemas clean, naive and with_once (:variant).
-- Only in with_once does the handler ask for the key first: that is the whole difference.

CREATE SCHEMA :variant;
SET search_path = :variant;

-- Effect 1: a counter per carrier and day.
CREATE TABLE carrier_day (
    carrier      text,
    day          date,
    departures   integer NOT NULL,
    minutes_late integer NOT NULL,
    PRIMARY KEY (carrier, day)
);

-- Effect 2: a row per flight that left more than 15 minutes late.
CREATE TABLE delayed_flight (
    key     text    NOT NULL,
    minutes integer NOT NULL
);

-- What each delivery came to, written in its transaction.
CREATE TABLE delivery (
    number    integer,
    consumer  integer,
    processed integer,
    refused   integer
);

CREATE FUNCTION handle_naive(key text, carrier text, day date, minutes integer) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO carrier_day AS c VALUES (carrier, day, 1, minutes)
        ON CONFLICT ON CONSTRAINT carrier_day_pkey DO UPDATE
        SET departures = c.departures + 1, minutes_late = c.minutes_late + excluded.minutes_late;

    IF minutes > 15 THEN
        INSERT INTO delayed_flight VALUES (key, minutes);
    END IF;

    RETURN true;
END $$;

CREATE FUNCTION handle_with_once(key text, carrier text, day date, minutes integer) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT once.claim_once(key, '7 days') THEN
        RETURN false;   -- done already: acknowledge and move on
    END IF;

    RETURN handle_naive(key, carrier, day, minutes);
END $$;

-- Rows that are not as after one clean delivery.
CREATE VIEW wrong AS
SELECT 'carrier_day' AS "table",
       format('%s %s', carrier, day) AS "row",
       format('%s flights %s min late', coalesce(c.departures, 0), coalesce(c.minutes_late, 0)) AS clean,
       format('%s flights %s min late', coalesce(v.departures, 0), coalesce(v.minutes_late, 0)) AS here
  FROM clean.carrier_day c
  FULL JOIN carrier_day v USING (carrier, day)
 WHERE (c.departures, c.minutes_late) IS DISTINCT FROM (v.departures, v.minutes_late)
UNION ALL
SELECT 'delayed_flight',
       key,
       format('%s x', coalesce(c.times, 0)),
       format('listed %s x', coalesce(v.times, 0))
  FROM (SELECT key, minutes, count(*) AS times FROM clean.delayed_flight GROUP BY 1, 2) c
  FULL JOIN (SELECT key, minutes, count(*) AS times FROM delayed_flight GROUP BY 1, 2) v USING (key, minutes)
 WHERE c.times IS DISTINCT FROM v.times
 ORDER BY 1, 2;
