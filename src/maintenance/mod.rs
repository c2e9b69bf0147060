//! One pass over the stores: days ahead are made, days that are over are dropped. `plan` decides
//! (pure), `apply` does it, each step in a transaction of its own, making before and apart from
//! dropping.

pub mod apply;
pub mod plan;
mod seal;
