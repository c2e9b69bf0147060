//! The examples of docs/http-idempotency.md as people run them: real web servers, real HTTP, a real PostgreSQL, and
//! whatever may die in between dies at each step.

mod app;
mod charges;
mod client;
mod killed;
mod page;
mod provider;
mod restarted;
mod scene;
mod scopes;
mod statuses;
mod steps;
mod tap;
mod together;
