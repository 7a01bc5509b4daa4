//! Vectors of an operation that does not commute: affine maps x -> a x + b of integers modulo 2^16, composed, and a
//! byte that counts how many were. An element has five bytes, so that none is aligned and parts of a vector are odd.

/// Bytes of an element.
pub const MAP_BYTES: usize = 5;

type Map = (u16, u16, u8);

fn compose((a, b, m): Map, (c, d, n): Map) -> Map {
    (
        a.wrapping_mul(c),
        a.wrapping_mul(d).wrapping_add(b),
        m.wrapping_add(n),
    )
}

fn to_bytes((a, b, n): Map) -> [u8; MAP_BYTES] {
    let ([a0, a1], [b0, b1]) = (a.to_le_bytes(), b.to_le_bytes());
    [a0, a1, b0, b1, n]
}

fn from_bytes(bytes: &[u8]) -> Map {
    let word = |i: usize| u16::from_le_bytes([bytes[i], bytes[i + 1]]);
    (word(0), word(2), bytes[4])
}

/// Element `i` of the vector of `rank` in operation `op`.
fn map_of(rank: u32, op: usize, i: usize) -> Map {
    let seed = (rank as usize + 1) * 7919 + op * 104_729 + i * 31;
    ((seed as u16) | 1, (seed >> 3) as u16, 1)
}

/// The vector of `rank` in operation `op`.
pub fn vector(rank: u32, op: usize, elements: usize) -> Vec<u8> {
    (0..elements)
        .flat_map(|i| to_bytes(map_of(rank, op, i)))
        .collect()
}

/// What `elements` elements from `first` on come to over ranks `0..end`.
pub fn reduced(end: u32, op: usize, first: usize, elements: usize) -> Vec<u8> {
    let element = |i| (0..end).map(|rank| map_of(rank, op, i)).reduce(compose);
    (first..first + elements)
        .flat_map(|i| to_bytes(element(i).expect("a rank")))
        .collect()
}

/// Combines each element of `from` with that of `into`, which has the result: `from` is the first operand, or the second.
pub fn combine(from: &[u8], into: &mut [u8], from_is_first: bool) {
    let theirs = from.chunks_exact(MAP_BYTES).map(from_bytes);
    for (theirs, place) in theirs.zip(into.chunks_exact_mut(MAP_BYTES)) {
        let ours = from_bytes(place);
        let result = match from_is_first {
            true => compose(theirs, ours),
            false => compose(ours, theirs),
        };
        place.copy_from_slice(&to_bytes(result));
    }
}
