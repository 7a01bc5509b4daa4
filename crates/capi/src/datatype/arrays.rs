//! Parts of arrays (MPI 4.1, sections 5.1.3 and 5.1.4).

use ferrorail_base::memory;
use ferrorail_base::runs::{Builder, NoRuns, Runs};
use ferrorail_mpi_abi::Constants;

/// A type inside another.
pub struct Inner {
    /// One element.
    pub runs: Runs,
    /// From one to the next.
    pub extent: i64,
}

pub fn counted(number: i64) -> Result<usize, NoRuns> {
    usize::try_from(number).map_err(|_| NoRuns::Irregular)
}

pub fn times(a: i64, b: i64) -> Result<i64, NoRuns> {
    a.checked_mul(b).ok_or(NoRuns::Irregular)
}

impl Inner {
    /// `count` of them side by side.
    pub fn block(&self, count: i64) -> Result<Runs, NoRuns> {
        self.runs.repeated(counted(count)?, self.extent as isize)
    }

    /// Those of `size` side by side that are in `blocks`.
    fn dealt(&self, size: i64, blocks: Blocks) -> Result<Runs, NoRuns> {
        let Blocks {
            length,
            turn,
            turns,
        } = blocks;
        if length < 1 || turns < 1 {
            return Err(NoRuns::Irregular);
        }
        let (first, round) = (times(length, turn)?, times(length, turns)?);
        let reach = (size - first).max(0);
        // The last block may be shorter.
        let last = (reach % round).min(length);
        let whole = reach / round + i64::from(last == length);
        let distance = times(round, self.extent)?;
        let blocks = self.block(length)?;
        let mut builder = Builder::default();
        builder.append(&blocks.repeated(counted(whole)?, distance as isize)?, 0)?;
        if last < length {
            builder.append(&self.block(last)?, times(whole, distance)? as isize)?;
        }
        builder
            .finish()?
            .shifted(times(first, self.extent)? as isize)
    }
}

/// Blocks of `length` elements that are dealt out in `turns`, those of one turn.
#[derive(Clone, Copy)]
struct Blocks {
    length: i64,
    turn: i64,
    turns: i64,
}

/// The `n` dimensions from the one whose elements are neighbours to the others.
fn dimensions(constants: &Constants, order: i64, n: usize) -> impl Iterator<Item = usize> {
    let c_order = order == i64::from(constants.order_c);
    (0..n).map(move |step| if c_order { n - 1 - step } else { step })
}

/// What a maker was given: its integers and, in its large-count form, the sizes of its arrays apart from them.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub integers: &'a [i64],
    pub large: &'a [i64],
}

/// `MPI_Type_create_subarray`, whose sizes may be among the large numbers.
pub fn subarray(constants: &Constants, inner: &Inner, given: Given<'_>) -> Result<Runs, NoRuns> {
    let [n, others @ .., order] = given.integers else {
        return Err(NoRuns::Irregular);
    };
    let numbers = match given.large {
        [] => others,
        large => large,
    };
    let n = counted(*n)?;
    if Some(numbers.len()) != n.checked_mul(3) {
        return Err(NoRuns::Irregular);
    }
    let (sizes, rest) = numbers.split_at(n);
    let (lengths, starts) = rest.split_at(n);
    let mut runs = inner.runs.clone();
    let (mut stride, mut offset) = (inner.extent, 0i64);
    for d in dimensions(constants, *order, n) {
        runs = runs.repeated(counted(lengths[d])?, stride as isize)?;
        let by = offset.checked_add(times(starts[d], stride)?);
        offset = by.ok_or(NoRuns::Irregular)?;
        stride = times(stride, sizes[d])?;
    }
    runs.shifted(offset as isize)
}

