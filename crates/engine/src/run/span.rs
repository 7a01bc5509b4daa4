//! Blocks to bytes: where spans lie in memory, and copies between them.

use crate::team::map::Map;
use ferrorail_base::NodeRank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_coll::{Buffer, Span};
use ferrorail_fabric::{Fabric, LocalRegion};

/// The caller's memory, seen as blocks of which an operation moves `bytes` from `offset` on.
///
/// A message too large for scratch is moved by several operations, each over a piece of every
/// block; `stride` stays the size of the whole block. An algorithm that cuts a vector has that as
/// its only block, and moves `parts` parts of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserBuffers {
    /// First block of the contribution.
    pub send: *const u8,
    /// Blocks there.
    pub send_blocks: u32,
    /// First block of the result.
    pub recv: *mut u8,
    /// Blocks there.
    pub recv_blocks: u32,
    /// Bytes from one block to the next.
    pub stride: usize,
    /// First byte of the piece within each block.
    pub offset: usize,
    /// Length of the piece.
    pub bytes: usize,
    /// Parts that each piece is cut into; 1 if it is not.
    pub parts: u32,
}

impl UserBuffers {
    /// Of operations that move nothing.
    pub const NONE: Self = Self {
        send: core::ptr::null(),
        send_blocks: 0,
        recv: core::ptr::null_mut(),
        recv_blocks: 0,
        stride: 0,
        offset: 0,
        bytes: 0,
        parts: 1,
    };
}

/// Addresses of the four buffers of one run.
pub(super) struct Spans {
    user: UserBuffers,
    /// Room for a block in scratch: the longest part where a vector is cut.
    block_bytes: usize,
    scratch: MemoryRange,
    node: MemoryRange,
}

impl Spans {
    pub fn new(map: &Map, user: UserBuffers, channel: u32) -> Self {
        let segment = map.segment();
        Self {
            user,
            block_bytes: user.bytes.div_ceil(user.parts as usize),
            scratch: segment.scratch(map.node_rank, channel),
            node: segment.scratch(NodeRank(0), channel),
        }
    }

    /// Length of a message of `blocks` blocks.
    #[inline]
    pub fn bytes(&self, blocks: u32) -> usize {
        blocks as usize * self.block_bytes
    }

    /// The user's contribution.
    pub fn send(&self) -> MemoryRange {
        MemoryRange::new(
            self.user.send,
            self.user.send_blocks as usize * self.user.stride,
        )
    }

    /// The user's result.
    pub fn recv(&self) -> MemoryRange {
        MemoryRange::new(
            self.user.recv,
            self.user.recv_blocks as usize * self.user.stride,
        )
    }

    /// Where `span` is. A span of user memory must be one block, unless blocks are dense there.
    #[inline]
    pub fn range(&self, span: Span) -> MemoryRange {
        match span.buffer {
            Buffer::Send => self.user_range(self.user.send, span),
            Buffer::Recv => self.user_range(self.user.recv, span),
            Buffer::Scratch => self
                .scratch
                .slice(self.bytes(span.first), self.bytes(span.count)),
            Buffer::Node => self
                .node
                .slice(self.bytes(span.first), self.bytes(span.count)),
        }
    }

    #[inline]
    fn user_range(&self, base: *const u8, span: Span) -> MemoryRange {
        let start = base as usize + self.user.offset;
        if self.user.parts > 1 {
            let (first, end) = (self.part(span.first), self.part(span.first + span.count));
            return MemoryRange {
                address: start + first,
                bytes: end - first,
            };
        }
        debug_assert!(
            span.count <= 1 || self.is_dense(span.buffer),
            "pieces of blocks have gaps"
        );
        MemoryRange {
            address: start + span.first as usize * self.user.stride,
            bytes: self.bytes(span.count),
        }
    }

    /// First byte of part `part` of the piece; parts at the end may be shorter, or empty.
    #[inline]
    fn part(&self, part: u32) -> usize {
        self.bytes(part).min(self.user.bytes)
    }

    /// Whether several blocks of `buffer` lie as they do in scratch.
    #[inline]
    fn is_dense(&self, buffer: Buffer) -> bool {
        matches!(buffer, Buffer::Scratch | Buffer::Node)
            || (self.user.parts == 1 && self.user.stride == self.user.bytes)
    }

    /// Copies `from` to `into`, which are as long. Copying a block onto itself (in place) is nothing.
    #[inline]
    pub fn copy(&self, from: Span, into: Span) {
        debug_assert_eq!(from.count, into.count);
        if self.is_dense(from.buffer) && self.is_dense(into.buffer) {
            copy_range(self.range(from), self.range(into));
            return;
        }
        for block in 0..from.count {
            let from = self.range(Span::new(from.buffer, from.first + block, 1));
            let into = self.range(Span::new(into.buffer, into.first + block, 1));
            // A part may be shorter than its room in scratch.
            let bytes = from.bytes.min(into.bytes);
            copy_range(from.slice(0, bytes), into.slice(0, bytes));
        }
    }
}

/// Registers user memory on the team's rails, if it has any.
pub(super) fn register(map: &Map, memory: MemoryRange) -> Option<LocalRegion> {
    let rails = map.rails.as_ref()?;
    // SAFETY: MPI forbids the caller to free or reuse the buffer before the call returns, and
    // the run gives the registration back before it does.
    match unsafe { rails.fabric.register(memory.as_ptr(), memory.bytes, None) } {
        Ok(region) => Some(region),
        Err(error) => {
            tracing::warn!("user buffer: {error}");
            None
        }
    }
}

#[inline]
fn copy_range(from: MemoryRange, into: MemoryRange) {
    if from.address == into.address {
        return;
    }
    // SAFETY: user ranges are inside the buffers the caller vouched for, the others are slices of
    // the node segment; the verified schedule orders this copy with every other access.
    unsafe { from.copy_to(into) }
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
