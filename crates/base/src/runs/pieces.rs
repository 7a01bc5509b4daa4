//! The runs of several elements one by one, without a call for each.

use super::{Group, Runs};

/// A run of bytes: its offset from the first element's address, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte.
    pub offset: isize,
    /// Length in bytes.
    pub bytes: usize,
}

/// Iterator over [`Piece`]s, in the order of the signature. See [`Runs::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    groups: &'a [Group],
    times: usize,
    stride: isize,
    extent: isize,
    /// Elements left, the present one included.
    elements: usize,
    /// Where the present element and the present repetition begin.
    element: isize,
    base: isize,
    time: usize,
    group: usize,
    run: usize,
}

impl Runs {
    /// The runs of `count` elements that are `extent` bytes apart.
    #[must_use]
    pub fn pieces(&self, count: usize, extent: isize) -> Pieces<'_> {
        Pieces {
            groups: &self.groups,
            times: self.times,
            stride: self.stride,
            extent,
            elements: if self.bytes == 0 { 0 } else { count },
            element: 0,
            base: 0,
            time: 0,
            group: 0,
            run: 0,
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.elements == 0 {
            return None;
        }
        let group = self.groups[self.group];
        let within = group.stride.wrapping_mul(self.run as isize);
        let piece = Piece {
            offset: self.base.wrapping_add(group.offset).wrapping_add(within),
            bytes: group.bytes,
        };
        self.run += 1;
        if self.run == group.count {
            self.run = 0;
            self.group += 1;
        }
        if self.group == self.groups.len() {
            self.group = 0;
            self.time += 1;
            self.base = self.base.wrapping_add(self.stride);
        }
        if self.time == self.times {
            self.time = 0;
            self.elements -= 1;
            self.element = self.element.wrapping_add(self.extent);
            self.base = self.element;
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_those_that_packing_reads() {
        let places = [3, 4, 8, 9, 13, 14, 1, 40, 41, 42];
        let runs = Runs::of_places(places).expect("regular enough");
        for (count, extent) in [(1, 0), (3, 64), (2, -50)] {
            let memory: Vec<u8> = (0..512u32).map(|at| (at * 7) as u8).collect();
            let first = memory.as_ptr().wrapping_add(100);
            let mut packed = vec![0; runs.bytes() * count];
            // SAFETY: every place of every element lies in `memory`.
            unsafe { runs.pack(first, count, extent, packed.as_mut_ptr()) };
            let found: Vec<u8> = runs
                .pieces(count, extent)
                .flat_map(|piece| (0..piece.bytes).map(move |at| piece.offset + at as isize))
                .map(|place| memory[(100 + place) as usize])
                .collect();
            assert_eq!(found, packed);
        }
        let dense = Runs::dense(5).repeated(4, 7).expect("regular");
        let twice: Vec<Piece> = dense.pieces(2, 100).collect();
        assert_eq!(twice.len(), 8);
        assert_eq!((twice[5].offset, twice[5].bytes), (107, 5));
        assert_eq!(Runs::dense(0).pieces(9, 1).count(), 0);
    }
}
