//! The table of what a rank has attached: writing one's own, reading others'.

use super::{Own, Window};
use crate::window::layout::{self, ENTRY_BYTES, TABLE_ENTRIES, TABLE_HEAD};
use crate::window::rails::Direction;
use crate::window::{Memory, WindowError};
use ferrorail_base::Rank;
use ferrorail_base::memory::{self, MemoryRange};
use ferrorail_base::sync::{AtomicU64, Ordering, fence};
use ferrorail_fabric::{Endpoint, LocalRegion, RAILS_MAX, RemoteRegion};

const WORD: usize = size_of::<u64>();
const ENTRY_WORDS: usize = ENTRY_BYTES / WORD;
const HEAD_WORDS: usize = TABLE_HEAD / WORD;
/// Where in a head it says where the table is.
const PLACE: usize = HEAD_WORDS / 2;

const _: () = assert!(RemoteRegion::WIRE_BYTES <= ENTRY_BYTES);

/// A table in memory of this process.
pub(super) struct Grown {
    words: Box<[AtomicU64]>,
    pub region: Option<LocalRegion>,
}

impl Grown {
    fn entries(&self) -> usize {
        self.words.len() / ENTRY_WORDS
    }

    fn place(&self) -> RemoteRegion {
        let range = MemoryRange::new(self.words.as_ptr().cast(), WORD * self.words.len());
        place_of(range, self.region.as_ref())
    }
}

fn place_of(range: MemoryRange, region: Option<&LocalRegion>) -> RemoteRegion {
    region.map_or(
        RemoteRegion {
            address: range.address as u64,
            bytes: range.bytes as u64,
            rkeys: [0; RAILS_MAX],
            mapping: 0,
        },
        RemoteRegion::of,
    )
}

