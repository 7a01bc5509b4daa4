//! Plain programs by cross-memory attach: all announce their buffers, and copy out of others' or into them.

use super::memory::Word;
use super::sum::add;
use super::{Buffers, Kind, LINE, PIECE, Piece, Plain};
use anyhow::{Result, anyhow};
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;

impl Plain {
    /// # Safety
    /// As [`Plain::call`].
    pub(super) unsafe fn by_attach(&mut self, buffers: &Buffers) -> Result<()> {
        self.op += 1;
        let rank = self.place.rank;
        let addresses = [(Word::Send, buffers.send), (Word::Receive, buffers.recv)];
        for (word, buffer) in addresses {
            let said = self.shared.word(word, rank);
            said.store(buffer.address as u64, Ordering::Relaxed);
        }
        // SAFETY: the caller's contract.
        unsafe {
            match self.kind {
                Kind::Bcast | Kind::Scatter | Kind::Gather => self.rooted(buffers),
                Kind::Allgather | Kind::Alltoall => self.exchange(buffers),
                Kind::Allreduce | Kind::Reduce => self.reduce_parts(buffers),
                Kind::ReduceScatter | Kind::Scan | Kind::Exscan => self.fold(buffers),
                Kind::Barrier => Ok(()),
            }
        }
    }

    /// Reads what lies `offset` bytes behind the beginning of a buffer of `of`.
    unsafe fn read(&self, word: Word, of: usize, offset: usize, into: MemoryRange) -> Result<()> {
        let start = self.shared.word(word, of).load(Ordering::Relaxed);
        // SAFETY: the caller's contract.
        let done = unsafe { self.processes[of].read(start + offset as u64, into) };
        done.map_err(|error| anyhow!("cannot read the memory of rank {of}: {error}"))
    }

    /// Writes behind the beginning of the receive buffer of `of`.
    unsafe fn write(&self, from: MemoryRange, of: usize, offset: usize) -> Result<()> {
        let start = self.shared.word(Word::Receive, of).load(Ordering::Relaxed);
        // SAFETY: the caller's contract.
        let done = unsafe { self.processes[of].write(from, start + offset as u64) };
        done.map_err(|error| anyhow!("cannot write the memory of rank {of}: {error}"))
    }

    /// Others read the root's buffer, or write into it, and the root waits until they have.
    unsafe fn rooted(&self, buffers: &Buffers) -> Result<()> {
        let (rank, root, bytes) = (self.place.rank, self.place.root, buffers.bytes);
        let whole = Piece { offset: 0, bytes };
        if self.is_root() {
            self.say(Word::Ready);
            // SAFETY: the caller's contract.
            unsafe {
                match self.kind {
                    Kind::Scatter => buffers.sent(rank, whole).copy_to(buffers.recv),
                    Kind::Gather => buffers.send.copy_to(buffers.received(rank, whole)),
                    _ => {}
                }
            }
            return self
                .others()
                .try_for_each(|rank| self.await_word(Word::Done, rank));
        }
        self.await_word(Word::Ready, root)?;
        // SAFETY: the caller's contract.
        unsafe {
            match self.kind {
                Kind::Bcast => self.read(Word::Receive, root, 0, buffers.recv)?,
                Kind::Scatter => self.read(Word::Send, root, rank * bytes, buffers.recv)?,
                _ => self.write(buffers.send, root, rank * bytes)?,
            }
        }
        self.say(Word::Done);
        Ok(())
    }

    /// Each reads a block of every other.
    unsafe fn exchange(&self, buffers: &Buffers) -> Result<()> {
        let (rank, bytes) = (self.place.rank, buffers.bytes);
        let whole = Piece { offset: 0, bytes };
        let block = match self.kind {
            Kind::Alltoall => rank,
            _ => 0,
        };
        self.say(Word::Ready);
        // SAFETY: the caller's contract.
        unsafe {
            buffers
                .sent(block, whole)
                .copy_to(buffers.received(rank, whole));
            for from in self.others() {
                self.await_word(Word::Ready, from)?;
                let into = buffers.received(from, whole);
                self.read(Word::Send, from, block * bytes, into)?;
            }
        }
        self.meet(Word::Done)
    }

    /// Room for a piece of so many bytes.
    fn room(&self, bytes: usize) -> MemoryRange {
        let room = self.piece.as_slice();
        MemoryRange::new(room.as_ptr().cast(), size_of_val(room)).slice(0, bytes)
    }

    /// Each adds a part of all vectors and writes it where it belongs: to the root, or to all.
    unsafe fn reduce_parts(&self, buffers: &Buffers) -> Result<()> {
        let (rank, size, bytes) = (self.place.rank, self.place.size, buffers.bytes);
        self.meet(Word::Ready)?;
        let part = bytes.div_ceil(size).next_multiple_of(LINE);
        let (start, end) = ((rank * part).min(bytes), ((rank + 1) * part).min(bytes));
        for offset in (start..end).step_by(PIECE / 2) {
            let bytes = (PIECE / 2).min(end - offset);
            let room = self.room(2 * bytes);
            let (sum, read) = (room.slice(0, bytes), room.slice(bytes, bytes));
            let mut left = buffers.send.slice(offset, bytes);
            // SAFETY: the caller's contract.
            unsafe {
                for from in self.others() {
                    self.read(Word::Send, from, offset, read)?;
                    add(left, read, sum);
                    left = sum;
                }
                for to in 0..size {
                    let takes = self.kind == Kind::Allreduce || to == self.place.root;
                    match takes {
                        true if to == rank => left.copy_to(buffers.recv.slice(offset, bytes)),
                        true => self.write(left, to, offset)?,
                        false => {}
                    }
                }
            }
        }
        self.meet(Word::Done)
    }

    /// Each adds what is its own of all, or of those up to it.
    unsafe fn fold(&self, buffers: &Buffers) -> Result<()> {
        let (rank, size) = (self.place.rank, self.place.size);
        self.meet(Word::Ready)?;
        let (count, block) = match self.kind {
            Kind::ReduceScatter => (size, rank * buffers.bytes),
            Kind::Scan => (rank + 1, 0),
            _ => (rank, 0),
        };
        for offset in (0..buffers.bytes).step_by(PIECE) {
            let bytes = PIECE.min(buffers.bytes - offset);
            let (result, read) = (buffers.recv.slice(offset, bytes), self.room(bytes));
            // SAFETY: the caller's contract.
            unsafe {
                for from in 0..count {
                    let place = block + offset;
                    match from {
                        0 => self.read(Word::Send, from, place, result)?,
                        _ if from == rank => {
                            add(result, buffers.send.slice(place, bytes), result);
                        }
                        _ => {
                            self.read(Word::Send, from, place, read)?;
                            add(result, read, result);
                        }
                    }
                }
            }
        }
        self.meet(Word::Done)
    }
}
