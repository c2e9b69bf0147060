//! What one claim answers: the SQL surface, keys, windows, errors, batches, transactions, locks and
//! memory, privileges and look-up paths. One shared cluster, one database a test.

mod batch;
mod drivers;
mod encodings;
mod errors;
mod first;
mod forms;
mod json_keys;
mod key_uuid;
mod keys;
mod lint;
mod locks;
mod memory;
mod natural_keys;
mod outcomes;
mod plans;
mod privileges;
mod rewritten;
mod scale;
mod schema;
mod transactions;
mod ttl;
mod webhooks;
