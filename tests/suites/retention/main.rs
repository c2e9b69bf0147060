//! Retention cannot shorten the promise: pauses, doubts about the clock, messages that come too late, drops
//! beside everybody else, and what a DBA is told about it.

mod away;
mod crossing;
mod doubt;
mod drops;
mod edges;
mod health;
mod holds;
mod late;
mod overflow;
mod put_back;
mod remedies;
mod settings;
mod seven_days;
mod unmade;
mod unsettled;
