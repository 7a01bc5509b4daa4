//! Packing and unpacking: loops over groups, unrolled for the lengths of MPI's basic types.

use super::{Group, Runs};
use crate::memory;

/// Copies `bytes` bytes between the program's memory at `element` and `packed`: there if `PACK`, else back.
///
/// # Safety
/// Both are valid for that, and different memory.
#[inline(always)]
unsafe fn copy<const PACK: bool>(element: *mut u8, packed: *mut u8, bytes: usize) {
    let (from, into) = match PACK {
        true => (element, packed),
        false => (packed, element),
    };
    // SAFETY: the caller's contract.
    unsafe { memory::copy(from.cast_const(), into, bytes) }
}

/// The address `by` bytes from `base`. Displacements may be absolute addresses (`MPI_BOTTOM`).
#[inline(always)]
fn at(base: *mut u8, by: isize) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(base.expose_provenance().wrapping_add_signed(by))
}

impl Runs {
    /// Copies `count` elements, `extent` apart from `element` on, to `packed` one after another.
    ///
    /// # Safety
    /// The elements are readable, `packed` is writable for `count` times [`Runs::bytes`], and they
    /// are different memory.
    pub unsafe fn pack(&self, element: *const u8, count: usize, extent: isize, packed: *mut u8) {
        // SAFETY: the caller's contract; packing only reads elements.
        unsafe { self.each::<true>(element.cast_mut(), count, extent, packed) }
    }

    /// Copies packed bytes to `count` elements, `extent` apart from `element` on. Bytes between the
    /// runs are not touched.
    ///
    /// # Safety
    /// The elements are writable, `packed` is readable for `count` times [`Runs::bytes`], and they
    /// are different memory.
    pub unsafe fn unpack(&self, packed: *const u8, element: *mut u8, count: usize, extent: isize) {
        // SAFETY: the caller's contract; unpacking only reads packed bytes.
        unsafe { self.each::<false>(element, count, extent, packed.cast_mut()) }
    }

    /// # Safety
    /// As [`Runs::pack`] or [`Runs::unpack`].
    unsafe fn each<const PACK: bool>(
        &self,
        element: *mut u8,
        mut count: usize,
        extent: isize,
        mut packed: *mut u8,
    ) {
        let (mut times, mut stride) = (self.times, self.stride);
        let mut only;
        let mut groups = self.groups.as_slice();
        // Outer loops that only continue an inner one become part of it.
        if times == 1 {
            (times, stride, count) = (count, extent, 1);
        }
        if let [group] = *groups {
            let continues = group.count == 1 || stride == group.stride * group.count as isize;
            if continues {
                let inner = if group.count == 1 {
                    stride
                } else {
                    group.stride
                };
                only = [Group {
                    count: group.count * times,
                    stride: inner,
                    ..group
                }];
                (groups, times) = (&only, 1);
                if only[0].stride == group.bytes as isize && only[0].count > 1 {
                    only = [Group {
                        bytes: group.bytes * only[0].count,
                        count: 1,
                        ..group
                    }];
                    groups = &only;
                }
            }
        }
        for outer in 0..count {
            let element = at(element, extent.wrapping_mul(outer as isize));
            for time in 0..times {
                let base = at(element, stride.wrapping_mul(time as isize));
                for group in groups {
                    let first = at(base, group.offset);
                    // SAFETY: the caller's contract, group by group.
                    packed = unsafe { strided::<PACK>(first, group, packed) };
                }
            }
        }
    }
}

/// Copies the runs of one group, of which the first is at `first`; returns the end of the packed
/// bytes.
///
/// # Safety
/// As [`Runs::each`], for the group.
#[inline]
unsafe fn strided<const PACK: bool>(first: *mut u8, group: &Group, packed: *mut u8) -> *mut u8 {
    // SAFETY: the caller's contract. The compiler knows the lengths of the first loops.
    unsafe {
        match group.bytes {
            1 => run::<PACK>(first, group, packed, 1),
            2 => run::<PACK>(first, group, packed, 2),
            4 => run::<PACK>(first, group, packed, 4),
            8 => run::<PACK>(first, group, packed, 8),
            12 => run::<PACK>(first, group, packed, 12),
            16 => run::<PACK>(first, group, packed, 16),
            24 => run::<PACK>(first, group, packed, 24),
            32 => run::<PACK>(first, group, packed, 32),
            64 => run::<PACK>(first, group, packed, 64),
            bytes => run::<PACK>(first, group, packed, bytes),
        }
    }
}

