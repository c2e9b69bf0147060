-- What the examples keep. Run once, in a database with pg_once and a role `payments` for the web servers:
--
--     psql --file=schema.sql

-- Keys and answers, in a store of their own: SELECT on it shows answers.
SELECT once.create_store('requests', retention => '2 days', note => 'programs retry for an hour, people for a day');

CREATE TABLE account (
    id           text PRIMARY KEY,
    token_digest bytea NOT NULL UNIQUE,
    cents        bigint NOT NULL CHECK (cents >= 0)
);

CREATE TABLE payment (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account  text NOT NULL REFERENCES account,
    order_no text NOT NULL,
    cents    bigint NOT NULL CHECK (cents > 0),
    charge   text UNIQUE  -- the provider's name for it, where one was called
);

GRANT USAGE ON SCHEMA once TO payments;
GRANT SELECT, INSERT ON once.requests TO payments;
GRANT SELECT, UPDATE (cents) ON account TO payments;
GRANT SELECT, INSERT ON payment TO payments;
