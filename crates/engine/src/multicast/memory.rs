//! Where a leader's messages lie.

use ferrorail_base::memory::MemoryRange;
use ferrorail_multicast::{Config, MessageId, Opened, Store};
use std::collections::VecDeque;

/// Where messages lie.
pub(super) struct Memory {
    /// By channel: what this leader sends from there, or received before it wanted it.
    channels: Vec<Channel>,
    /// Those of opened messages that are not in a channel, by number.
    places: VecDeque<(MessageId, MemoryRange)>,
}

#[derive(Default)]
struct Channel {
    bytes: Vec<u8>,
    /// The message that is in it.
    holds: Option<MessageId>,
}

impl Memory {
    /// Of no messages yet.
    pub fn new(config: &Config) -> Self {
        Self {
            channels: (0..config.channels).map(|_| Channel::default()).collect(),
            places: VecDeque::new(),
        }
    }

    /// Remembers where the message that was just opened lies. A short one of this leader is copied, so that
    /// the program may have its memory back; what came early is copied out.
    ///
    /// # Safety
    /// The memory stays valid, and nobody else writes it, until [`Memory::forget`].
    pub unsafe fn place(
        &mut self,
        config: &Config,
        opened: Opened,
        source: u32,
        memory: MemoryRange,
    ) {
        let Opened { id, early } = opened;
        let channel = &mut self.channels[config.channel(id)];
        if source == config.me && config.is_eager(memory.bytes) {
            // SAFETY: the caller vouches for the message; the channel has as much room.
            unsafe { memory.copy_to(channel.take(id, memory.bytes)) }
            return;
        }
        if source != config.me && early && channel.holds == Some(id) {
            let held = channel.memory().slice(0, memory.bytes);
            // SAFETY: as above.
            unsafe { held.copy_to(memory) };
            channel.holds = None;
        }
        self.places.push_back((id, memory));
    }

    /// Uses the memory of message `id` no more.
    pub fn forget(&mut self, id: MessageId) {
        if let Ok(index) = self.find(id) {
            self.places.remove(index);
        }
    }

    fn find(&self, id: MessageId) -> Result<usize, usize> {
        self.places.binary_search_by_key(&id, |place| place.0)
    }

    fn place_of(&self, id: MessageId) -> Option<MemoryRange> {
        Some(self.places[self.find(id).ok()?].1)
    }

    /// Where message `id`, whose channel is `channel`, lies.
    pub fn of(&mut self, id: MessageId, channel: usize) -> Option<MemoryRange> {
        let place = self.place_of(id);
        let channel = &mut self.channels[channel];
        place.or_else(|| (channel.holds == Some(id)).then(|| channel.memory()))
    }

    /// Stores a fragment of a message of `bytes` bytes.
    pub fn store(&mut self, config: &Config, store: &Store, bytes: u64, payload: &[u8]) {
        let channel = config.channel(store.message);
        let into = match store.early {
            true => Some(self.channels[channel].take(store.message, bytes as usize)),
            // Its caller may have given the message up after an error.
            false => self.place_of(store.message),
        };
        // Without checksums a damaged header may tell another length.
        if let Some(into) = into.filter(|_| payload.len() == store.bytes) {
            let from = MemoryRange::new(payload.as_ptr(), payload.len());
            // SAFETY: `place`'s caller vouches for a message's memory until it is forgotten, and the channel is
            // this session's own. The session gives offsets inside the message.
            unsafe { from.copy_to(into.slice(store.offset, store.bytes)) }
        }
    }
}

impl Channel {
    /// Makes this the channel of message `id` of `bytes` bytes, unless it is; the message's memory.
    fn take(&mut self, id: MessageId, bytes: usize) -> MemoryRange {
        if self.holds != Some(id) {
            self.holds = Some(id);
            self.bytes.resize(bytes.max(self.bytes.len()), 0);
        }
        self.memory().slice(0, bytes)
    }

    fn memory(&mut self) -> MemoryRange {
        MemoryRange::new(self.bytes.as_mut_ptr(), self.bytes.len())
    }
}
