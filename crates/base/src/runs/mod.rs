//! Where the data of a derived datatype lies: runs of bytes, in the order of the type's signature.
//!
//! A [`Runs`] is short for what programs describe: a vector is one [`Group`], a vector of vectors
//! one group that repeats, a struct one group per member. [`Builder`] finds that form, and gives up
//! when a description stays too long, so that memory is bounded; [`NoRuns`] says why there is none. Packing and
//! unpacking are in `copy`; neither touches a byte of the gaps. Other processes read it as `words`.

mod builder;
mod copy;
mod pieces;
mod words;

pub use builder::Builder;
pub use pieces::{Piece, Pieces};

use crate::memory::{self, NoMemory};
use std::sync::Arc;

/// Most groups of one description, which are 512 MB then. Elements of a longer one are left to the host's packing in
/// collectives, and are an error in windows, where nothing else moves them.
pub const GROUPS_MAX: usize = 1 << 24;

/// Why a description is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRuns {
    /// It would be too long, or its numbers too large.
    #[error("too irregular")]
    Irregular,
    /// The system refused the memory for it.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

/// `count` runs of `bytes` bytes each, `stride` apart, the first at `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// First byte of the first run, from the element's address.
    pub offset: isize,
    /// Length of a run.
    pub bytes: usize,
    /// Number of runs, at least 1.
    pub count: usize,
    /// From one run to the next; may be negative. Without meaning if there is one run.
    pub stride: isize,
}

impl Group {
    fn single(offset: isize, bytes: usize) -> Self {
        Self {
            offset,
            bytes,
            count: 1,
            stride: 0,
        }
    }

    /// Offset that would continue the group.
    fn next(&self) -> Option<isize> {
        let span = self.stride.checked_mul(self.count.try_into().ok()?)?;
        self.offset.checked_add(span)
    }

    fn shifted(self, by: isize) -> Result<Self, NoRuns> {
        let offset = self.offset.checked_add(by).ok_or(NoRuns::Irregular)?;
        Ok(Self { offset, ..self })
    }
}

/// The data of one element: all groups in order, `times` times, `stride` apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Shared by descriptions that differ in the rest.
    groups: Arc<Vec<Group>>,
    times: usize,
    stride: isize,
    bytes: usize,
}

impl Runs {
    /// `bytes` bytes without a gap.
    pub fn dense(bytes: usize) -> Self {
        let group = Group::single(0, bytes);
        let groups = if bytes == 0 { vec![] } else { vec![group] };
        Self::once(groups, bytes)
    }

    /// `groups`, of `bytes` bytes in all.
    fn once(groups: Vec<Group>, bytes: usize) -> Self {
        Self {
            groups: groups.into(),
            times: 1,
            stride: 0,
            bytes,
        }
    }

    /// Bytes that lie at `places`, one by one.
    ///
    /// # Errors
    /// See [`NoRuns`].
    pub fn of_places(places: impl IntoIterator<Item = isize>) -> Result<Self, NoRuns> {
        let mut builder = Builder::default();
        let mut run: Option<Group> = None;
        for place in places {
            match &mut run {
                Some(run) if run.offset + run.bytes as isize == place => run.bytes += 1,
                _ => {
                    if let Some(run) = run.replace(Group::single(place, 1)) {
                        builder.push(run)?;
                    }
                }
            }
        }
        if let Some(run) = run {
            builder.push(run)?;
        }
        builder.finish()
    }

    /// Bytes of data.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the data begins, if it is one run.
    pub fn single(&self) -> Option<isize> {
        match **self.groups {
            [] => Some(0),
            [group] if group.count == 1 && self.times == 1 => Some(group.offset),
            _ => None,
        }
    }

    /// Lowest byte and end of the highest one; `None` without data, or if not representable.
    pub fn bounds(&self) -> Option<(isize, isize)> {
        let reach = |count: usize, stride: isize| {
            let last = stride.checked_mul(isize::try_from(count - 1).ok()?)?;
            Some((last.min(0), last.max(0)))
        };
        let mut bounds: Option<(isize, isize)> = None;
        for group in &*self.groups {
            let (down, up) = reach(group.count, group.stride)?;
            let low = group.offset.checked_add(down)?;
            let high = group.offset.checked_add(up)?;
            let high = high.checked_add_unsigned(group.bytes)?;
            bounds = Some(bounds.map_or((low, high), |(l, h)| (l.min(low), h.max(high))));
        }
        let (low, high) = bounds?;
        let (down, up) = reach(self.times, self.stride)?;
        Some((low.checked_add(down)?, high.checked_add(up)?))
    }

