//! What test programs send and find, byte by byte: compiled with optimisation where the tests themselves are not.

pub mod maps;

use std::fmt::Arguments;

/// What `from` has for `to`, or for all if that is 0, in operation `op`.
pub fn contents(from: u32, to: u32, op: usize, bytes: usize) -> Vec<u8> {
    let start = from as usize * 131 + to as usize * 37 + op * 29;
    (0..bytes)
        .map(|i| (start + i * 7 + (i >> 8)) as u8)
        .collect()
}

/// What `of` says of each of `count` ranks, one after another.
pub fn row(count: u32, of: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..count).map(of).collect::<Vec<_>>().concat()
}

/// Asserts that `found` is as `expected`, and says where it is not.
#[track_caller]
pub fn assert_same(found: &[u8], expected: &[u8], what: Arguments<'_>) {
    if found == expected {
        return;
    }
    let place = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!((found.len(), place), (expected.len(), None), "{what}");
}

/// Whether each of `bytes` is `byte`.
pub fn is_filled_with(bytes: &[u8], byte: u8) -> bool {
    bytes.iter().all(|&other| other == byte)
}