fn to_words(region: &RemoteRegion) -> [u64; ENTRY_WORDS] {
    let mut wire = [0; ENTRY_BYTES];
    wire[..RemoteRegion::WIRE_BYTES].copy_from_slice(&region.to_wire());
    let mut words = [0; ENTRY_WORDS];
    for (word, bytes) in words.iter_mut().zip(wire.chunks_exact(WORD)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    words
}

fn from_words(words: &[u64]) -> RemoteRegion {
    let mut wire = [0; RemoteRegion::WIRE_BYTES];
    for (bytes, word) in wire.chunks_exact_mut(WORD).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    RemoteRegion::from_wire(&wire)
}

impl<F: Endpoint> Window<F> {
    /// Makes a table twice as long if the one in use has no room for one more entry.
    pub(super) fn extend(&self, own: &mut Own) -> Result<(), WindowError> {
        let room = own.grown.last().map_or(TABLE_ENTRIES, Grown::entries);
        if own.entries.len() < room {
            return Ok(());
        }
        let words = (0..2 * (room + 1) * ENTRY_WORDS).map(|_| AtomicU64::new(0));
        let words = memory::listed(words)?.into_boxed_slice();
        let mut grown = Grown {
            words,
            region: None,
        };
        if let Some(rails) = &self.rails {
            let (start, bytes) = (grown.words.as_ptr(), WORD * grown.words.len());
            // SAFETY: the words stay where they are until the window goes, which gives this back first.
            let region = unsafe { rails.fabric().register(start as *mut u8, bytes, None)? };
            grown.region = Some(region);
        }
        own.grown.push(grown);
        // Nobody knows of it: the next change writes it from the first entry on.
        Ok(())
    }

    /// Writes the table, of which the entry at `changed` and the length have changed, and tells everybody.
    pub(super) fn publish(&self, own: &mut Own, changed: usize) -> Result<(), WindowError> {
        own.changes += 1;
        let table = layout::table(self.size());
        let sequence = self.own_word(table);
        let place = own.grown.last().map(Grown::place);
        let place = place.map_or([0; ENTRY_WORDS], |place| to_words(&place));
        let moved = self.own_word(table + WORD * PLACE).load(Ordering::Relaxed) != place[0];
        sequence.store(2 * own.changes - 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let write = |at: usize, words: &[u64]| {
            for (index, word) in words.iter().enumerate() {
                let cell = self.own_word(table + at + WORD * index);
                cell.store(*word, Ordering::Relaxed);
            }
        };
        write(WORD, &[own.entries.len() as u64]);
        write(WORD * PLACE, &place);
        let written = match moved {
            true => 0..own.entries.len(),
            false => changed..own.entries.len().min(changed + 1),
        };
        for index in written {
            let entry = &own.entries[index];
            let range = MemoryRange::new(entry.address as *const u8, entry.bytes);
            let words = to_words(&place_of(range, entry.region.as_deref()));
            match own.grown.last() {
                None => write(TABLE_HEAD + ENTRY_BYTES * index, &words),
                Some(grown) => {
                    let cells = &grown.words[ENTRY_WORDS * index..];
                    for (cell, word) in cells.iter().zip(words) {
                        cell.store(word, Ordering::Relaxed);
                    }
                }
            }
        }
        sequence.store(2 * own.changes, Ordering::Release);
        fence(Ordering::SeqCst);
        let word = layout::changes(self.size(), self.rank.0);
        for rank in self.ranks() {
            self.tell(rank, word, own.changes)?;
        }
        // Whoever hears of the change in any way must find it.
        self.settle_all()
    }

    /// The table of `target`, by address; `None` if it changed meanwhile.
    pub(super) fn read_table(
        &self,
        target: Rank,
    ) -> Result<Option<Vec<RemoteRegion>>, WindowError> {
        let mut head = [0; HEAD_WORDS];
        self.read_control(target, 0, &mut head)?;
        let (before, count) = (head[0], head[1] as usize);
        let place = from_words(&head[PLACE..]);
        let grown = place.bytes > 0;
        // What is no head as a whole may name memory of nobody's.
        if before % 2 == 1 || grown && self.sequence_of(target)? != before {
            return Ok(None);
        }
        let room = match grown {
            true => place.bytes as usize / ENTRY_BYTES,
            false => TABLE_ENTRIES,
        };
        if count > room {
            return Ok(None);
        }
        let mut entries = memory::filled(ENTRY_WORDS * count, 0)?;
        self.lending_heap(&mut entries, |entries| match grown {
            true => self.read_grown(target, &place, entries),
            false => self.read_control(target, TABLE_HEAD, entries),
        })?;
        if self.sequence_of(target)? != before {
            return Ok(None);
        }
        let regions = entries.chunks_exact(ENTRY_WORDS).map(from_words);
        let mut regions = memory::listed(regions)?;
        regions.retain(|region| region.bytes > 0);
        regions.sort_unstable_by_key(|region| region.address);
        Ok(Some(regions))
    }

    fn sequence_of(&self, target: Rank) -> Result<u64, WindowError> {
        let mut sequence = [0];
        self.read_control(target, 0, &mut sequence)?;
        Ok(sequence[0])
    }

    /// Reads words of `target`'s control block, from byte `at` of its table on.
    fn read_control(&self, target: Rank, at: usize, into: &mut [u64]) -> Result<(), WindowError> {
        let offset = layout::table(self.size()) + at;
        if let Some(control) = self.targets[target.index()].control {
            for (index, word) in into.iter_mut().enumerate() {
                let from = self.segment.word(control + offset + WORD * index);
                *word = from.load(Ordering::Acquire);
            }
            fence(Ordering::SeqCst);
            return Ok(());
        }
        let link = self.rails().link_of(target);
        let (segment, offset) = (link.segment, link.control + offset);
        self.fetch(target, &segment, offset, into)
    }

    /// Reads the first words of a table in `target`'s own memory.
    fn read_grown(
        &self,
        target: Rank,
        place: &RemoteRegion,
        into: &mut [u64],
    ) -> Result<(), WindowError> {
        if let Memory::Attached = self.targets[target.index()].memory {
            return self.fetch(target, place, 0, into);
        }
        let here = MemoryRange::new(into.as_mut_ptr().cast(), size_of_val(into));
        // SAFETY: `into` is this call's; tables stay until the window goes. The owner may change it
        // meanwhile, which its sequence number tells.
        unsafe { self.move_run(target, Direction::Get, here, place.address as isize)? };
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Reads registered words of `target` over a rail. More than a slot holds lie on the heap, and the caller leaves them there
    /// if this fails.
    fn fetch(
        &self,
        target: Rank,
        region: &RemoteRegion,
        offset: usize,
        into: &mut [u64],
    ) -> Result<(), WindowError> {
        if into.is_empty() {
            return Ok(());
        }
        self.lending(into, |into| {
            let here = MemoryRange::new(into.as_mut_ptr().cast(), size_of_val(into));
            // SAFETY: `into` is waited for just below; the peer registered the words.
            unsafe { self.move_by_rail(target, Direction::Get, here, region, offset)? };
            self.settled(target)
        })
    }
}
