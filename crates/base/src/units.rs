//! Sizes as people write them.

/// Parses a byte count: digits with an optional binary suffix `K`, `M`, `G` (`KB`, `KiB` too).
///
/// Returns `None` for anything else, including overflow.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Formats a byte count with the largest binary suffix that divides it: `65536` is `64K`.
pub fn format_bytes(bytes: u64) -> String {
    for (shift, suffix) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// The smallest `c` with `bytes <= 2^c`; 0 for 0 and 1 bytes. Tables and statistics use it.
#[inline]
pub const fn size_class(bytes: u64) -> u32 {
    if bytes <= 1 {
        0
    } else {
        64 - (bytes - 1).leading_zeros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_and_print() {
        assert_eq!(parse_bytes("64K"), Some(65536));
        assert_eq!(parse_bytes("1 MiB"), Some(1 << 20));
        assert_eq!(parse_bytes("7"), Some(7));
        assert_eq!(parse_bytes("7x"), None);
        assert_eq!(parse_bytes("-1"), None);
        assert_eq!(parse_bytes("99999999999G"), None);
        for bytes in [0, 1, 1000, 1024, 65536, 3 << 20, 5 << 30] {
            assert_eq!(parse_bytes(&format_bytes(bytes)), Some(bytes));
        }
    }

    #[test]
    fn size_classes_round_up() {
        let classes: Vec<u32> = [0, 1, 2, 3, 4, 5, 1024, 1025].map(size_class).to_vec();
        assert_eq!(classes, [0, 0, 1, 2, 2, 3, 10, 11]);
    }
}
