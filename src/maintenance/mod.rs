//! One pass over the stores: days ahead are made, days that are over are dropped. `plan` decides
//! (pure), `apply` does it, each step in a transaction of its own, making before and apart from
//! dropping; `seal` and `audit` are what a pass does of sealing and of looking at keys.

pub mod apply;
mod audit;
pub mod plan;
mod seal;
