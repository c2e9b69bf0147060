//! One pass over the stores: days ahead are made, days that are over are dropped. `plan` decides
//! (pure), `apply` does it, each step in a transaction of its own, making before and apart from
//! dropping; `seal`, `audit` and `effects` are what a pass does of sealing, of looking at keys, and of effects that were
//! not finished.

pub mod apply;
mod audit;
mod effects;
pub mod plan;
mod seal;
