//! Data that goes packed from one layout to another.

use ferrorail_base::memory::{self, NoMemory};

/// Most bytes that [`Packed`] holds without memory being allocated.
const LITTLE: usize = 1024;

/// Room for packed data between two layouts.
pub(super) struct Packed {
    little: [u8; LITTLE],
    much: Vec<u8>,
}

impl Packed {
    /// Most bytes that are packed as a whole where they might go piece by piece.
    const MOST: usize = 64 << 20;

    /// Up to so many bytes a piece on average it is faster to pack and to unpack all of them, in loops that know how they lie, than to
    /// copy each from one layout to the other.
    const SHORT_PIECE: usize = 512;

    /// Whether so many bytes in so many pieces, on the side that has most, had better go packed.
    pub fn is_faster(bytes: usize, pieces: usize) -> bool {
        bytes <= Self::MOST && bytes <= pieces.saturating_mul(Self::SHORT_PIECE)
    }

    /// For `bytes` bytes.
    #[inline]
    pub fn room(bytes: usize) -> Result<Self, NoMemory> {
        Ok(Self {
            little: [0; LITTLE],
            much: match bytes {
                0..=LITTLE => Vec::new(),
                _ => memory::filled(bytes, 0u8)?,
            },
        })
    }

    /// First byte.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        match self.much.is_empty() {
            true => self.little.as_mut_ptr(),
            false => self.much.as_mut_ptr(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Shape;
    use ferrorail_base::runs::Runs;

    #[test]
    fn short_pieces_go_packed() {
        let runs = |bytes: usize| Runs::dense(bytes).repeated(100, 2 * bytes as isize);
        let (short, long) = (runs(8).expect("regular"), runs(4096).expect("regular"));
        let shape = |runs| Shape::Runs {
            runs,
            count: 2,
            extent: 0,
        };
        let dense = |bytes| Shape::bytes_at(0, bytes);
        assert_eq!(
            (shape(&short).piece_count(), dense(9).piece_count()),
            (200, 1)
        );
        let is_faster = |shape: Shape<'_>| Packed::is_faster(shape.bytes(), shape.piece_count());
        assert!(is_faster(shape(&short)) && !is_faster(shape(&long)) && !is_faster(dense(9000)));
        let mut rooms = [100, 100_000].map(|bytes| Packed::room(bytes).expect("memory"));
        // SAFETY: so many bytes of each are its own.
        unsafe {
            rooms[0].as_mut_ptr().write_bytes(1, 100);
            rooms[1].as_mut_ptr().write_bytes(1, 100_000);
        }
    }
}
