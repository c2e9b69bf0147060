//! What every test of the suite begins with: a database with the examples' schema and two accounts.

use std::path::Path;

use pg_once_tests::cluster::Cluster;
use pg_once_tests::database::Database;
use pg_once_tests::session::Session;
use pg_once_tests::shared::cluster;

use crate::app::{App, Language};
use crate::client::Request;

/// What is in an account at first.
pub(crate) const MONEY: i64 = 1_000_000;

pub(crate) struct Scene<'c> {
    pub(crate) db: Database<'c>,
    /// Whom the web servers connect as.
    pub(crate) role: String,
    pub(crate) session: Session,
}

impl Scene<'static> {
    /// On the shared cluster.
    pub(crate) fn new() -> Scene<'static> {
        Scene::on(cluster())
    }
}

impl<'c> Scene<'c> {
    pub(crate) fn on(cluster: &'c Cluster) -> Scene<'c> {
        let db = cluster.database();
        // Roles are the server's: each database has one of its own.
        let role = db.role("payments");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/http/schema.sql");
        let schema = std::fs::read_to_string(file).expect("the examples' schema");
        let mut session = db.session();
        session.run(&schema.replace("TO payments", &format!("TO {role}")));
        let mut scene = Scene { db, role, session };
        scene.account("ann");
        scene.account("bob");
        scene
    }

    /// One more account; its token is made of its name.
    pub(crate) fn account(&mut self, id: &str) {
        self.session.run(&format!(
            "INSERT INTO account VALUES ('{id}', sha256(convert_to('{id}-token', 'UTF8')), {MONEY})"
        ));
    }

    /// A web server that speaks to the database itself.
    #[track_caller]
    pub(crate) fn app(&self, language: Language) -> App {
        App::start(language, self, self.db.cluster().folder(), &[])
    }

    /// How many payments of an order there are.
    pub(crate) fn payments(&mut self, order: &str) -> i64 {
        self.session.get_with("SELECT count(*) FROM payment WHERE order_no = $1", &[&order])
    }

    /// What was taken from an account.
    pub(crate) fn spent(&mut self, account: &str) -> i64 {
        let left: i64 =
            self.session.get_with("SELECT cents FROM account WHERE id = $1", &[&account]);
        MONEY - left
    }
}

/// A payment of 990 cents for an order, by ann unless said otherwise.
pub(crate) fn payment(order: &str) -> Request {
    Request::post("/payments", &body(order, 990))
}

pub(crate) fn body(order: &str, cents: i64) -> String {
    format!(r#"{{"order": "{order}", "cents": {cents}}}"#)
}

impl Request {
    pub(crate) fn by(self, account: &str) -> Request {
        self.header("Authorization", &format!("Bearer {account}-token"))
    }

    pub(crate) fn key(self, key: &str) -> Request {
        self.header("Idempotency-Key", key)
    }
}
