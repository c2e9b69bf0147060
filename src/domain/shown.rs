//! Somebody's text in a message. A message is UTF-8 here, and its bytes go out as if they were of the database's encoding.
//!
//! The rule: what goes out can be read in every encoding, and names the text without doubt. Bytes that happen to be UTF-8
//! come out as they went in, and so are right in any encoding; of all others, those beyond ASCII are written as `\xf6`.

/// A text of the database's encoding, for a message.
pub fn shown(text: &[u8]) -> String {
    let escaped = |&byte: &u8| match byte {
        0..0x80 => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    std::str::from_utf8(text).map_or_else(|_| text.iter().map(escaped).collect(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn bytes_that_are_no_utf_8_are_written_in_ascii_and_all_others_stay() {
        assert_eq!(shown("größe".as_bytes()), "größe");
        assert_eq!(shown(b"order"), "order");
        assert_eq!(shown(b"gr\xf6\xdfe"), r"gr\xf6\xdfe");
        // A part of it is UTF-8 by chance: one whole character of EUC-JP must not be cut in two.
        assert_eq!(shown(b"\xc6\xfc\xcb\xdc \xc3\xa9"), r"\xc6\xfc\xcb\xdc \xc3\xa9");
        assert_eq!(shown(b""), "");
    }
}
