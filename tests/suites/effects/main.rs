//! Effects outside the database: leases and fences, whoever calls what when, and whatever dies in between.

mod basics;
mod beside;
mod between;
mod crash;
mod history;
mod isolation;
mod oracle;
mod pooled;
mod promoted;
mod races;
mod retention;
mod rights;
mod scene;
mod walk;
