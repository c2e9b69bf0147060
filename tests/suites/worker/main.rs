//! Who runs maintenance: the launcher and its processes on real servers that are hurt, full, copied,
//! promoted and shut down; pg_cron; and several of them at once. One cluster a test, because each is
//! hurt.

mod cron;
mod databases;
mod hurt;
mod launcher;
mod scene;
mod settings;
mod slots;
mod standby;
mod wanted;
mod without;
