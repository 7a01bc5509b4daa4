//! Peer arithmetic: who sends how much to whom in which round, over member indices `0..size`.
//!
//! Pure functions of (member, size, k); no ranks, buffers or steps. k is the number of ports: the
//! messages that a member can send, and receive, at the same time. Tests are exhaustive over sizes.

pub mod bruck;
pub mod corrected;
pub mod direct;
pub mod dissemination;
pub mod exchange;
pub mod rooted;

use crate::EvenParts;

/// One message of a round; the same for all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Port at the origin.
    pub port: u8,
    /// How far its ends are apart.
    pub distance: u32,
    /// How many blocks it carries.
    pub blocks: u32,
}

/// The least `e` with `base^e >= value`: rounds of an algorithm that multiplies by `base`.
///
/// # Panics
/// If `base < 2` or `value == 0`.
pub fn ceil_log(value: u32, base: u32) -> u32 {
    assert!(base >= 2 && value > 0);
    let (mut exponent, mut power) = (0, 1u64);
    while power < u64::from(value) {
        power *= u64::from(base);
        exponent += 1;
    }
    exponent
}

/// Rounds in which what a member has can reach `size` members over k ports: `ceil(log_{k+1} size)`.
pub fn levels(size: u32, ports: u8) -> u32 {
    ceil_log(size, u32::from(ports) + 1)
}

/// The greatest `e` with `base^e <= value`, and that power.
///
/// # Panics
/// If `base < 2` or `value == 0`.
pub fn floor_log(value: u32, base: u32) -> (u32, u32) {
    assert!(base >= 2 && value > 0);
    let (mut exponent, mut power) = (0, 1u64);
    while power * u64::from(base) <= u64::from(value) {
        power *= u64::from(base);
        exponent += 1;
    }
    (exponent, power as u32)
}

/// Divides `count` items evenly among ports: (port, first item, number of items), none of them empty.
pub fn shares(count: u32, ports: u8) -> impl Iterator<Item = (u8, u32, u32)> {
    let parts = EvenParts {
        items: count,
        parts: count.min(u32::from(ports)),
    };
    (0..parts.parts).map(move |part| {
        let range = parts.range(part);
        (part as u8, range.start, range.end - range.start)
    })
}

/// `(member + distance) mod size`, for `distance <= size`.
#[inline]
pub fn after(member: u32, distance: u32, size: u32) -> u32 {
    ((u64::from(member) + u64::from(distance)) % u64::from(size)) as u32
}

/// `(member - distance) mod size`, for `distance <= size`.
#[inline]
pub fn before(member: u32, distance: u32, size: u32) -> u32 {
    after(member, size - distance, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_bracket_their_value() {
        for base in 2..=9u32 {
            for value in 1..=1000u32 {
                let up = ceil_log(value, base);
                assert!(base.pow(up) >= value && (up == 0 || base.pow(up - 1) < value));
                let (down, power) = floor_log(value, base);
                assert_eq!(power, base.pow(down));
                assert!(power <= value && power * base > value);
            }
        }
        assert_eq!(ceil_log(u32::MAX, 2), 32);
        assert_eq!(floor_log(u32::MAX, 2), (31, 1 << 31));
    }

    #[test]
    fn neighbours_wrap_around() {
        for size in 1..=20 {
            for member in 0..size {
                for distance in 0..=size {
                    let there = after(member, distance, size);
                    assert!(there < size);
                    assert_eq!(before(there, distance, size), member);
                }
            }
        }
    }
}
