//! `natural_key`, `key_from_json`, `key_uuid`, `fingerprint`: making keys and digests. Pure functions of their arguments, which read nothing.
//!
//! Errors: 22004 for a NULL argument, part or path, and for a field that is null; 22023 for no parts, nothing but
//! empty parts, a path that cannot be read and a value nested too deep; 2203A for a field that is missing; 2202E for an array of
//! several dimensions.

use super::given;
use crate::domain::canonical::{canonical, is_blank, is_null};
use crate::domain::joining::{self, JoinFault};
use crate::domain::json_path::{self, PathFault};
use crate::domain::key::KeyFault;
use crate::domain::shown::shown;
use crate::error::{PartsFault, Refusal, raise};
use crate::pg::array::{ArrayFault, TextArray};
use crate::pg::failure::{Sql, sql};
use crate::pg::json::Jsonb;
use crate::pg::text::{Text, sha256};
use pgrx::datum::Uuid;
use pgrx::pg_extern;

/// The namespace of [`key_uuid`]: the UUIDv5 of `pg_once` in the namespace for names of hosts. Part of the interface:
/// whoever makes the same uuids elsewhere has it written down.
const NAMESPACE: uuid::Uuid = uuid::uuid!("7778a313-3934-52bb-9f5d-71f21bc2f442");

/// One key of all parts.
#[pg_extern(sql = false)]
fn natural_key(parts: Option<TextArray<'_>>) -> Sql<Vec<u8>> {
    let key = || {
        let parts = elements(parts, "parts", "part")?;
        joining::join(&parts).map_err(|fault| PartsFault::Join(fault).into())
    };
    sql(|| raise(key()))
}

/// The natural key of fields of a payload, each canonical.
#[pg_extern(sql = false)]
fn key_from_json(payload: Option<Jsonb<'_>>, paths: Option<TextArray<'_>>) -> Sql<Vec<u8>> {
    let key = || {
        let payload = given(payload, "payload")?.unpacked();
        let paths = elements(paths, "paths", "path")?;
        let parts: Vec<Vec<u8>> =
            paths.into_iter().map(|path| field(&payload, path)).collect::<Result<_, _>>()?;
        if !parts.is_empty() && parts.iter().all(|part| is_blank(part)) {
            return Err(PartsFault::Join(JoinFault::Blank).into());
        }
        joining::join(&parts).map_err(|fault| PartsFault::Join(fault).into())
    };
    sql(|| raise(key()))
}

fn field(payload: &Jsonb<'_>, path: &[u8]) -> Result<Vec<u8>, Refusal> {
    let name = || shown(path);
    let steps = json_path::steps(path).map_err(|fault| PartsFault::Path(name(), fault))?;
    let json = payload.text_at(&steps).ok_or_else(|| PartsFault::Missing(name()))?;
    if is_null(&json) {
        return Err(PartsFault::NullField(name()).into());
    }
    Ok(canonical(&json).map_err(|fault| PartsFault::Value(name(), fault))?)
}

/// The digest of a payload, the same however it is written down, without the fields to be ignored.
#[pg_extern(sql = false)]
fn fingerprint(payload: Option<Jsonb<'_>>, ignore: Option<TextArray<'_>>) -> Sql<String> {
    let made = || {
        let mut payload = given(payload, "payload")?.unpacked();
        for path in elements(ignore, "ignore", "path")? {
            let fault = |fault| Refusal::from(PartsFault::Path(shown(path), fault));
            // Without one element the others would have other numbers.
            if path.ends_with(b"]") && !path.ends_with(b"\"]") {
                let expected = "a name, because an element cannot be left out";
                return Err(fault(PathFault { at: path.len(), expected }));
            }
            let steps = json_path::steps(path).map_err(fault)?;
            if payload.text_at(&steps).is_some() {
                payload = payload.without(&steps);
            }
        }
        let whole = payload.text_at(&[]).unwrap_or_default();
        let whole =
            canonical(&whole).map_err(|fault| PartsFault::Value("payload".into(), fault))?;
        Ok(sha256(&whole).iter().map(|byte| format!("{byte:02x}")).collect())
    };
    sql(|| raise(made()))
}

/// The uuid of an effect and a key.
#[pg_extern(sql = false)]
fn key_uuid(effect: Option<&[u8]>, key: Option<&[u8]>) -> Sql<Uuid> {
    let made = || {
        let (effect, key) = (given(effect, "effect")?, given(key, "key")?);
        if key.is_empty() {
            return Err(Refusal::Key(KeyFault::Empty));
        }
        Ok(Uuid::from_bytes(uuid_of(effect, key)))
    };
    sql(|| raise(made()))
}

/// The bytes of [`key_uuid`].
pub(super) fn uuid_of(effect: &[u8], key: &[u8]) -> [u8; 16] {
    let name = Text::in_utf8(&joining::scoped(effect, key));
    uuid::Uuid::new_v5(&NAMESPACE, &name).into_bytes()
}

fn elements<'a>(
    array: Option<TextArray<'a>>,
    name: &'static str,
    what: &'static str,
) -> Result<Vec<&'a [u8]>, Refusal> {
    given(array, name)?.elements().map_err(|fault| {
        match fault {
            ArrayFault::Dimensions(n) => PartsFault::Dimensions(name, n),
            ArrayFault::NullElement(position) => PartsFault::Null { what, position },
        }
        .into()
    })
}
