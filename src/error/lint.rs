//! What is said of a key that is certainly wrong, or that its store forbids. Never the key.

use super::words::{State, Words, literal, words};
use crate::domain::kind::{Kind, Kinds};
use crate::domain::wrong::Wrong;

/// What is wrong with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLint {
    /// No sender means it.
    Wrong(Wrong),
    /// Every kind it may be of is forbidden.
    Forbidden(Kinds),
}

impl KeyLint {
    /// SQLSTATE, message, detail and hint.
    pub(super) fn words(self, store: &str, element: Option<usize>) -> Words {
        let key = element.map_or_else(|| "key".to_owned(), |n| format!("key {n} of the array"));
        match self {
            KeyLint::Wrong(wrong) => words(
                State::Own(b"OC002"),
                format!("{key} names nothing"),
                format!(
                    "It {}. Every message that lacks its key would be one intent in store {}, and all but the \
                     first a duplicate.",
                    wrong.words(),
                    literal(store)
                ),
                "See whether the field that the key is built from is missing from the message.",
            ),
            KeyLint::Forbidden(kinds) => {
                let kinds: Vec<&str> = kinds.each().map(Kind::words).collect();
                words(
                    State::Own(b"OC002"),
                    format!("{key} is of a kind that store {} forbids", literal(store)),
                    format!("It is {}.", kinds.join(" or ")),
                    format!(
                        "Claim by what names the intent, such as an order's id and the event; what a store forbids \
                         is changed by SELECT once.alter_store({}, forbid => '{{..}}').",
                        literal(store)
                    ),
                )
            }
        }
    }
}
