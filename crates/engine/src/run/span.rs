//! Blocks to bytes: where spans lie in memory, and copies between them.

use super::user::{BlockList, Side, UserBuffers, Window};
use crate::EngineError;
use crate::reducer::Reducer;
use crate::sequence::Allocation;
use crate::team::map::Map;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::{NodeRank, Rank};
use ferrorail_coll::{Buffer, Span, Step};
use ferrorail_shm::{NodeSegment, ScratchKind, copy_out_of_shared, copy_past_caches};
use smallvec::SmallVec;

/// Addresses of the four buffers of one run.
pub(super) struct Spans<'a> {
    user: UserBuffers<'a>,
    /// Room for a block in scratch: the longest part where a vector is cut.
    block_bytes: usize,
    scratch: MemoryRange,
    node: MemoryRange,
    segment: &'a NodeSegment,
    allocation: Allocation,
}

impl<'a> Spans<'a> {
    /// Where `Node` is the scratch of `leader`.
    pub fn new(
        map: &'a Map,
        user: UserBuffers<'a>,
        allocation: Allocation,
        leader: NodeRank,
    ) -> Self {
        let segment = map.segment();
        let unit = user.reducer.map_or(1, |reducer| reducer.element_bytes);
        Self {
            block_bytes: block_bytes(user.window.capacity(), user.parts, unit),
            user,
            scratch: scratch_of(segment, allocation, map.node_rank),
            node: scratch_of(segment, allocation, leader),
            segment,
            allocation,
        }
    }

    /// Where `into` is in the scratch of `owner`, of this node.
    #[inline]
    pub fn at_peer(&self, owner: NodeRank, into: Span) -> MemoryRange {
        let scratch = scratch_of(self.segment, self.allocation, owner);
        scratch.slice(self.bytes(into.first), self.bytes(into.count))
    }

    /// Bytes of `blocks` blocks in scratch.
    #[inline]
    pub fn bytes(&self, blocks: u32) -> usize {
        blocks as usize * self.block_bytes
    }

    /// This rank's scratch, of all channels of the run.
    pub fn scratch(&self) -> MemoryRange {
        self.scratch
    }

