//! Filters over days that are over: no road by which a row comes into a sealed day, no crash and no copy of a
//! server makes a filter deny a key that is there.

mod ddl;
mod hurt;
mod other_roads;
mod roads;
mod scene;
mod stale;
