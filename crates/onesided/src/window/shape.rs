//! Elements of a datatype in some memory, on either side of an operation.

use ferrorail_base::runs::{Piece, Pieces, Runs};
use std::iter::Once;
use std::ptr;

/// How elements lie, from the address (or displacement) that was passed.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// Bytes without a gap.
    Dense(Piece),
    /// Elements of a datatype with gaps, or otherwise out of order.
    Runs {
        /// One element.
        runs: &'a Runs,
        /// Number of elements.
        count: usize,
        /// From one to the next.
        extent: isize,
    },
}

impl<'a> Shape<'a> {
    /// `bytes` bytes from the address on.
    #[must_use]
    pub const fn bytes_at(offset: isize, bytes: usize) -> Self {
        Self::Dense(Piece { offset, bytes })
    }

    /// Bytes of data.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Dense(piece) => piece.bytes,
            Self::Runs { runs, count, .. } => runs.bytes().saturating_mul(*count),
        }
    }

    /// First and end of the last byte, relative to the address; nothing without data.
    #[must_use]
    pub fn bounds(&self) -> Option<(i128, i128)> {
        if self.bytes() == 0 {
            return None;
        }
        match *self {
            Self::Dense(Piece { offset, bytes }) => {
                Some((offset as i128, offset as i128 + bytes as i128))
            }
            Self::Runs {
                runs,
                count,
                extent,
            } => {
                // Runs that no address reaches have no bounds: report them as reaching everywhere.
                let (low, high) = runs.bounds().unwrap_or((isize::MIN, isize::MAX));
                let last = extent as i128 * (count as i128 - 1);
                Some((low as i128 + last.min(0), high as i128 + last.max(0)))
            }
        }
    }

    /// The pieces in the order of the signature.
    #[must_use]
    pub fn pieces(&self) -> ShapePieces<'a> {
        match *self {
            Self::Dense(piece) => ShapePieces::Dense(std::iter::once(piece)),
            Self::Runs {
                runs,
                count,
                extent,
            } => ShapePieces::Runs(runs.pieces(count, extent)),
        }
    }

    /// Copies the data from `from` on to `packed`, one piece after the other.
    ///
    /// # Safety
    /// All pieces are readable, `packed` is writable for as many bytes, and they are different memory.
    pub unsafe fn pack(&self, from: *const u8, packed: *mut u8) {
        // SAFETY: the caller's contract.
        unsafe {
            match self {
                Self::Dense(piece) => {
                    let from = from.wrapping_offset(piece.offset);
                    packed.copy_from_nonoverlapping(from, piece.bytes);
                }
                Self::Runs {
                    runs,
                    count,
                    extent,
                } => runs.pack(from, *count, *extent, packed),
            }
        }
    }

    /// Copies `packed` data to where it lies from `into` on.
    ///
    /// # Safety
    /// As [`Shape::pack`] the other way.
    pub unsafe fn unpack(&self, packed: *const u8, into: *mut u8) {
        // SAFETY: the caller's contract.
        unsafe {
            match self {
                Self::Dense(piece) => {
                    let into = into.wrapping_offset(piece.offset);
                    into.copy_from_nonoverlapping(packed, piece.bytes);
                }
                Self::Runs {
                    runs,
                    count,
                    extent,
                } => runs.unpack(packed, into, *count, *extent),
            }
        }
    }

    /// How many pieces there are.
    #[must_use]
    pub fn piece_count(&self) -> usize {
        match self {
            Self::Dense(_) => 1,
            Self::Runs { runs, count, .. } => runs.run_count().saturating_mul(*count),
        }
    }

    /// Number of elements, bytes of one, and how many of them are a portion of `about` bytes.
    fn elements(&self, about: usize) -> (usize, usize, usize) {
        let (all, element) = match self {
            Self::Dense(piece) => (1, piece.bytes),
            Self::Runs { runs, count, .. } => (*count, runs.bytes()),
        };
        let at_once = (about / element.max(1)).clamp(1, all.max(1));
        (all, element, at_once)
    }

    /// Bytes of the longest of [`Shape::portions`].
    #[must_use]
    pub fn portion(&self, about: usize) -> usize {
        let (_, element, at_once) = self.elements(about);
        element * at_once
    }

    /// Whole elements of `about` bytes or, if one is longer, one at a time: how far from the address they are, what part of the data
    /// in bytes is before them, and how they lie.
    pub fn portions(&self, about: usize) -> impl Iterator<Item = (isize, usize, Self)> + use<'a> {
        let whole = *self;
        let (all, element, at_once) = self.elements(about);
        (0..all).step_by(at_once).map(move |done| {
            let (extent, portion) = match whole {
                Self::Dense(_) => (0, whole),
                Self::Runs { runs, extent, .. } => {
                    let count = at_once.min(all - done);
                    let portion = Self::Runs {
                        runs,
                        count,
                        extent,
                    };
                    (extent, portion)
                }
            };
            (extent.wrapping_mul(done as isize), done * element, portion)
        })
    }

    /// The data, if it is one piece.
    #[inline]
    #[must_use]
    pub fn single(&self) -> Option<Piece> {
        match self {
            Self::Dense(piece) => Some(*piece),
            Self::Runs { .. } => None,
        }
    }
}

