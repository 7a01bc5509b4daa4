//! Blocks to bytes: where spans lie in memory, and copies between them.

use crate::team::map::Map;
use ferrorail_base::NodeRank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_coll::{Buffer, Span};
use ferrorail_fabric::{Fabric, LocalRegion};

/// The caller's memory, seen as blocks of which an operation moves `bytes` from `offset` on.
///
/// A message too large for scratch is moved by several operations, each over a piece of every
/// block; `stride` stays the size of the whole block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserBuffers {
    /// First block of the contribution.
    pub send: *const u8,
    /// First block of the result.
    pub recv: *mut u8,
    /// Blocks in `recv`.
    pub blocks: u32,
    /// Bytes from one block to the next.
    pub stride: usize,
    /// First byte of the piece within each block.
    pub offset: usize,
    /// Length of the piece.
    pub bytes: usize,
}

/// Addresses of the four buffers of one run.
pub(super) struct Spans {
    user: UserBuffers,
    scratch: MemoryRange,
    node: MemoryRange,
}

impl Spans {
    pub fn new(map: &Map, user: UserBuffers, channel: u32) -> Self {
        let segment = map.segment();
        let scratch = segment.scratch(map.node_rank, channel);
        Self {
            user,
            scratch,
            node: segment.scratch(NodeRank(0), channel),
        }
    }

    /// Length of `blocks` blocks of this piece.
    #[inline]
    pub fn bytes(&self, blocks: u32) -> usize {
        blocks as usize * self.user.bytes
    }

    /// The user's receive buffer.
    pub fn recv(&self) -> MemoryRange {
        MemoryRange::new(self.user.recv, self.user.blocks as usize * self.user.stride)
    }

    /// Where `span` is. A span of user memory must be one block, or the piece a whole block.
    #[inline]
    pub fn range(&self, span: Span) -> MemoryRange {
        let bytes = self.bytes(span.count);
        let first = span.first as usize;
        let user = |base: *const u8| MemoryRange {
            address: base as usize + first * self.user.stride + self.user.offset,
            bytes,
        };
        debug_assert!(
            span.count <= 1 || self.is_dense(span.buffer),
            "pieces of blocks have gaps"
        );
        match span.buffer {
            Buffer::Send => user(self.user.send),
            Buffer::Recv => user(self.user.recv),
            Buffer::Scratch => self.scratch.slice(first * self.user.bytes, bytes),
            Buffer::Node => self.node.slice(first * self.user.bytes, bytes),
        }
    }

    fn is_dense(&self, buffer: Buffer) -> bool {
        matches!(buffer, Buffer::Scratch | Buffer::Node) || self.user.stride == self.user.bytes
    }

    /// Copies `from` to `into`, which are as long. Copying a block onto itself (in place) is nothing.
    pub fn copy(&self, from: Span, into: Span) {
        debug_assert_eq!(from.count, into.count);
        if self.is_dense(from.buffer) && self.is_dense(into.buffer) {
            copy_range(self.range(from), self.range(into));
        } else {
            for block in 0..from.count {
                copy_range(
                    self.range(Span::new(from.buffer, from.first + block, 1)),
                    self.range(Span::new(into.buffer, into.first + block, 1)),
                );
            }
        }
    }

    /// Registers the receive buffer on the team's rails, if it has any.
    pub fn register(&self, map: &Map) -> Option<LocalRegion> {
        let rails = map.rails.as_ref()?;
        let recv = self.recv();
        // SAFETY: MPI forbids the caller to free or reuse the buffer before the call returns, and
        // the run gives the registration back before it does.
        match unsafe { rails.fabric.register(recv.as_ptr(), recv.bytes, None) } {
            Ok(region) => Some(region),
            Err(error) => {
                tracing::warn!("receive buffer: {error}");
                None
            }
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
