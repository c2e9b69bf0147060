//! Answers stored with claims: who is given one, who may store one and when, and races of everything that writes a
//! claim's row with everything that reads it.

mod crash;
mod days;
mod fingerprint;
mod leaves;
mod matrix;
mod model;
mod race;
mod released;
mod schedule;
mod stored;
mod tenants;
mod waits;
