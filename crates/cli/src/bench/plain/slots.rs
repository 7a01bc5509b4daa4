//! Plain programs through shared memory: who has data copies it into a slot of its own, and others copy it out.

use super::memory::Word;
use super::sum::add;
use super::{Buffers, Kind, PIECE, Piece, Plain};
use anyhow::Result;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;

/// Exchanges of longer blocks use two slots by turns: no more are under way, and two stay in the caches.
pub(super) const MANY_BYTES_MAX: usize = 4 << 10;

/// The pieces of a block of `bytes`: one of no bytes if it has none.
fn pieces(bytes: usize) -> impl Iterator<Item = Piece> {
    let starts = (0..bytes.max(1)).step_by(PIECE);
    starts.map(move |offset| Piece {
        offset,
        bytes: PIECE.min(bytes - offset),
    })
}

impl Plain {
    /// # Safety
    /// As [`Plain::call`].
    pub(super) unsafe fn by_slots(&mut self, buffers: &Buffers) -> Result<()> {
        for piece in pieces(buffers.bytes) {
            self.op += 1;
            // SAFETY: the caller's contract.
            unsafe {
                match self.kind {
                    Kind::Barrier => self.meet(Word::Ready)?,
                    Kind::Bcast => self.bcast(buffers, piece)?,
                    Kind::Scatter => self.scatter(buffers, piece)?,
                    Kind::Gather | Kind::Reduce => self.gather(buffers, piece)?,
                    Kind::Allgather | Kind::Allreduce => self.all_to_one(buffers, piece)?,
                    Kind::Alltoall | Kind::ReduceScatter => self.all_to_all(buffers, piece)?,
                    Kind::Scan | Kind::Exscan => self.chain(buffers, piece)?,
                }
            }
        }
        Ok(())
    }

    /// Says that this rank's message is there.
    fn raise(&self) {
        let flag = self.shared.flag(self.place.rank, self.op);
        flag.store(self.op, Ordering::Release);
    }

    fn message_of(&self, rank: usize, bytes: usize) -> MemoryRange {
        self.shared.message(rank, self.op, bytes)
    }

    /// Waits until `reader` has finished the operation that used this one's slot last.
    fn await_room(&self, reader: usize) -> Result<()> {
        let last = self.op.saturating_sub(self.shared.slots());
        let is_free = || self.shared.has(Word::Done, reader, last);
        self.until(|_| false, is_free)
    }

    unsafe fn bcast(&self, buffers: &Buffers, piece: Piece) -> Result<()> {
        let (root, vector) = (self.place.root, buffers.received(0, piece));
        let message = self.message_of(root, piece.bytes);
        if self.is_root() {
            self.others().try_for_each(|rank| self.await_room(rank))?;
            // SAFETY: the caller's contract.
            unsafe { vector.copy_to(message) };
            self.raise();
        } else {
            self.await_message(root)?;
            // SAFETY: the caller's contract.
            unsafe { message.copy_to(vector) };
            self.say(Word::Done);
        }
        Ok(())
    }

    /// Each rank's slots are written by the root here.
    unsafe fn scatter(&self, buffers: &Buffers, piece: Piece) -> Result<()> {
        let rank = self.place.rank;
        if !self.is_root() {
            self.await_message(rank)?;
            // SAFETY: the caller's contract.
            unsafe {
                self.message_of(rank, piece.bytes)
                    .copy_to(buffers.received(0, piece))
            };
            self.say(Word::Done);
            return Ok(());
        }
        for to in self.others() {
            self.await_room(to)?;
            // SAFETY: the caller's contract.
            unsafe {
                buffers
                    .sent(to, piece)
                    .copy_to(self.message_of(to, piece.bytes))
            };
            let flag = self.shared.flag(to, self.op);
            flag.store(self.op, Ordering::Release);
        }
        // SAFETY: the caller's contract.
        unsafe {
            buffers
                .sent(rank, piece)
                .copy_to(buffers.received(0, piece))
        };
        Ok(())
    }

    /// Or a reduction: the root copies, or adds, what each has.
    unsafe fn gather(&self, buffers: &Buffers, piece: Piece) -> Result<()> {
        let (rank, own) = (self.place.rank, buffers.sent(0, piece));
        if !self.is_root() {
            self.await_room(self.place.root)?;
            // SAFETY: the caller's contract.
            unsafe { own.copy_to(self.message_of(rank, piece.bytes)) };
            self.raise();
            return Ok(());
        }
        // SAFETY: the caller's contract.
        unsafe { self.take_all(buffers, piece, self.kind == Kind::Reduce)? };
        self.say(Word::Done);
        Ok(())
    }

