//! Blocks of a rank that has one, several or none for each other rank, as plain bytes that go to each in one piece.

use super::fast_path::{FastCall, is_memory};
use super::list::{List, make_room};
use super::plain::overlap;
use super::side::{self, is_in_place};
use super::typed;
use super::{Buffer, Refusal, Table};
use crate::datatype::{Elements, Packed, element_bytes};
use crate::error::CallError;
use crate::neighbourhood::Edge;
use crate::session::Session;
use ferrorail_engine::{Block, Team};
use libc::c_void;
use smallvec::SmallVec;
use std::ops::Range;

/// How a form has blocks lie that have numbers.
#[derive(Clone, Copy)]
pub enum Arrangement {
    /// All are the same.
    Same,
    /// One after the other.
    Even,
    /// As a table has them.
    Listed,
    /// The same, each of a type of its own.
    Typed,
}

/// Where the blocks of a call lie.
#[derive(Clone)]
pub enum Rows {
    /// All are the same.
    Same(Elements),
    /// One after the other, from this one on.
    Even(Elements),
    /// As a table has them, from these elements on, of which there are none.
    Listed(Elements, Table),
    /// As a table has them, of a buffer whose type is the address of an array of types.
    Typed(Buffer, Table),
}

impl Rows {
    /// Those of `buffer`, checked as far as the arrays do not matter.
    pub fn of(
        session: &Session,
        arrangement: Arrangement,
        buffer: &Buffer,
        table: &Table,
    ) -> Result<Self, Refusal> {
        Ok(match arrangement {
            Arrangement::Same => Self::Same(side::typed(session, buffer)?),
            Arrangement::Even => Self::Even(side::typed(session, buffer)?),
            Arrangement::Listed => {
                let origin = Buffer {
                    count: 0,
                    ..*buffer
                };
                Self::Listed(side::typed(session, &origin)?, *table)
            }
            Arrangement::Typed => Self::Typed(*buffer, *table),
        })
    }

    /// Whether two of these blocks, of which every rank has as long ones, go to a rank in one exchange.
    pub fn go_together(&self) -> bool {
        let bytes = match self {
            Self::Even(first) => first.bytes(),
            Self::Same(_) | Self::Listed(..) | Self::Typed(..) => None,
        };
        bytes.is_some_and(|bytes| bytes <= TOGETHER_BYTES / ROUNDS_MAX)
    }

    /// The elements of block `index`.
    ///
    /// # Safety
    /// Arrays have an entry for it.
    pub unsafe fn row(&self, session: &Session, index: usize) -> Result<Elements, Refusal> {
        let elements = match self {
            Self::Same(elements) => elements.clone(),
            Self::Even(first) => first.block(index),
            Self::Listed(origin, table) => {
                if table.is_absent() {
                    return Err(Refusal::Invalid);
                }
                // SAFETY: the caller's contract.
                let (count, displacement) =
                    unsafe { (table.count(index), table.displacement(index)) };
                let count = usize::try_from(count).map_err(|_| Refusal::Invalid)?;
                origin.some(displacement, count)
            }
            Self::Typed(buffer, table) => {
                if table.is_absent() || buffer.datatype == 0 {
                    return Err(Refusal::Invalid);
                }
                // SAFETY: the caller's contract.
                return unsafe { typed::elements(session, buffer, table, index) };
            }
        };
        match elements.is_absent() {
            true => Err(Refusal::Invalid),
            false => Ok(elements),
        }
    }
}

/// Up to so many bytes two ranks have for each other in one exchange, in several blocks: copying them takes no longer than a
/// second exchange.
const TOGETHER_BYTES: usize = 8 << 10;

/// Exchanges where two ranks have two blocks for each other.
const ROUNDS_MAX: usize = 2;

/// The blocks of one side of a call, which have an order in which those for one rank follow each other.
pub struct Grouped {
    rows: SmallVec<[Row; 8]>,
    base: *mut u8,
    /// By exchange and rank: where all for it lie, from `base` on.
    lists: [List; ROUNDS_MAX],
    /// Whether those for each rank in an exchange are plain bytes in one piece where the program has them.
    in_one_piece: bool,
    /// Addresses of the program that they span then.
    range: Range<usize>,
    packed: Option<Packed>,
}

/// One block.
struct Row {
    elements: Elements,
    bytes: usize,
    rank: usize,
    /// The exchange in which it moves.
    round: usize,
}

impl Grouped {
    /// None yet: [`Grouped::fill`] follows. Apart, as it is long to be moved.
    #[inline(always)]
    pub fn new(base: *mut c_void) -> Self {
        Self {
            rows: SmallVec::new(),
            base: base.cast(),
            lists: [List::new(), List::new()],
            in_one_piece: true,
            range: 0..0,
            packed: None,
        }
    }

    /// Has those that `edges` name, of `rows` from the base on, by the rank at their other end, for so many `rounds`: if there are
    /// two, a rank's second block goes in the second where both are long.
    ///
    /// # Safety
    /// Arrays of `rows` have an entry for each.
    pub unsafe fn fill(
        &mut self,
        session: &Session,
        team: &Team,
        rows: &Rows,
        (edges, rounds): (&[Edge], usize),
    ) -> Result<(), Refusal> {
        let ranks = team.size() as usize;
        for list in &mut self.lists[..rounds] {
            make_room(list, ranks)?;
            list.resize(ranks, Block::default());
        }
        let mut total = 0usize;
        for of_rank in edges.chunk_by(|one, other| one.rank == other.rank) {
            let (rank, first) = (of_rank[0].rank as usize, self.rows.len());
            if rank >= ranks {
                return Err(Refusal::Invalid);
            }
            let before = total;
            for edge in of_rank {
                // SAFETY: the caller's contract.
                let elements = unsafe { rows.row(session, edge.index)? };
                let bytes = elements.bytes().ok_or(CallError::TooMuch)?;
                total = total.checked_add(bytes).ok_or(CallError::TooMuch)?;
                self.rows.push(Row {
                    elements,
                    bytes,
                    rank,
                    round: 0,
                });
            }
            if rounds > 1 && of_rank.len() == ROUNDS_MAX && total - before > TOGETHER_BYTES {
                self.rows[first + 1].round = 1;
            }
            (first..self.rows.len()).for_each(|row| self.place(row));
        }
        Ok(())
    }

