-- What a careful writer makes by hand: a table partitioned by day, a lock a key, and a second look under it.
--
-- Rule: it is right (of two claimers of one key one looks after the other has committed), and it is given what
-- helps it: a plan that is made once, and the days of the window alone are looked at.

CREATE TABLE bench_:pair.hand (
    day date NOT NULL,
    claimed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (key, day)
) PARTITION BY RANGE (day);

DO $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
    FOR n IN 0..:days - 1 LOOP
        EXECUTE format('CREATE TABLE bench_:pair.hand_%s (LIKE bench_:pair.hand)', n);
        EXECUTE format('INSERT INTO bench_:pair.hand_%s SELECT %L, claimed_at, expires_at, key FROM %s', n, today - n, bench.leaf(':pair', n));
        EXECUTE format('ALTER TABLE bench_:pair.hand_%s ADD PRIMARY KEY (key, day)', n);
        EXECUTE format('ALTER TABLE bench_:pair.hand ATTACH PARTITION bench_:pair.hand_%s FOR VALUES FROM (%L) TO (%L)',
                       n, today - n, today - n + 1);
    END LOOP;
END $$;

-- VOLATILE with the default isolation: each statement in it sees what was committed before it began, so the
-- look after the lock sees the winner.
CREATE FUNCTION bench_:pair.hand_claim(wanted text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(wanted, 0));
    at := clock_timestamp();
    IF EXISTS (SELECT FROM bench_:pair.hand WHERE key = wanted AND expires_at > at) THEN
        RETURN false;
    END IF;
    INSERT INTO bench_:pair.hand (day, claimed_at, expires_at, key)
    VALUES ((at AT TIME ZONE 'UTC')::date, at, at + '7 days', wanted);
    RETURN true;
END $$;

CREATE FUNCTION bench_:pair.hand_each(keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    k text;
    mine boolean;
    n bigint := 0;
BEGIN
    FOREACH k IN ARRAY keys LOOP
        SELECT bench_:pair.hand_claim(k) INTO mine;
        IF mine THEN
            n := n + 1;
        END IF;
    END LOOP;
    RETURN n;
END $$;
