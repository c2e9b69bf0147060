//! Moving in: `CALL once.import_claims(..)` makes claims of what another table says was processed.

mod counts;
mod cut_short;
mod going_on;
mod outcomes;
mod refusals;
mod sources;