/// Iterator of [`Shape::pieces`].
#[derive(Clone, Debug)]
pub enum ShapePieces<'a> {
    /// Of bytes without a gap.
    Dense(Once<Piece>),
    /// Of elements.
    Runs(Pieces<'a>),
}

impl Iterator for ShapePieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        match self {
            Self::Dense(piece) => piece.next(),
            Self::Runs(pieces) => pieces.next(),
        }
    }
}

/// Cuts pieces to lengths that are asked for, going on where it stopped.
#[derive(Clone, Debug)]
pub struct Cutter<'a> {
    pieces: ShapePieces<'a>,
    rest: Piece,
}

impl<'a> Cutter<'a> {
    /// From the first byte of `shape` on.
    #[must_use]
    pub fn new(shape: &Shape<'a>) -> Self {
        Self {
            pieces: shape.pieces(),
            rest: Piece {
                offset: 0,
                bytes: 0,
            },
        }
    }

    /// The next piece, of at most `bytes` bytes; `None` at the end.
    pub fn take(&mut self, bytes: usize) -> Option<Piece> {
        let taken = Piece {
            bytes: self.left()?.min(bytes),
            ..self.rest
        };
        self.rest.offset = self.rest.offset.wrapping_add(taken.bytes as isize);
        self.rest.bytes -= taken.bytes;
        Some(taken)
    }

    /// Length of what is left of the present piece, or of the next.
    pub fn left(&mut self) -> Option<usize> {
        while self.rest.bytes == 0 {
            self.rest = self.pieces.next()?;
        }
        Some(self.rest.bytes)
    }
}

/// One side of an operation: an address, and how elements lie there.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub address: *mut u8,
    pub shape: &'a Shape<'a>,
}

impl Side<'_> {
    /// Copies the next `bytes` bytes between this side and `packed`.
    ///
    /// # Safety
    /// Both are valid for so many bytes.
    pub unsafe fn copy(
        &self,
        cutter: &mut Cutter<'_>,
        packed: *mut u8,
        bytes: usize,
        to_side: bool,
    ) {
        let mut done = 0;
        while done < bytes
            && let Some(piece) = cutter.take(bytes - done)
        {
            let here = self.address.wrapping_offset(piece.offset);
            let packed = packed.wrapping_add(done);
            // SAFETY: the caller's contract, for a part.
            unsafe {
                match to_side {
                    true => ptr::copy_nonoverlapping(packed, here, piece.bytes),
                    false => ptr::copy_nonoverlapping(here, packed, piece.bytes),
                }
            }
            done += piece.bytes;
        }
    }
}

/// Offsets on both sides and a length for each run that is contiguous on both.
pub fn zip<'a>(
    one: &Shape<'a>,
    other: &Shape<'a>,
) -> impl Iterator<Item = (isize, isize, usize)> + use<'a> {
    let (mut one, mut other) = (Cutter::new(one), Cutter::new(other));
    std::iter::from_fn(move || {
        let bytes = one.left()?.min(other.left()?);
        let (a, b) = (one.take(bytes)?, other.take(bytes)?);
        Some((a.offset, b.offset, bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_are_whole_elements() {
        let threes = Runs::dense(3).repeated(4, 10).expect("regular");
        let elements = Shape::Runs {
            runs: &threes,
            count: 5,
            extent: -40,
        };
        let portions = |about| {
            let portions = elements.portions(about);
            portions.map(|(at, before, portion)| (at, before, portion.bytes()))
        };
        assert!(portions(30).eq([(0, 0, 24), (-80, 24, 24), (-160, 48, 12)]));
        assert_eq!((elements.portion(30), elements.portion(5)), (24, 12));
        assert!(portions(1000).eq([(0, 0, 60)]));
        assert_eq!(portions(5).count(), 5);
        let dense = Shape::bytes_at(9, 100);
        assert!(
            dense
                .portions(30)
                .map(|(at, before, _)| (at, before))
                .eq([(0, 0)])
        );
        assert_eq!(dense.portion(30), 100);
        let nothing = Shape::Runs {
            runs: &threes,
            count: 0,
            extent: 40,
        };
        assert_eq!(nothing.portions(30).count(), 0);
        assert!(nothing.portion(30) <= 30);
    }

    #[test]
    fn runs_of_both_sides_are_cut_to_each_other() {
        let threes = Runs::dense(3).repeated(4, 10).expect("regular");
        let fours = Runs::dense(4).repeated(3, 5).expect("regular");
        let one = Shape::Runs {
            runs: &threes,
            count: 1,
            extent: 40,
        };
        let other = Shape::Runs {
            runs: &fours,
            count: 1,
            extent: 15,
        };
        let cuts: Vec<_> = zip(&one, &other).collect();
        let expected = [
            (0, 0, 3),
            (10, 3, 1),
            (11, 5, 2),
            (20, 7, 2),
            (22, 10, 1),
            (30, 11, 3),
        ];
        assert_eq!(cuts, expected);
        assert_eq!(one.bounds(), Some((0, 33)));
        assert_eq!(Shape::bytes_at(5, 0).bounds(), None);
        let back = Shape::Runs {
            runs: &fours,
            count: 2,
            extent: -100,
        };
        assert_eq!(back.bounds(), Some((-100, 14)));
    }
}
