//! The target's side: whether what has landed is what was sent.

use super::record::{Record, ack, index_in, sum_of};
use super::{ATTEMPTS_MAX, STAGED, low_byte, parts_of};
use crate::EngineError;
use crate::blocking_wait::Blocked;
use crate::run::Run;
use crate::tag::number;
use crate::team::state::State;
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;
use ferrorail_coll::Slot;
use ferrorail_fabric::Tracking;
use ferrorail_fabric::stripe::flag_parts;

/// How far the check of the awaited message is.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Checking {
    attempt: u8,
    /// Chunks that this attempt brings, as bits.
    wanted: u8,
    /// What was found, if it remains to be told: the message's index at its origin, and the
    /// damaged chunks.
    found: Option<(u16, u8)>,
}

impl Default for Checking {
    fn default() -> Self {
        Self {
            attempt: 0,
            wanted: u8::MAX,
            found: None,
        }
    }
}

impl Run<'_> {
    /// `None` if the message from `from`, a rank of another node, has arrived undamaged; it is
    /// told.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] when it has been damaged too often.
    pub(in crate::run) fn unless_checked(
        &mut self,
        state: &mut State,
        from: Rank,
        slot: Slot,
        tag: u64,
    ) -> Result<Option<Blocked>, EngineError> {
        if self.has_staged(slot, tag) {
            return Ok(None);
        }
        let Checking { attempt, found, .. } = self.checking;
        let (index, damaged) = match found {
            Some(found) => found,
            None => match self.arrived_whole(slot, tag) {
                None => return Ok(Some(Blocked::Rail)),
                Some((index, count)) => (index, self.damaged(from, slot, tag, count)?),
            },
        };
        let (theirs, local) = self.map.layout_of(from);
        let offset = theirs.ack(local, self.channel, index);
        let word = (offset, ack(number(tag), attempt, damaged));
        // It has to be there before this rank goes its own way.
        if self.tell(state, from, word, Tracking::Tracked)?.is_none() {
            self.checking.found = Some((index, damaged));
            return Ok(Some(Blocked::Rail));
        }
        self.checking = Checking::default();
        if damaged == 0 {
            return Ok(None);
        }
        if attempt + 1 == ATTEMPTS_MAX {
            return Err(super::damaged(from, self.map.rank));
        }
        self.checking = Checking {
            attempt: attempt + 1,
            wanted: damaged,
            found: None,
        };
        Ok(Some(Blocked::Rail))
    }

    /// Whether the message came in pieces, each of which has been checked.
    fn has_staged(&self, slot: Slot, tag: u64) -> bool {
        let segment = self.map.segment();
        let flag = segment.arrival(self.map.node_rank, self.channel, slot, 0);
        flag_parts(flag.value()) == (tag, STAGED)
    }

    /// The message's index at its origin and its number of chunks, when every chunk of the present
    /// attempt has arrived, and the record.
    fn arrived_whole(&self, slot: Slot, tag: u64) -> Option<(u16, u8)> {
        let Checking {
            attempt, wanted, ..
        } = self.checking;
        let segment = self.map.segment();
        let flag = |chunk| {
            let flag = segment.arrival(self.map.node_rank, self.channel, slot, chunk);
            flag_parts(flag.value())
        };
        let (seen, low) = flag(0);
        let (count, _) = parts_of(low);
        if seen != tag || count == 0 || u32::from(count) > segment.geometry().rails {
            return None;
        }
        let expected = (tag, low_byte(count, attempt));
        let mut chunks = (0..count).filter(|chunk| wanted & 1 << chunk != 0);
        if !chunks.all(|chunk| flag(chunk) == expected) {
            return None;
        }
        let record = segment.check_flag(self.map.node_rank, self.channel, slot);
        let index = index_in(record.load(Ordering::Acquire), number(tag), attempt)?;
        Some((index, count))
    }

    /// Which of the chunks that this attempt brought are damaged, as bits.
    fn damaged(&self, from: Rank, slot: Slot, tag: u64, count: u8) -> Result<u8, EngineError> {
        let segment = self.map.segment();
        let cell = segment.check(self.map.node_rank, self.channel, slot);
        let all = ((1u16 << count) - 1) as u8;
        let wanted = self.checking.wanted & all;
        let Some(record) = Record::read(cell, count, tag) else {
            return Ok(wanted);
        };
        let mut damaged = 0;
        for chunk in (0..count).filter(|chunk| wanted & 1 << chunk != 0) {
            let place = self.place(from, &record, chunk);
            let place = place.ok_or(EngineError::Mismatch { rank: Some(from) })?;
            if sum_of(place) != record.crc(chunk) {
                damaged |= 1 << chunk;
            }
        }
        Ok(damaged)
    }

    /// Where `chunk` has landed; `None` if that is not memory that `from` may write.
    fn place(&self, from: Rank, record: &Record, chunk: u8) -> Option<MemoryRange> {
        let (in_user, at) = record.place();
        let memory = match in_user {
            true => self.rtr_memory(from),
            false => self.map.segment().segment().range(),
        };
        let (start, bytes) = record.part(chunk);
        let start = usize::try_from(at.checked_add(start)?).ok()?;
        let bytes = usize::try_from(bytes).ok()?;
        let inside = start <= memory.bytes && bytes <= memory.bytes - start;
        inside.then(|| memory.slice(start, bytes))
    }
}
