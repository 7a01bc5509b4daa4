//! Eager messages: short messages between nodes that bring their flag along, in one write instead of two.
//!
//! In a small channel each of the first slots has room for an eager message, which ends where the room ends:
//!
//! ```text
//! … │ payload │ length u32 │ sum u32 │ destination u64 │ flag u64 │
//! ```
//!
//! Nothing promises in which order an adapter stores the bytes of one write, so an eager message is taken only when
//! its sum (CRC32C of flag, destination, length and payload) agrees; until then it has not come. Its
//! receiver copies the payload where the schedule wants it, at `destination` in the node's segment.

use super::message::Message;
use super::{Run, span, wire};
use crate::EngineError;
use crate::tag::has_come;
use ferrorail_base::Rank;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Ordering;
use ferrorail_coll::Slot;
use ferrorail_fabric::RemoteRegion;
use ferrorail_fabric::stripe::{flag_parts, flag_value};
use ferrorail_shm::{EAGER_MESSAGE, EAGER_MESSAGES};

/// What follows the payload.
const TAIL: usize = 24;

/// Longest payload.
pub(super) const PAYLOAD: usize = EAGER_MESSAGE - TAIL;

/// Room for an eager message, private to this rank.
type Page = [u8; EAGER_MESSAGE];

/// What an eager message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    flag: u64,
    /// Offset of the payload's place in the receiver's segment.
    destination: u64,
    bytes: u32,
}

impl Address {
    fn sum(self, payload: &[u8]) -> u32 {
        let mut head = [0; 20];
        head[..8].copy_from_slice(&self.flag.to_le_bytes());
        head[8..16].copy_from_slice(&self.destination.to_le_bytes());
        head[16..].copy_from_slice(&self.bytes.to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c(&head), payload)
    }
}

/// Where the payload of an eager message begins in its room.
fn start(bytes: usize) -> usize {
    PAYLOAD - bytes
}

/// Completes the eager message whose payload is in `page`.
fn complete(page: &mut Page, address: Address) {
    let sum = address.sum(&page[start(address.bytes as usize)..PAYLOAD]);
    let tail = &mut page[PAYLOAD..];
    tail[..4].copy_from_slice(&address.bytes.to_le_bytes());
    tail[4..8].copy_from_slice(&sum.to_le_bytes());
    tail[8..16].copy_from_slice(&address.destination.to_le_bytes());
    tail[16..].copy_from_slice(&address.flag.to_le_bytes());
}

/// The eager message in `page`, if it is whole.
fn open(page: &Page) -> Option<(Address, &[u8])> {
    let word = |at: usize| wire::word(page, PAYLOAD + at);
    let address = Address {
        flag: word(16),
        destination: word(8),
        bytes: word(0) as u32,
    };
    let payload = page.get(PAYLOAD.checked_sub(address.bytes as usize)?..PAYLOAD)?;
    (address.sum(payload) == (word(0) >> 32) as u32).then_some((address, payload))
}

impl<'a> Run<'a> {
    /// Writes `payload`, which belongs at `destination` in the segment of `to`'s node, as an eager message,
    /// if it can be one.
    pub(super) fn eager_message<'m>(
        &self,
        segment: &'m RemoteRegion,
        to: Rank,
        (port, slot): (u8, Slot),
        payload: MemoryRange,
        destination: usize,
    ) -> Option<Message<'m>>
    where
        'a: 'm,
    {
        let bytes = payload.bytes;
        let layout = self.map.segment().layout();
        let rails = self.rails();
        if !layout.has_eager_message(self.channel, slot)
            || !(1..=PAYLOAD).contains(&bytes)
            || rails.planner.divides((bytes + TAIL) as u64)
        {
            return None;
        }
        // One that waits for room in a queue is written already.
        let index = match self.sending {
            None => self.eager_messages.get(),
            Some(_) => self.eager_messages.get() - 1,
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
            span::copy_out(payload, &mut page[start(bytes)..PAYLOAD]);
            let flag = flag_value(self.op, 1);
            let destination = destination as u64;
            let bytes = bytes as u32;
            complete(
                &mut page,
                Address {
                    flag,
                    destination,
                    bytes,
                },
            );
            span::copy_in(&page[start(bytes as usize)..], from);
        }
        Some(Message {
            source: rails.region(),
            from,
            dest: segment,
            offset: self.map.eager_message_offset(to, self.channel, slot) + start(bytes),
            to,
            slot,
            tag: self.op,
            is_eager: true,
            into_user: false,
            rail: self.own_rail(port),
        })
    }

    /// Takes the eager message in `slot`; false if none has come.
    pub(super) fn take_eager_message(&self, slot: Slot) -> Result<bool, EngineError> {
        let segment = self.map.segment();
        if !segment.layout().has_eager_message(self.channel, slot) {
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
        let Some((address, payload)) = open(&page) else {
            return Ok(false);
        };
        let whole = segment.segment().range();
        let fits = address.destination.checked_add(payload.len() as u64);
        if fits.is_none_or(|end| end > whole.bytes as u64) {
            return Err(EngineError::Mismatch { rank: None });
        }
        let place = whole.slice(address.destination as usize, payload.len());
        span::copy_in(payload, place);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eager(payload: &[u8]) -> (Page, Address) {
        let mut page = [0xee; EAGER_MESSAGE];
        page[start(payload.len())..PAYLOAD].copy_from_slice(payload);
        let address = Address {
            flag: flag_value(77, 1),
            destination: 0x1_2345_6789,
            bytes: payload.len() as u32,
        };
        complete(&mut page, address);
        (page, address)
    }

    #[test]
    fn what_is_closed_by_a_flag_is_opened() {
        for bytes in [1, 7, 8, 100, PAYLOAD] {
            let payload: Vec<u8> = (0..bytes).map(|i| i as u8 ^ 0x5a).collect();
            let (page, address) = eager(&payload);
            assert_eq!(open(&page), Some((address, payload.as_slice())));
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
