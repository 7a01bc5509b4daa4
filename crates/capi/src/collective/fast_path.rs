//! The fast path of calls whose sides are plain bytes of predefined types, apart from each other, on a communicator that the
//! thread knows: most calls of most programs. What such a call has to be checked for is little, and a short one takes as
//! long as that. All others, wrong ones included, are looked at by
//! [`Collective::CHECK`](super::Collective::CHECK) and [`perform`](super::Collective::perform), which find out what they are.

use super::list::{List, list_blocks};
use super::side::is_in_place;
use super::{Args, Buffer, Refusal, Table, done, plain};
use crate::datatype::{Layout, element_bytes, is_absent};
use crate::operation::Operations;
use crate::session::Session;
use crate::thread::Local;
use ferrorail_base::Rank;
use ferrorail_engine::{Block, Combine, EngineError, Reducer, Team};
use libc::c_void;
use std::ops::Range;

/// How a call ended that took this path.
pub type Outcome = Result<(), Refusal>;

/// A call that may take this path.
pub struct FastCall<'a> {
    /// As everywhere.
    pub session: &'a Session,
    /// The calling thread's own.
    pub local: &'a Local,
    /// The communicator's team.
    pub team: &'a Team,
    /// What was passed.
    pub args: &'a Args,
}

/// What one side of a collective has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    Nothing,
    /// One block.
    Block,
    /// A block for, or from, each rank.
    Blocks,
    /// One block at the root, elsewhere nothing.
    RootBlock,
    /// As many as ranks at the root, elsewhere nothing.
    RootBlocks,
}

impl Part {
    /// Blocks of this side of a rank in a team of `size`, of which it may be the root.
    #[inline(always)]
    const fn blocks(self, is_root: bool, size: u32) -> usize {
        match self {
            Self::Block => 1,
            Self::Blocks => size as usize,
            Self::RootBlock if is_root => 1,
            Self::RootBlocks if is_root => size as usize,
            Self::Nothing | Self::RootBlock | Self::RootBlocks => 0,
        }
    }
}

/// Both sides of a call of blocks of one length.
pub struct Sides {
    /// The root, a rank of the team.
    pub root: Rank,
    /// What is sent; `None` in place.
    pub send: Option<*const u8>,
    /// Where the result goes.
    pub recv: *mut u8,
    /// Bytes of a block.
    pub bytes: usize,
    /// Elements of a block.
    pub elements: usize,
}

/// How long a block is.
#[derive(Clone, Copy)]
struct Length {
    /// Elements.
    count: usize,
    /// Bytes of one; those of all do not overflow.
    unit: usize,
}

impl Length {
    #[inline(always)]
    fn bytes(self) -> usize {
        self.count * self.unit
    }
}

impl<'a> FastCall<'a> {
    /// The root, if it is a rank of the team.
    #[inline(always)]
    pub fn root(&self) -> Option<Rank> {
        self.args.root_in(self.team)
    }

    /// A call of blocks of one length, of which each rank sends and receives so many, and which is counted then. What is sent
    /// may be `in_place` where something is received.
    #[inline(always)]
    pub fn sides(&self, sent: Part, received: Part, in_place: bool) -> Option<Sides> {
        let (args, size) = (self.args, self.team.size());
        let root = self.root()?;
        let is_root = self.team.rank() == root;
        let (sent, received) = (sent.blocks(is_root, size), received.blocks(is_root, size));
        let is_in_place = sent != 0 && is_in_place(self.session, &args.send);
        if is_in_place && !(in_place && received != 0) {
            return None;
        }
        let known = if received != 0 {
            &args.recv
        } else {
            &args.send
        };
        let length = self.length(known)?;
        if sent != 0 && !is_in_place && !alike(&args.send, known) {
            return None;
        }
        let into = self.span(&args.recv, length, received)?;
        if !is_in_place {
            let from = self.span(&args.send, length, sent)?;
            if plain::overlap(&from, &into) {
                return None;
            }
        }
        self.team.begin_call();
        Some(Sides {
            root,
            send: (!is_in_place).then_some(args.send.address.cast_const().cast()),
            recv: args.recv.address.cast(),
            bytes: length.bytes(),
            elements: length.count,
        })
    }