/// # Safety
/// As [`strided`]; the group's runs are of `bytes` bytes.
#[inline(always)]
unsafe fn run<const PACK: bool>(
    first: *mut u8,
    group: &Group,
    packed: *mut u8,
    bytes: usize,
) -> *mut u8 {
    for index in 0..group.count {
        let element = first.wrapping_offset(group.stride.wrapping_mul(index as isize));
        // SAFETY: the caller's contract, run by run.
        unsafe { copy::<PACK>(element, packed.wrapping_add(bytes * index), bytes) }
    }
    packed.wrapping_add(bytes * group.count)
}

#[cfg(test)]
mod tests {
    use super::super::Builder;
    use super::*;
    use crate::random::SplitMix64;

    struct Random(SplitMix64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0.below(limit as u64) as usize
        }
    }

    /// A random description, the extent of its elements, and where each byte of one lies.
    fn draw(random: &mut Random, depth: u32) -> (Runs, isize, Vec<isize>) {
        if depth == 0 {
            let bytes = [1, 2, 3, 4, 8, 12, 16, 20, 24, 32, 64][random.below(11)];
            return (
                Runs::dense(bytes),
                bytes as isize,
                (0..bytes as isize).collect(),
            );
        }
        let (inner, extent, places) = draw(random, depth - 1);
        if random.below(2) == 0 {
            let count = random.below(5);
            let gap = [0, 0, 4, 7][random.below(4)];
            let sign = if random.below(4) == 0 { -1 } else { 1 };
            let stride = sign * (extent.abs() + gap);
            let runs = inner.repeated(count, stride).unwrap();
            let shift = |index: usize| stride * index as isize;
            let all = (0..count).flat_map(|i| places.iter().map(move |p| p + shift(i)));
            return (runs, stride.abs() * count.max(1) as isize, all.collect());
        }
        let mut builder = Builder::default();
        let mut all = Vec::new();
        let mut order: Vec<isize> = (0..random.below(4) as isize + 1).collect();
        if random.below(2) == 0 {
            order.reverse();
        }
        for slot in &order {
            let by = slot * (extent.abs() + random.below(2) as isize * 5) + slot * 5;
            builder.append(&inner, by).unwrap();
            all.extend(places.iter().map(|place| place + by));
        }
        let reach = (order.len() as isize) * (extent.abs() + 10);
        (builder.finish().unwrap(), reach, all)
    }

    #[test]
    fn packing_follows_the_places_and_leaves_gaps_alone() {
        let mut random = Random(SplitMix64(7));
        for case in 0..2000 {
            let depth = random.below(4) as u32;
            let (runs, extent, places) = draw(&mut random, depth);
            assert_eq!(runs.bytes(), places.len(), "case {case}");
            let count = random.below(4);
            let extent = extent + random.below(3) as isize * 4;
            let all: Vec<isize> = (0..count as isize)
                .flat_map(|e| places.iter().map(move |place| place + e * extent))
                .collect();
            let low = all.iter().copied().min().unwrap_or(0);
            let high = all.iter().copied().max().unwrap_or(0) + 1;
            if count == 1 && !places.is_empty() {
                assert_eq!(runs.bounds(), Some((low, high)), "case {case}");
            }
            let mut memory: Vec<u8> = (0..high - low).map(|_| random.below(256) as u8).collect();
            let expected: Vec<u8> = all
                .iter()
                .map(|place| memory[(place - low) as usize])
                .collect();
            let mut packed = vec![0; all.len()];
            let element = memory.as_mut_ptr().wrapping_offset(-low);
            // SAFETY: all places lie in `memory`.
            unsafe { runs.pack(element, count, extent, packed.as_mut_ptr()) };
            assert_eq!(packed, expected, "case {case}: {runs:?}");
            let fresh: Vec<u8> = packed.iter().map(|byte| !byte).collect();
            let mut wanted = memory.clone();
            for (place, byte) in all.iter().zip(&fresh) {
                wanted[(place - low) as usize] = *byte;
            }
            // SAFETY: as above.
            unsafe { runs.unpack(fresh.as_ptr(), element, count, extent) };
            assert_eq!(memory, wanted, "case {case}: {runs:?}");
        }
    }
}
