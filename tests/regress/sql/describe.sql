-- What psql shows of it. Columns of \df+ differ from major to major, so there is one answer a major.
\pset format unaligned
\d once.processed_events
\d+ once.store_policy
\d+ once.leaf_promise
\d+ once.stores
\d+ once.partitions
\dT+ once.outcome
\df+ once.*
\dn+ once
LOAD 'pg_once';
\dconfig+ pg_once.*