    /// A reduction of vectors of one length, as [`FastCall::sides`].
    #[inline(always)]
    pub fn reduction(
        &self,
        sent: Part,
        received: Part,
        run: impl FnOnce(&Sides, &Reducer<'_>) -> Result<(), EngineError>,
    ) -> Option<Outcome> {
        let reducer = self.reducer()?;
        let sides = self.sides(sent, received, true)?;
        Some(done(run(&sides, &reducer)))
    }

    /// What a reduction does, by a loop of ferrorail's own.
    #[inline(always)]
    pub fn reducer(&self) -> Option<Reducer<'static>> {
        let (op, datatype) = (self.args.op, self.args.recv.datatype);
        let kernel = self.local.recent_kernel.find(op, datatype, || {
            Operations::of(self.session).predefined(self.session, op, datatype)
        })?;
        Some(Reducer {
            element_bytes: element_bytes(self.session, datatype)?,
            commutes: true,
            combine: Combine::Kernel(kernel),
        })
    }

    /// The addresses of `bytes` bytes in `buffer`.
    #[inline(always)]
    pub fn bytes_at(&self, buffer: &Buffer, bytes: usize) -> Option<Range<usize>> {
        let start = buffer.address as usize;
        let span = start..start.checked_add(bytes)?;
        (is_memory(&span) && !is_in_place(self.session, buffer)).then_some(span)
    }

    /// A call of which this rank has a single block, in `buffer`: where that is, and its bytes.
    #[inline(always)]
    pub fn block(&self, buffer: &Buffer) -> Option<(*mut u8, usize)> {
        let span = self.span(buffer, self.length(buffer)?, 1)?;
        Some((buffer.address.cast(), span.len()))
    }

    /// What this rank sends as one block of so many `bytes`, of blocks that are received `into` these addresses: `None` in
    /// place.
    #[inline(always)]
    pub fn contribution(&self, bytes: usize, into: &Range<usize>) -> Option<Option<*const u8>> {
        if is_in_place(self.session, &self.args.send) {
            return Some(None);
        }
        let (send, sent) = self.block(&self.args.send)?;
        let from = send as usize..send as usize + sent;
        let fits = sent == bytes && !plain::overlap(&from, into);
        fits.then_some(Some(send.cast_const()))
    }

    /// Lists the blocks of `table`, an entry per rank of the team; returns which addresses they span.
    ///
    /// # Safety
    /// The table's arrays have an entry per rank of the team.
    #[inline(always)]
    pub unsafe fn blocks(
        &self,
        buffer: &Buffer,
        table: &Table,
        list: &mut List,
    ) -> Option<Range<usize>> {
        if is_in_place(self.session, buffer) {
            return None;
        }
        let unit = element_bytes(self.session, buffer.datatype)?;
        // SAFETY: the caller's contract.
        let span = unsafe { list_plain(list, buffer.address, unit, table, self.team.size())? };
        is_memory(&span).then_some(span)
    }

    /// How long a block of `buffer` is.
    #[inline(always)]
    fn length(&self, buffer: &Buffer) -> Option<Length> {
        let length = Length {
            count: usize::try_from(buffer.count).ok()?,
            unit: element_bytes(self.session, buffer.datatype)?,
        };
        length.unit.checked_mul(length.count).map(|_| length)
    }

    /// The addresses of so many `blocks` in `buffer`.
    #[inline(always)]
    fn span(&self, buffer: &Buffer, length: Length, blocks: usize) -> Option<Range<usize>> {
        match blocks {
            0 => Some(0..0),
            _ => self.bytes_at(buffer, length.bytes().checked_mul(blocks)?),
        }
    }
}

/// Whether two sides have as many elements of the same type.
#[inline(always)]
fn alike(one: &Buffer, other: &Buffer) -> bool {
    (one.count, one.datatype) == (other.count, other.datatype)
}