    /// `count` of these, `stride` apart (`MPI_Type_create_hvector` of single blocks).
    ///
    /// # Errors
    /// See [`NoRuns`].
    pub fn repeated(&self, count: usize, stride: isize) -> Result<Self, NoRuns> {
        let bytes = self.bytes.checked_mul(count).ok_or(NoRuns::Irregular)?;
        if bytes == 0 {
            return Ok(Self::dense(0));
        }
        if count == 1 {
            return Ok(self.clone());
        }
        let as_a_whole = || Self {
            times: count,
            stride,
            bytes,
            ..self.clone()
        };
        let continues = |count: usize, inner: isize| {
            let span = isize::try_from(count).ok()?.checked_mul(inner)?;
            Some(span == stride)
        };
        if self.times > 1 {
            if !continues(self.times, self.stride).ok_or(NoRuns::Irregular)? {
                return self.one_by_one(count, stride);
            }
            let times = self.times.checked_mul(count).ok_or(NoRuns::Irregular)?;
            return Ok(Self {
                times,
                bytes,
                ..self.clone()
            });
        }
        let [group] = **self.groups else {
            return Ok(as_a_whole());
        };
        let joined = if group.count == 1 && usize::try_from(stride) == Ok(group.bytes) {
            Group { bytes, ..group }
        } else if group.count == 1 {
            Group {
                count,
                stride,
                ..group
            }
        } else if continues(group.count, group.stride).ok_or(NoRuns::Irregular)? {
            let count = group.count.checked_mul(count).ok_or(NoRuns::Irregular)?;
            Group { count, ..group }
        } else {
            return Ok(as_a_whole());
        };
        Ok(Self::once(vec![joined], bytes))
    }

    fn one_by_one(&self, count: usize, stride: isize) -> Result<Self, NoRuns> {
        let mut builder = Builder::default();
        for index in 0..count {
            let by = stride.checked_mul(index as isize);
            builder.append(self, by.ok_or(NoRuns::Irregular)?)?;
        }
        builder.finish()
    }

    /// The same, `by` bytes further on.
    ///
    /// # Errors
    /// See [`NoRuns`].
    pub fn shifted(&self, by: isize) -> Result<Self, NoRuns> {
        if by == 0 {
            return Ok(self.clone());
        }
        let mut groups = memory::listed(self.groups.iter().copied())?;
        for group in &mut groups {
            *group = group.shifted(by)?;
        }
        Ok(Self {
            groups: groups.into(),
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(offset: isize, bytes: usize, count: usize, stride: isize) -> Group {
        Group {
            offset,
            bytes,
            count,
            stride,
        }
    }

    #[test]
    fn what_programs_describe_is_short() {
        // Two columns of a matrix of 10 ints a row.
        let column = Runs::dense(8).repeated(5, 40).unwrap();
        assert_eq!(**column.groups, [group(0, 8, 5, 40)]);
        let faces = column.repeated(5, 400).unwrap();
        assert_eq!((faces.groups.len(), faces.times, faces.stride), (1, 5, 400));
        assert_eq!(faces.bytes(), 200);
        assert_eq!(faces.bounds(), Some((0, 4 * 400 + 4 * 40 + 8)));
        assert_eq!(column.repeated(5, 200).unwrap().groups[0].count, 25);
        let cube = Runs::dense(40).repeated(5, 40).unwrap();
        assert_eq!(cube.single(), Some(0));
        assert_eq!(cube.bytes(), 200);
    }

    #[test]
    fn pieces_join_where_they_touch() {
        let mut builder = Builder::default();
        for offset in [0, 4, 20, 24, 40] {
            builder.append(&Runs::dense(4), offset).unwrap();
        }
        let runs = builder.finish().unwrap();
        assert_eq!(**runs.groups, [group(0, 8, 2, 20), group(40, 4, 1, 0)]);
        assert_eq!(runs.bounds(), Some((0, 44)));
    }

    #[test]
    fn order_is_kept_and_offsets_may_be_negative() {
        let places = [4, 5, 6, 7, -4, -3, -2, -1, -12, -11, -10, -9];
        let runs = Runs::of_places(places).unwrap();
        assert_eq!(**runs.groups, [group(4, 4, 3, -8)]);
        assert_eq!(runs.bounds(), Some((-12, 8)));
    }

    #[test]
    fn memory_is_bounded() {
        const MOST: usize = 1000;
        let described = |runs: &Runs, n: usize, place: fn(usize) -> usize| {
            let mut builder = Builder::up_to(MOST);
            (0..n).try_for_each(|index| builder.append(runs, place(index) as isize))?;
            builder.finish().map(|runs| runs.groups.len())
        };
        let scattered = |n| described(&Runs::dense(1), n, |index| index * index * 3);
        assert!(scattered(MOST).is_ok());
        assert_eq!(scattered(4 * MOST), Err(NoRuns::Irregular));
        // As many pieces, but regular.
        let regular = |n| described(&Runs::dense(4), n, |index| 12 * index);
        assert_eq!(regular(4 * MOST), Ok(1));
        assert_eq!(regular(9 * MOST), Err(NoRuns::Irregular));
    }

    #[test]
    fn nothing_is_nothing() {
        let empty = Runs::dense(0);
        assert_eq!((empty.bytes(), empty.bounds()), (0, None));
        assert_eq!(empty.single(), Some(0));
        assert_eq!(Runs::dense(8).repeated(0, 8).unwrap(), empty);
        assert_eq!(Builder::default().finish().unwrap(), empty);
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let column = Runs::dense(8).repeated(1 << 40, 40).unwrap();
        assert_eq!(column.repeated(1 << 40, 8), Err(NoRuns::Irregular));
        assert!(
            column
                .shifted(isize::MAX)
                .is_ok_and(|far| far.bounds().is_none())
        );
    }
}