    /// The caller's memory.
    pub fn user(&self) -> &UserBuffers<'a> {
        &self.user
    }

    /// Length of a message to `to` which the schedule says has `blocks` blocks. `None` if there is
    /// no message.
    #[inline]
    pub fn sent(&self, to: Rank, blocks: u32) -> Option<usize> {
        if self.user.pairs {
            return self.pair(&self.user.send, to);
        }
        Some(self.bytes(blocks))
    }

    /// As [`Spans::sent`], of a message from `from`.
    #[inline]
    pub fn received(&self, from: Rank, blocks: u32) -> Option<usize> {
        if self.user.pairs {
            return self.pair(&self.user.recv, from);
        }
        Some(self.bytes(blocks))
    }

    fn pair(&self, side: &Side<'_>, peer: Rank) -> Option<usize> {
        let bytes = self.user.window.of(side.block_of(peer.0)).bytes;
        (bytes > 0).then_some(bytes)
    }

    /// Where `span` is. A span of user memory must be one block, unless blocks are dense there.
    #[inline]
    pub fn range(&self, span: Span) -> MemoryRange {
        match span.buffer {
            Buffer::Send => self.user_range(&self.user.send, span),
            Buffer::Recv => self.user_range(&self.user.recv, span),
            Buffer::Scratch => self
                .scratch
                .slice(self.bytes(span.first), self.bytes(span.count)),
            Buffer::Node => self
                .node
                .slice(self.bytes(span.first), self.bytes(span.count)),
        }
    }

    #[inline]
    fn user_range(&self, side: &Side<'_>, span: Span) -> MemoryRange {
        if self.user.parts > 1 {
            let piece = self.user.window.of(side.block(0));
            let (first, end) = (
                self.part(piece, span.first),
                self.part(piece, span.first + span.count),
            );
            return piece.slice(first, end - first);
        }
        if span.count == 1 {
            return self.user.window.of(side.block(span.first));
        }
        debug_assert!(
            span.count == 0 || self.is_dense(span.buffer),
            "pieces of blocks have gaps"
        );
        MemoryRange {
            address: side.base() as usize + self.bytes(span.first),
            bytes: self.bytes(span.count),
        }
    }

    /// First byte of part `part` of `piece`; parts at the end may be shorter, or empty.
    #[inline]
    fn part(&self, piece: MemoryRange, part: u32) -> usize {
        self.bytes(part).min(piece.bytes)
    }

    /// Whether several blocks of `buffer` lie as they do in scratch.
    #[inline]
    fn is_dense(&self, buffer: Buffer) -> bool {
        let side = match buffer {
            Buffer::Scratch | Buffer::Node => return true,
            Buffer::Send => &self.user.send,
            Buffer::Recv => &self.user.recv,
        };
        match side {
            Side::Even(even) => {
                let (offset, capacity) = (0, even.bytes);
                self.user.parts == 1 && self.user.window == Window::Piece { offset, capacity }
            }
            Side::Table(_) => false,
        }
    }

    /// Copies `from` to `into`, which are as long. Copying a block onto itself (in place) is nothing.
    #[inline]
    pub fn copy(&self, from: Span, into: Span) {
        debug_assert_eq!(from.count, into.count);
        let is_for_others = matches!(into.buffer, Buffer::Scratch | Buffer::Node);
        let is_from_others = matches!(from.buffer, Buffer::Scratch | Buffer::Node);
        let copy_range = |from: MemoryRange, into: MemoryRange| {
            if from.address == into.address {
                return;
            }
            // SAFETY: user ranges are inside the buffers the caller vouched for, the others are slices of
            // the node segment; the verified schedule orders this copy with every other access.
            unsafe {
                match is_for_others {
                    true => self.copy_in(from, into),
                    false if self.user.past_caches => copy_past_caches(from, into),
                    false if is_from_others => copy_out_of_shared(from, into, self.scratch_kind()),
                    false => from.copy_to(into),
                }
            }
        };
        if self.is_dense(from.buffer) && self.is_dense(into.buffer) {
            copy_range(self.range(from), self.range(into));
            return;
        }
        for block in 0..from.count {
            let from = self.range(Span::new(from.buffer, from.first + block, 1));
            let into = self.range(Span::new(into.buffer, into.first + block, 1));
            // A block, or a part, may be shorter than its room in scratch.
            let bytes = from.bytes.min(into.bytes);
            copy_range(from.slice(0, bytes), into.slice(0, bytes));
        }
    }

    /// What its scratch is.
    #[inline]
    fn scratch_kind(&self) -> ScratchKind {
        match self.allocation.rotating {
            Some(_) => ScratchKind::Rotating,
            None => ScratchKind::Channels,
        }
    }

    /// Copies `from` to `into` in the segment, which is as long, for another rank.
    ///
    /// # Safety
    /// As [`MemoryRange::copy_to`].
    pub unsafe fn copy_in(&self, from: MemoryRange, into: MemoryRange) {
        // SAFETY: passed on to the caller.
        unsafe { self.segment.copy_in(from, into, self.scratch_kind()) }
    }

    /// Executes the reduction at the beginning of `steps`, and with it those behind it that reduce its result further: of one
    /// block they go in strips ([`Reducer::fold`]). Returns how many these are.
    pub fn reduce_first(&self, steps: &[Step]) -> Result<usize, EngineError> {
        let mut chain = SmallVec::<[[MemoryRange; 3]; 16]>::new();
        let mut result = None;
        for step in steps {
            let Step::Reduce {
                left,
                right,
                into,
                like,
            } = *step
            else {
                break;
            };
            if result.is_none() && into.count != 1 {
                return self.reduce([left, right, into], like, None).map(|()| 1);
            }
            let goes_on = result.is_none_or(|result| left == result || right == result);
            let operands = self.operands([left, right, into], like, None);
            let is_as_long = |[.., before]: &[MemoryRange; 3]| before.bytes == operands[2].bytes;
            if !(goes_on && into.count == 1 && chain.last().is_none_or(is_as_long)) {
                break;
            }
            chain.push(operands);
            result = Some(into);
        }
        // SAFETY: as in `Spans::reduce`. In place, a contribution lies where the result does, or behind it in the vector of
        // a reduce-scatter.
        unsafe { self.reducer()?.fold(&chain)? };
        Ok(chain.len())
    }

    /// Reduces each block of `left` with that of `right` into that of `into`, which are as long as those of `Send`
    /// from `like` where that is given. The result lies here or in the scratch of rank `at` of this node.
    pub fn reduce(
        &self,
        spans: [Span; 3],
        like: Option<u32>,
        at: Option<NodeRank>,
    ) -> Result<(), EngineError> {
        let reducer = self.reducer()?;
        let reduce = |operands: [MemoryRange; 3]| {
            // SAFETY: user ranges are inside the buffers the caller vouched for, the others are
            // slices of the node segment; the verified schedule orders this with every other access.
            unsafe { reducer.fold(&[operands]) }
        };
        let alike = like.is_none() || self.is_dense(Buffer::Send);
        if alike && spans.iter().all(|span| self.is_dense(span.buffer)) {
            return reduce(self.operands(spans, None, at));
        }
        for block in 0..spans[2].count {
            let one = |span: Span| Span::new(span.buffer, span.first + block, 1);
            let like = like.map(|first| first + block);
            reduce(self.operands(spans.map(one), like, at))?;
        }
        Ok(())
    }

    /// Where two operands and their result lie, of one block or of dense ones, cut to the length that they have.
    fn operands(
        &self,
        [left, right, into]: [Span; 3],
        like: Option<u32>,
        at: Option<NodeRank>,
    ) -> [MemoryRange; 3] {
        let result = match at {
            None => self.range(into),
            Some(owner) => self.at_peer(owner, into),
        };
        let [left, right] = [left, right].map(|span| self.range(span));
        // A block, or a part, may be shorter than its room in scratch.
        let used = like.map_or(result.bytes, |first| self.range(Span::send(first, 1)).bytes);
        let bytes = left.bytes.min(right.bytes).min(result.bytes).min(used);
        [left, right, result.slice(0, bytes)]
    }

    fn reducer(&self) -> Result<&Reducer<'a>, EngineError> {
        self.user.reducer.as_ref().ok_or_else(|| {
            EngineError::Internal("the schedule reduces in a collective that does not".into())
        })
    }
}

