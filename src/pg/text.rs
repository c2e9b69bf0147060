//! A `text` value made of exact bytes, in memory of its own.

use pgrx::pg_sys;

/// Bytes behind a varlena header, aligned as PostgreSQL reads them.
pub struct Text {
    // u32 gives the alignment the header is read with; the first word is the header.
    words: Vec<u32>,
    len: usize,
}

const HEADER: usize = size_of::<u32>();

impl Text {
    /// A text value with these bytes.
    pub fn new(bytes: &[u8]) -> Text {
        let mut text = Text::unset();
        text.set(bytes);
        text
    }

    /// Room for one, which takes no memory yet.
    pub(super) fn unset() -> Text {
        Text { words: Vec::new(), len: 0 }
    }

    /// Replaces the bytes, keeping the memory.
    pub fn set(&mut self, bytes: &[u8]) {
        self.len = bytes.len();
        self.words.clear();
        self.words.resize(1 + self.len.div_ceil(HEADER), 0);
        // SAFETY: `words` holds at least HEADER + len initialised bytes, the header is written by
        // the same rule as SET_VARSIZE (an uncompressed datum with a four-byte header), and the
        // source cannot overlap memory that this value owns.
        unsafe {
            let start = self.words.as_mut_ptr().cast::<u8>();
            pgrx::varlena::set_varsize_4b(start.cast(), (HEADER + self.len) as i32);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(HEADER), self.len);
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `set` initialised HEADER + len bytes.
        unsafe {
            std::slice::from_raw_parts(self.words.as_ptr().cast::<u8>().add(HEADER), self.len)
        }
    }

    /// Bytes of the database's encoding as UTF-8; as they are where it is none (SQL_ASCII). Raises
    /// 22P05 for a character that UTF-8 has no room for, and 22021 for bytes that are no UTF-8 in SQL_ASCII.
    pub fn in_utf8(bytes: &[u8]) -> Vec<u8> {
        let text = Text::new(bytes);
        let utf8 = pg_sys::pg_enc::PG_UTF8 as i32;
        // SAFETY: the bytes and their number belong together; the answer is the argument, or a string in the
        // call's memory context that ends in a zero.
        unsafe {
            let from = text.bytes().as_ptr().cast::<std::ffi::c_char>().cast_mut();
            let to = pg_sys::pg_server_to_any(from, text.len as i32, utf8);
            if std::ptr::eq(to, from) {
                return bytes.to_vec();
            }
            std::ffi::CStr::from_ptr(to).to_bytes().to_vec()
        }
    }

    /// The value as a datum, good while the value lives and is not set anew. It has been set.
    pub(super) fn datum(&self) -> pg_sys::Datum {
        pg_sys::Datum::from(self.words.as_ptr())
    }
}

/// The SHA-256 of some bytes, by PostgreSQL's own.
pub fn sha256(bytes: &[u8]) -> Vec<u8> {
    let bytes = Text::new(bytes);
    // SAFETY: a bytea looks as a text does; the answer is one, in the call's memory.
    unsafe {
        let digest = pg_sys::OidFunctionCall1Coll(
            pg_sys::Oid::from(pg_sys::F_SHA256),
            pg_sys::InvalidOid,
            bytes.datum(),
        );
        pgrx::varlena::varlena_to_byte_slice(digest.cast_mut_ptr()).to_vec()
    }
}

/// The beginning of a text, of at most so many bytes, cut between two characters.
pub fn clip(text: &[u8], most: usize) -> &[u8] {
    let (len, most) = (text.len().min(i32::MAX as usize) as i32, most as i32);
    // SAFETY: looks at the bytes given, in the server's encoding, and answers how many of them to take.
    let taken = unsafe { pg_sys::pg_mbcliplen(text.as_ptr().cast(), len, most) };
    text.get(..taken as usize).unwrap_or(text)
}
