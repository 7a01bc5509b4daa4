//! Words of what travels between ranks, little endian.

/// The word at `at` in `bytes`.
///
/// # Panics
/// If it is not all there.
#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..at + 8].try_into();
    u64::from_le_bytes(word.expect("eight bytes"))
}
