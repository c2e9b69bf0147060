//! What one claim answers: the SQL surface, keys, windows, errors, batches, transactions, locks and
//! memory, privileges and look-up paths. One shared cluster, one database a test.

mod batch;
mod drivers;
mod encodings;
mod errors;
mod first;
mod keys;
mod locks;
mod memory;
mod outcomes;
mod plans;
mod privileges;
mod scale;
mod schema;
mod transactions;
mod ttl;