    /// All ranks have every rank's block, or the sum of all vectors.
    unsafe fn all_to_one(&self, buffers: &Buffers, piece: Piece) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe {
            buffers
                .sent(0, piece)
                .copy_to(self.message_of(self.place.rank, piece.bytes));
            self.raise();
            self.take_all(buffers, piece, self.kind == Kind::Allreduce)
        }
    }

    /// Takes what each rank has for all: blocks, or their sum.
    unsafe fn take_all(&self, buffers: &Buffers, piece: Piece, adds: bool) -> Result<()> {
        let (rank, own) = (self.place.rank, buffers.sent(0, piece));
        let mut sum = own;
        if !adds {
            // SAFETY: the caller's contract.
            unsafe { own.copy_to(buffers.received(rank, piece)) };
        }
        for from in self.others() {
            self.await_message(from)?;
            let message = self.message_of(from, piece.bytes);
            // SAFETY: the caller's contract.
            unsafe {
                match adds {
                    true => add(sum, message, buffers.received(0, piece)),
                    false => message.copy_to(buffers.received(from, piece)),
                }
            }
            sum = buffers.received(0, piece);
        }
        Ok(())
    }

    /// Each rank has a block of every rank, or the sum of those.
    unsafe fn all_to_all(&self, buffers: &Buffers, piece: Piece) -> Result<()> {
        let (rank, size) = (self.place.rank, self.place.size);
        let block = |of: usize, index: usize| {
            let blocks = self.message_of(of, size * piece.bytes);
            blocks.slice(index * piece.bytes, piece.bytes)
        };
        let mut sum = buffers.sent(rank, piece);
        // SAFETY: the caller's contract.
        unsafe {
            for to in self.others() {
                buffers.sent(to, piece).copy_to(block(rank, to));
            }
            self.raise();
            if self.kind == Kind::Alltoall {
                sum.copy_to(buffers.received(rank, piece));
            }
            for from in self.others() {
                self.await_message(from)?;
                match self.kind {
                    Kind::Alltoall => block(from, rank).copy_to(buffers.received(from, piece)),
                    _ => add(sum, block(from, rank), buffers.received(0, piece)),
                }
                sum = buffers.received(0, piece);
            }
        }
        Ok(())
    }

    /// Each adds its own to what comes from the rank before, and passes it on.
    unsafe fn chain(&self, buffers: &Buffers, piece: Piece) -> Result<()> {
        let (rank, last) = (self.place.rank, self.place.size - 1);
        let (own, result) = (buffers.sent(0, piece), buffers.received(0, piece));
        let passed = self.message_of(rank, piece.bytes);
        if rank < last {
            self.await_room(rank + 1)?;
        }
        let includes_own = self.kind == Kind::Scan;
        // SAFETY: the caller's contract.
        unsafe {
            if rank == 0 {
                if includes_own {
                    own.copy_to(result);
                }
                own.copy_to(passed);
            } else {
                self.await_message(rank - 1)?;
                let before = self.message_of(rank - 1, piece.bytes);
                match includes_own {
                    true => add(own, before, result),
                    false => before.copy_to(result),
                }
                match includes_own {
                    _ if rank == last => {}
                    true => result.copy_to(passed),
                    false => add(own, before, passed),
                }
            }
        }
        if rank < last {
            self.raise();
        }
        self.say(Word::Done);
        Ok(())
    }

    /// An all-reduce of groups of neighbours, one for each core: the last of a group to come adds the group's vectors where the
    /// first one's lies, and all add those of the groups.
    ///
    /// # Safety
    /// As [`Plain::call`].
    pub(super) unsafe fn by_groups(&mut self, buffers: &Buffers) -> Result<()> {
        let (rank, size) = (self.place.rank, self.place.size);
        let groups = self.cores.min(size);
        let first = |group: usize| (group * size).div_ceil(groups);
        let own = rank * groups / size;
        let members = first(own)..first(own + 1);
        for piece in pieces(buffers.bytes) {
            self.op += 1;
            let message = |rank| self.message_of(rank, piece.bytes);
            // SAFETY: the caller's contract.
            unsafe { buffers.sent(0, piece).copy_to(message(rank)) };
            self.raise();
            let arrived = self.shared.word(Word::Arrived, own);
            let before = arrived.fetch_add(1, Ordering::AcqRel) as usize;
            if (before + 1).is_multiple_of(members.len()) {
                let sum = message(members.start);
                for other in members.clone().skip(1) {
                    // SAFETY: the caller's contract.
                    unsafe { add(sum, message(other), sum) };
                }
                self.shared.say(Word::Combined, own, self.op);
            }
            let mut sum = message(0);
            for group in 0..groups {
                let has_come = |rank| self.shared.is_raised(rank, self.op);
                self.until(has_come, || self.shared.has(Word::Combined, group, self.op))?;
                // SAFETY: the caller's contract.
                unsafe {
                    match group {
                        0 if groups == 1 => sum.copy_to(buffers.received(0, piece)),
                        0 => {}
                        _ => add(sum, message(first(group)), buffers.received(0, piece)),
                    }
                }
                if group > 0 {
                    sum = buffers.received(0, piece);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_block() {
        let all = |bytes| -> Vec<(usize, usize)> {
            let pieces = pieces(bytes);
            pieces.map(|piece| (piece.offset, piece.bytes)).collect()
        };
        assert_eq!(all(0), [(0, 0)]);
        assert_eq!(all(PIECE), [(0, PIECE)]);
        assert_eq!(all(PIECE + 4), [(0, PIECE), (PIECE, 4)]);
    }
}