/// Room in scratch for a block of `bytes` bytes of elements of `unit` bytes, or for the longest of `parts` parts of it.
#[inline]
pub(crate) fn block_bytes(bytes: usize, parts: u32, unit: usize) -> usize {
    bytes.div_ceil(parts as usize).next_multiple_of(unit)
}

/// The scratch that `rank` of this node uses.
#[inline]
fn scratch_of(segment: &NodeSegment, allocation: Allocation, rank: NodeRank) -> MemoryRange {
    let owner = NodeRank(rank.0 ^ u32::from(allocation.swapped));
    match allocation.rotating {
        Some(part) => segment.rotating(owner, part.start, part.bytes),
        None => segment.wide_scratch(owner, allocation.channel, allocation.width),
    }
}

/// Copies shared memory into private bytes.
pub(super) fn copy_out(from: MemoryRange, into: &mut [u8]) {
    // SAFETY: `from` is a slice of the segment whose writer has notified us; `into` is ours.
    unsafe { from.copy_to(MemoryRange::new(into.as_mut_ptr(), into.len())) }
}

/// Copies private bytes into shared memory.
pub(super) fn copy_in(from: &[u8], into: MemoryRange) {
    // SAFETY: `into` is a slice of the segment that only this rank writes until it notifies.
    unsafe { MemoryRange::new(from.as_ptr(), from.len()).copy_to(into) }
}
