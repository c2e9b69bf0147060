//! Filters over days that are over: no road by which a row comes into a sealed day, no crash and no copy of a
//! server makes a filter deny a key that is there.

mod copies;
mod crash;
mod ddl;
mod gone;
mod hurt;
mod other_roads;
mod race;
mod roads;
mod scene;
mod settings;
mod sizes;
mod stale;
mod steps;
