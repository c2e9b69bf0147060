-- The double tap of the demo: the same departures through a handler with four faults, and through its mended form.
--
-- Each fault does no harm as long as every message comes once.

CREATE SCHEMA double_tap;
SET search_path = double_tap;

CREATE TABLE message (number integer PRIMARY KEY, key text, carrier text, day date, minutes integer);

CREATE TABLE flight (
    key        text PRIMARY KEY,
    minutes    integer,
    seen_at    timestamptz,
    created_by text
);

CREATE TABLE carrier (
    carrier    text PRIMARY KEY,
    departures integer NOT NULL
);

CREATE TABLE late_notice (line text);

CREATE FUNCTION handle_with_faults(m message) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO flight VALUES (m.key, m.minutes, now(), current_setting('application_name'))
        ON CONFLICT (key) DO UPDATE
        SET seen_at = now(),                                            -- fault 1: the time of processing
            created_by = excluded.created_by;                           -- fault 2: who processed it

    INSERT INTO carrier AS c VALUES (m.carrier, 1)
        ON CONFLICT (carrier) DO UPDATE SET departures = c.departures + 1;   -- fault 3: a counter

    IF m.minutes > 15 THEN
        INSERT INTO late_notice VALUES (m.key || ' left late');         -- fault 4: an append
    END IF;
END $$;

CREATE FUNCTION handle_mended(m message) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF once.claim_once(m.key, '7 days', effect => 'double_tap') THEN
        PERFORM handle_with_faults(m);
    END IF;
END $$;