/// Lists in `list`, which is empty, blocks of elements of `unit` plain bytes as `table` has them from `address` on, an entry
/// for each of so many `ranks`. Returns the addresses that those with bytes span. None if they cannot be counted, or there is
/// no room for the list.
///
/// # Safety
/// The table's arrays have an entry per rank.
#[inline(always)]
unsafe fn list_plain(
    list: &mut List,
    address: *mut c_void,
    unit: usize,
    table: &Table,
    ranks: u32,
) -> Option<Range<usize>> {
    // SAFETY: the caller's contract.
    let listed = unsafe { list_blocks(list, address, &Layout::plain(unit), table, ranks).ok()? };
    let right = !listed.negative && !listed.too_much && listed.span.end != usize::MAX;
    right.then_some(listed.span)
}

/// Whether there may be memory, or need not be any.
#[inline(always)]
pub fn is_memory(span: &Range<usize>) -> bool {
    span.is_empty() || !is_absent(span.start)
}

impl Sides {
    /// What is sent, of a collective that takes this path only where that is apart.
    #[inline(always)]
    pub fn sent(&self) -> *const u8 {
        self.send.expect("not in place")
    }
}

/// The bytes of block `rank` of a list.
#[inline(always)]
pub fn bytes_of(list: &[Block], rank: Rank) -> usize {
    list[rank.index()].bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use libc::c_int;

    /// What is listed of such counts and displacements, of elements of 8 bytes from `address` on.
    fn listed<T: Copy + Into<i64>, const RANKS: usize>(
        address: usize,
        counts: [T; RANKS],
        displacements: [T; RANKS],
    ) -> Option<(Vec<Block>, Range<usize>)> {
        let table = Table::new(counts.as_ptr(), displacements.as_ptr());
        let mut list = List::new();
        // SAFETY: an entry per rank.
        let span =
            unsafe { list_plain(&mut list, address as *mut c_void, 8, &table, RANKS as u32) }?;
        Some((list.to_vec(), span))
    }

    #[test]
    fn blocks_are_listed_with_what_they_span() {
        let block = |offset, bytes| Block { offset, bytes };
        let blocks = vec![block(-8, 8), block(800, 0), block(16, 24)];
        let expected = Some((blocks, 0xff8..0x1028));
        assert_eq!(listed(0x1000, [1, 0, 3], [-1, 100, 2]), expected);
        assert_eq!(listed(0x1000, [1i64, 0, 3], [-1, 100, 2]), expected);
        // From the bottom of memory on.
        let (_, span) = listed(0, [1i64], [0x2000]).expect("right");
        assert_eq!(span, 0x10000..0x10008);
        let (list, span) = listed(0x1000, [0; 40], [0; 40]).expect("right");
        assert!(list.len() == 40 && span.is_empty());
    }

    #[test]
    fn what_cannot_be_is_not_listed() {
        assert_eq!(listed(0x1000, [1, -1], [0, 1]), None);
        assert_eq!(listed(0x1000, [1i64, i64::MAX], [0, 1]), None);
        assert_eq!(listed(usize::MAX - 8, [2, 1], [0, 0]), None);
        let table = Table::new(std::ptr::null::<c_int>(), std::ptr::null::<c_int>());
        // SAFETY: there are no arrays to read.
        let span = unsafe { list_plain(&mut List::new(), 0x1000 as *mut c_void, 8, &table, 2) };
        assert_eq!(span, None);
    }

    #[test]
    fn roots_have_more() {
        let of = |part: Part| [part.blocks(false, 3), part.blocks(true, 3)];
        assert_eq!(of(Part::Nothing), [0, 0]);
        assert_eq!(of(Part::Block), [1, 1]);
        assert_eq!(of(Part::Blocks), [3, 3]);
        assert_eq!(of(Part::RootBlock), [0, 1]);
        assert_eq!(of(Part::RootBlocks), [0, 3]);
    }
}