/// `MPI_Type_create_darray`, whose sizes of the array may be among the large numbers.
pub fn darray(constants: &Constants, inner: &Inner, given: Given<'_>) -> Result<Runs, NoRuns> {
    let [_, rank, n, others @ .., order] = given.integers else {
        return Err(NoRuns::Irregular);
    };
    let n = counted(*n)?;
    let split = match given.large {
        [] => others.split_at_checked(n),
        large => Some((large, others)),
    };
    let (sizes, others) = split.ok_or(NoRuns::Irregular)?;
    if sizes.len() != n || Some(others.len()) != n.checked_mul(3) {
        return Err(NoRuns::Irregular);
    }
    let (ways, others) = others.split_at(n);
    let (lengths, turns) = others.split_at(n);
    // Ranks are numbered along the last dimension, whatever the order of the array.
    let mut place = memory::filled(n, 0i64)?;
    let mut rest = *rank;
    for d in (0..n).rev() {
        place[d] = rest.checked_rem(turns[d]).ok_or(NoRuns::Irregular)?;
        rest /= turns[d];
    }
    let [block, cyclic, none] = constants.distributions.map(i64::from);
    let default = i64::from(constants.default_length);
    let mut inner = Inner {
        runs: inner.runs.clone(),
        extent: inner.extent,
    };
    for d in dimensions(constants, *order, n) {
        let length = match (ways[d], lengths[d] == default) {
            (way, _) if way == none => sizes[d],
            (way, true) if way == block => (sizes[d] + turns[d] - 1) / turns[d],
            (way, true) if way == cyclic => 1,
            (_, true) => return Err(NoRuns::Irregular),
            (_, false) => lengths[d],
        };
        let blocks = Blocks {
            length,
            turn: place[d],
            turns: turns[d],
        };
        inner = Inner {
            runs: inner.dealt(sizes[d], blocks)?,
            extent: times(inner.extent, sizes[d])?,
        };
    }
    Ok(inner.runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrorail_mpi_abi::AbiKind;

    const INT: i64 = 4;

    fn int() -> Inner {
        Inner {
            runs: Runs::dense(INT as usize),
            extent: INT,
        }
    }

    /// The elements of an array of two dimensions for which `is_in` holds, as they lie one after the other.
    fn places(is_c: bool, [rows, columns]: [i64; 2], is_in: impl Fn(i64, i64) -> bool) -> Runs {
        let each = (0..rows * columns).filter(|&at| match is_c {
            true => is_in(at / columns, at % columns),
            false => is_in(at % rows, at / rows),
        });
        let bytes = each.flat_map(|at| (INT * at) as isize..(INT * (at + 1)) as isize);
        Runs::of_places(bytes).expect("few")
    }

    /// What `look` makes of `small` numbers and of `sizes` of an array, given behind the first `before` of them or apart.
    fn given<R>(
        is_large: bool,
        small: &[i64],
        before: usize,
        sizes: &[i64],
        look: impl Fn(Given<'_>) -> R,
    ) -> R {
        let mut integers = small.to_vec();
        let large = match is_large {
            true => sizes,
            false => {
                integers.splice(before..before, sizes.iter().copied());
                &[]
            }
        };
        look(Given {
            integers: &integers,
            large,
        })
    }

    fn bytes_of(runs: &Runs) -> impl Iterator<Item = isize> {
        let pieces = runs.pieces(1, 0);
        pieces.flat_map(|piece| piece.offset..piece.offset + piece.bytes as isize)
    }

    #[test]
    fn a_subarray_lies_as_its_order_says() {
        let constants = Constants::of(AbiKind::Mpich);
        for (is_c, order) in [(true, 56), (false, 57)] {
            let expected = places(is_c, [4, 7], |row, column| {
                (1..3).contains(&row) && (3..6).contains(&column)
            });
            for is_large in [false, true] {
                let (small, sizes) = ([2, order], [4, 7, 2, 3, 1, 3]);
                let look = |given: Given<'_>| subarray(constants, &int(), given);
                let found = given(is_large, &small, 1, &sizes, look).expect("few");
                assert_eq!(found, expected, "order {order}, {is_large}");
            }
        }
    }

    #[test]
    fn arrays_are_dealt_out_in_blocks() {
        let constants = Constants::of(AbiKind::Mpich);
        let ([block, cyclic, none], default) = (
            constants.distributions.map(i64::from),
            i64::from(constants.default_length),
        );
        let sizes = [11, 8];
        // How rows go to three ranks, and columns to two or one; with how many each block has.
        let rows = [
            (block, default, 4),
            (block, 5, 5),
            (cyclic, default, 1),
            (cyclic, 2, 2),
            (cyclic, 20, 20),
        ];
        let columns = [
            (2, block, default, 4),
            (2, cyclic, 3, 3),
            (1, none, default, 8),
            (1, cyclic, 3, 3),
        ];
        let mut found_any = 0;
        for (row_way, row_length, of_rows) in rows {
            for (turns, column_way, column_length, of_columns) in columns {
                for (rank, is_c, is_large) in (0..3 * turns).flat_map(|rank| {
                    [(true, false), (false, true)].map(|(is_c, is_large)| (rank, is_c, is_large))
                }) {
                    let order = if is_c { 56 } else { 57 };
                    let small = [
                        3 * turns,
                        rank,
                        2,
                        row_way,
                        column_way,
                        row_length,
                        column_length,
                        3,
                        turns,
                        order,
                    ];
                    let look = |given: Given<'_>| darray(constants, &int(), given);
                    let found = given(is_large, &small, 3, &sizes, look).expect("few");
                    let expected = places(is_c, sizes, |row, column| {
                        row / of_rows % 3 == rank / turns
                            && column / of_columns % turns == rank % turns
                    });
                    assert!(bytes_of(&found).eq(bytes_of(&expected)), "{small:?}");
                    found_any += i32::from(found.bytes() > 0);
                }
            }
        }
        assert!(found_any > 100);
    }

    #[test]
    fn what_makes_no_sense_is_left() {
        let constants = Constants::of(AbiKind::Mpich);
        for small in [
            [1, 0, 1, 121, 0, 1, 56],
            [1, 0, 1, 121, 4, 0, 56],
            [1, 0, 2, 121, 4, 1, 56],
        ] {
            let look = |given: Given<'_>| darray(constants, &int(), given);
            let found = given(false, &small, 3, &[4], look);
            assert!(found.is_err(), "{small:?}");
        }
    }
}