    /// Adds a row to what its rank has in its exchange.
    fn place(&mut self, row: usize) {
        let row = &self.rows[row];
        let block = &mut self.lists[row.round][row.rank];
        match row.elements.dense() {
            _ if row.bytes == 0 => {}
            Some(address) => {
                let Range { start, end } = row.elements.range(address);
                self.range = match self.range.is_empty() {
                    true => start..end,
                    false => self.range.start.min(start)..self.range.end.max(end),
                };
                let offset = (address as isize).wrapping_sub(self.base as isize);
                if block.bytes == 0 {
                    block.offset = offset;
                }
                self.in_one_piece &= block.offset.wrapping_add(block.bytes as isize) == offset;
            }
            None => self.in_one_piece = false,
        }
        block.bytes += row.bytes;
    }

    /// Has what is received go where [`Grouped::finish`] finds it.
    pub fn prepare_output(&mut self) -> Result<(), CallError> {
        match self.in_one_piece {
            true => Ok(()),
            false => self.pack(),
        }
    }

    /// Before they are sent: copied if they have gaps, or lie in `output`.
    ///
    /// # Safety
    /// The elements are readable.
    pub unsafe fn prepare_input(
        &mut self,
        session: &Session,
        output: &Self,
    ) -> Result<(), CallError> {
        if self.in_one_piece && !overlap(&self.range, &output.range) {
            return Ok(());
        }
        self.pack()?;
        // SAFETY: the caller's contract; the copy has room.
        self.each_packed(|row, at| unsafe { row.pack(session, at) })
    }

    /// Brings what was received to the program's elements; gaps keep their bytes.
    ///
    /// # Safety
    /// The elements are writable, all bytes were received.
    pub unsafe fn finish(&self, session: &Session) -> Result<(), CallError> {
        match self.packed {
            // SAFETY: the caller's contract.
            Some(_) => self.each_packed(|row, at| unsafe { row.unpack(session, at) }),
            None => Ok(()),
        }
    }

    /// Has them lie one after the other in memory of their own.
    fn pack(&mut self) -> Result<(), CallError> {
        let mut end = 0;
        let place_of = |row: &Row| (row.rank, row.round);
        for of_rank in self
            .rows
            .chunk_by(|one, other| place_of(one) == place_of(other))
        {
            let block = &mut self.lists[of_rank[0].round][of_rank[0].rank];
            block.offset = end as isize;
            end += block.bytes;
        }
        self.base = self.packed.insert(Packed::new(end)?).as_mut_ptr();
        self.range = 0..0;
        Ok(())
    }

    /// Calls `act` with the elements of each and where its packed bytes are.
    fn each_packed(
        &self,
        act: impl Fn(&Elements, *mut u8) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let mut at = self.base;
        for row in &self.rows {
            act(&row.elements, at)?;
            at = at.wrapping_add(row.bytes);
        }
        Ok(())
    }

    /// What offsets count from.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Where what each rank has in exchange `round` lies.
    pub fn list(&self, round: usize) -> &[Block] {
        &self.lists[round]
    }
}

/// Lists in `list`, which is empty, by rank what `edges`, one for each rank at most, have in a buffer with its table, if that is
/// plain bytes of a predefined type. Returns the addresses that they span.
///
/// # Safety
/// The table's arrays have an entry for each.
#[inline(always)]
pub unsafe fn list_plain(
    call: &FastCall<'_>,
    arrangement: Arrangement,
    (buffer, table): (&Buffer, &Table),
    edges: &[Edge],
    list: &mut List,
) -> Option<Range<usize>> {
    if is_in_place(call.session, buffer)
        || matches!(arrangement, Arrangement::Listed) && table.is_absent()
    {
        return None;
    }
    let unit = match arrangement {
        Arrangement::Typed => None,
        _ => element_bytes(call.session, buffer.datatype),
    }?;
    let ranks = call.team.size() as usize;
    make_room(list, ranks).ok()?;
    list.resize(ranks, Block::default());
    let (mut start, mut end) = (usize::MAX, 0);
    for edge in edges {
        let (count, first) = match arrangement {
            // SAFETY: the caller's contract.
            Arrangement::Listed => unsafe {
                (table.count(edge.index), table.displacement(edge.index))
            },
            Arrangement::Even => (buffer.count, buffer.count.wrapping_mul(edge.index as i64)),
            Arrangement::Same | Arrangement::Typed => (buffer.count, 0),
        };
        let bytes = unit.checked_mul(usize::try_from(count).ok()?)?;
        let offset = (first as isize).wrapping_mul(unit as isize);
        if bytes != 0 {
            let address = (buffer.address as usize).wrapping_add_signed(offset);
            start = start.min(address);
            end = end.max(address.checked_add(bytes)?);
        }
        *list.get_mut(edge.rank as usize)? = Block { offset, bytes };
    }
    let span = start.min(end)..end;
    is_memory(&span).then_some(span)
}
