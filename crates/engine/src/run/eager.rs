//! Eager messages: short messages between nodes that bring their flag along, in one write instead of two.
//!
//! In a small channel each of the first slots has room for an eager message, which ends where the room ends:
//!
//! ```text
//! … │ payload │ length u32 │ sum u32 │ destination u64 │ flag u64 │
//! ```
//!
//! Nothing promises in which order an adapter stores the bytes of one write, so an eager message is taken only when
//! its sum (CRC32C of length, destination, flag and payload) agrees; until then it has not come. Its
//! receiver copies the payload where the schedule wants it, at `destination` in the node's segment.

use super::message::Message;
use super::{Run, span};
use crate::EngineError;
use crate::tag::has_come;
use ferrorail_base::sync::Ordering;
use ferrorail_coll::Slot;
use ferrorail_fabric::stripe::{flag_parts, flag_value};
use ferrorail_shm::{EAGER_MESSAGE, EAGER_MESSAGES};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned};

/// What follows the payload.
#[derive(FromBytes, IntoBytes, Immutable, Unaligned, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Tail {
    /// Length of the payload.
    bytes: U32,
    sum: U32,
    /// Offset of the payload's place in the receiver's segment.
    destination: U64,
    flag: U64,
}

const TAIL: usize = size_of::<Tail>();

/// Longest payload.
pub(super) const PAYLOAD: usize = EAGER_MESSAGE - TAIL;

/// Room for an eager message, private to this rank.
type Page = [u8; EAGER_MESSAGE];

impl Tail {
    /// With the sum of all else in it and of `payload`.
    fn with_sum(self, payload: &[u8]) -> Self {
        let own = Self {
            sum: U32::ZERO,
            ..self
        };
        let sum = crc32c::crc32c_append(crc32c::crc32c(own.as_bytes()), payload);
        Self {
            sum: sum.into(),
            ..own
        }
    }
}

/// Where the payload of an eager message begins in its room.
fn start(bytes: usize) -> usize {
    PAYLOAD - bytes
}

/// Completes the eager message whose payload is in `page`.
fn complete(page: &mut Page, tail: Tail) {
    let (front, end) = page.split_at_mut(PAYLOAD);
    let payload = &front[start(tail.bytes.get() as usize)..];
    end.copy_from_slice(tail.with_sum(payload).as_bytes());
}

/// The eager message in `page`, if it is whole.
fn open(page: &Page) -> Option<(Tail, &[u8])> {
    let (front, end) = page.split_at(PAYLOAD);
    let tail = Tail::read_from_bytes(end).ok()?;
    let payload = &front[PAYLOAD.checked_sub(tail.bytes.get() as usize)?..];
    (tail.with_sum(payload) == tail).then_some((tail, payload))
}

impl Run<'_> {
    /// Writes the payload of `message`, which belongs at `destination` in the segment of its target's node, as an eager
    /// message, if it can be one.
    pub(super) fn eager_message<'m>(
        &self,
        message: Message<'m>,
        destination: usize,
    ) -> Option<Message<'m>> {
        let (to, slot, bytes) = (message.to, message.slot, message.from.bytes);
        let layout = self.map.segment().layout();
        if !layout.geometry().has_eager_message(self.channel, slot)
            || !(1..=PAYLOAD).contains(&bytes)
            || self.rails().planner.divides((bytes + TAIL) as u64)
        {
            return None;
        }
        // One that waits for room in a queue is written already, here or as others are.
        let index = match self.sending {
            None => self.eager_messages.get(),
            Some(sending) if sending.is_eager => self.eager_messages.get() - 1,
            Some(_) => return None,
        };
        if index == EAGER_MESSAGES {
            return None;
        }
        let own = self
            .map
            .segment()
            .own_eager_message(self.map.node_rank, self.channel, index);
        let from = own.slice(start(bytes), bytes + TAIL);
        if self.sending.is_none() {
            self.eager_messages.set(index + 1);
            let mut page = [0; EAGER_MESSAGE];
            span::copy_out(message.from, &mut page[start(bytes)..PAYLOAD]);
            let tail = Tail {
                bytes: (bytes as u32).into(),
                sum: U32::ZERO,
                destination: (destination as u64).into(),
                flag: flag_value(self.op, 1).into(),
            };
            complete(&mut page, tail);
            span::copy_in(&page[start(bytes)..], from);
        }
        let (layout, local) = self.map.layout_of(to);
        Some(Message {
            from,
            offset: layout.eager_message(local, self.channel, slot) + start(bytes),
            tag: self.op,
            is_eager: true,
            ..message
        })
    }

    /// Takes the eager message in `slot`; false if none has come.
    pub(super) fn take_eager_message(&self, slot: Slot) -> Result<bool, EngineError> {
        let segment = self.map.segment();
        if !segment.geometry().has_eager_message(self.channel, slot) {
            return Ok(false);
        }
        let flag = segment.eager_message_flag(self.map.node_rank, self.channel, slot);
        let seen = flag.load(Ordering::Acquire);
        if !has_come(flag_parts(seen).0, self.op) {
            return Ok(false);
        }
        let mut page = [0; EAGER_MESSAGE];
        let capacity = segment.eager_message(self.map.node_rank, self.channel, slot);
        span::copy_out(capacity, &mut page);
        let Some((tail, payload)) = open(&page) else {
            return Ok(false);
        };
        let whole = segment.segment().range();
        let destination = tail.destination.get();
        let fits = destination.checked_add(payload.len() as u64);
        if fits.is_none_or(|end| end > whole.bytes as u64) {
            return Err(EngineError::Mismatch { rank: None });
        }
        let place = whole.slice(destination as usize, payload.len());
        span::copy_in(payload, place);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eager(payload: &[u8]) -> (Page, Tail) {
        let mut page = [0xee; EAGER_MESSAGE];
        page[start(payload.len())..PAYLOAD].copy_from_slice(payload);
        let tail = Tail {
            bytes: (payload.len() as u32).into(),
            sum: U32::ZERO,
            destination: 0x1_2345_6789.into(),
            flag: flag_value(77, 1).into(),
        };
        complete(&mut page, tail);
        (page, tail.with_sum(payload))
    }

    #[test]
    fn what_is_closed_by_a_flag_is_opened() {
        for bytes in [1, 7, 8, 100, PAYLOAD] {
            let payload: Vec<u8> = (0..bytes).map(|i| i as u8 ^ 0x5a).collect();
            let (page, tail) = eager(&payload);
            assert_eq!(open(&page), Some((tail, payload.as_slice())));
        }
    }

    #[test]
    fn a_eager_message_of_which_a_byte_is_missing_has_not_come() {
        let payload: Vec<u8> = (0..50).collect();
        let (page, _) = eager(&payload);
        for at in start(payload.len())..EAGER_MESSAGE {
            let mut torn = page;
            torn[at] ^= 0x10;
            assert_eq!(open(&torn), None, "byte {at}");
        }
        assert_eq!(open(&[0xff; EAGER_MESSAGE]), None);
    }
}
