//! A number of things as a person writes it.

/// `1 leaf`, `2 leaves`.
pub fn counted(n: impl Into<i128>, one: &str, more: &str) -> String {
    let n = n.into();
    format!("{n} {}", if n == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_one_and_everything_else_is_many() {
        assert_eq!(counted(1, "leaf", "leaves"), "1 leaf");
        assert_eq!(counted(0, "leaf", "leaves"), "0 leaves");
        assert_eq!(counted(2, "leaf", "leaves"), "2 leaves");
    }
}
