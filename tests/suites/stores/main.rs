//! Stores and their days: names, bounds, life and death, what a DBA does to them, and how they fare
//! on a standby, behind a pooler, through a dump and through a subscription.

mod bounds;
mod churn;
mod ddl;
mod drop_extension;
mod dump;
mod extras;
mod inherit;
mod lifecycle;
mod locales;
mod logical;
mod maintain;
mod names;
mod pooler;
mod standby;
mod triggers;
mod upgrade;
