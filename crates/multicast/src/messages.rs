//! The messages that are not yet known to be received by all, and which of their fragments are here.

use crate::config::Config;
use crate::watermarks::Watermarks;
use std::collections::VecDeque;

/// Which fragments of a message are here. Up to 64 of them take no memory of their own.
#[derive(Clone, Debug, Default)]
struct Fragments {
    first: u64,
    more: Vec<u64>,
    count: u32,
    /// All below this one are here.
    prefix: u32,
}

impl Fragments {
    fn has(&self, fragment: u32) -> bool {
        let word = match fragment / 64 {
            0 => Some(&self.first),
            more => self.more.get(more as usize - 1),
        };
        word.is_some_and(|word| word >> (fragment % 64) & 1 != 0)
    }

    fn insert(&mut self, fragment: u32) -> bool {
        if self.has(fragment) {
            return false;
        }
        let word = match (fragment / 64) as usize {
            0 => &mut self.first,
            more => {
                self.more.resize(self.more.len().max(more), 0);
                &mut self.more[more - 1]
            }
        };
        *word |= 1 << (fragment % 64);
        self.count += 1;
        while self.has(self.prefix) {
            self.prefix += 1;
        }
        true
    }
}

/// What is known of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    /// Source, length and place in the session are known, from `open` here or from a datagram.
    pub known: bool,
    pub opened: bool,
    pub source: u32,
    number: u64,
    pub bytes: usize,
    pub fragments: u32,
    /// Number of its first fragment in the session.
    pub base: u64,
    here: Fragments,
    /// The rails it is striped over, as its source last said; 0 if it is relayed.
    pub stripe: u8,
    /// When its missing fragments are asked for, in nanoseconds.
    pub ask_at: Option<crate::Time>,
    /// How often they have been asked for without a sign of the source.
    pub tries: u32,
}

impl Message {
    pub fn is_complete(&self) -> bool {
        self.known && self.here.count == self.fragments
    }

    pub fn any_here(&self) -> bool {
        self.here.count > 0
    }

    pub fn end(&self) -> u64 {
        self.base + u64::from(self.fragments)
    }

    pub fn has(&self, fragment: u32) -> bool {
        self.here.has(fragment)
    }

    pub fn insert(&mut self, fragment: u32) -> bool {
        self.here.insert(fragment)
    }

    /// The source has all of its own message.
    pub fn fill(&mut self) {
        self.here.count = self.fragments;
        self.here.prefix = self.fragments;
    }

    /// The first fragment that is missing.
    pub fn first_missing(&self) -> u32 {
        self.here.prefix
    }

    /// Whose turn among the rails a fragment is: messages begin at one after the other, as the last fragment
    /// of each is short.
    pub fn turn(&self, fragment: u32) -> u64 {
        self.number + u64::from(fragment)
    }

    /// The rail on which a fragment is expected; none if the message is relayed.
    pub fn rail_of(&self, fragment: u32) -> Option<usize> {
        nth_rail(self.stripe, self.turn(fragment))
    }
}

/// The rail whose turn it is when `stripe` is striped over; none if that has no rail.
pub(crate) fn nth_rail(stripe: u8, turn: u64) -> Option<usize> {
    let rails = u64::from(stripe.count_ones());
    if rails == 0 {
        return None;
    }
    let mut left = stripe;
    for _ in 0..turn % rails {
        left &= left - 1;
    }
    Some(left.trailing_zeros() as usize)
}

/// The messages from the first not known to be received by all to the last that is opened or heard of.
#[derive(Debug)]
pub(crate) struct Messages {
    /// Number of the first in `list`.
    first: u64,
    list: VecDeque<Message>,
    /// Number of the last one opened.
    pub opened: u64,
    /// Where the next one to be opened starts.
    next_base: u64,
    /// All up to this one are opened and complete.
    completed: u64,
    /// All up to this one are complete, opened or not.
    whole: u64,
    stored: u64,
}

impl Messages {
    pub fn new(config: &Config) -> Self {
        Self {
            first: 1,
            list: VecDeque::with_capacity(2 * config.channels as usize + 2),
            opened: 0,
            next_base: 0,
            completed: 0,
            whole: 0,
            stored: 0,
        }
    }

    pub fn watermarks(&self) -> Watermarks {
        Watermarks {
            completed: self.completed,
            stored: self.stored,
            opened: self.opened,
        }
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn last(&self) -> u64 {
        self.first + self.list.len() as u64 - 1
    }

    pub fn get(&self, number: u64) -> Option<&Message> {
        self.list
            .get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut Message> {
        self.list
            .get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The message, made if it is beyond the last.
    pub fn reach(&mut self, number: u64) -> &mut Message {
        debug_assert!(number >= self.first);
        while self.last() < number {
            self.list.push_back(Message {
                number: self.last() + 1,
                ..Message::default()
            });
        }
        let index = (number - self.first) as usize;
        &mut self.list[index]
    }

    /// All from `from` on, with their numbers.
    pub fn range(&self, from: u64) -> impl Iterator<Item = (u64, &Message)> {
        let skip = from.saturating_sub(self.first) as usize;
        self.list
            .iter()
            .enumerate()
            .skip(skip)
            .map(|(i, message)| (self.first + i as u64, message))
    }

    /// Messages that may lack something here.
    pub fn incomplete(&self) -> impl Iterator<Item = (u64, &Message)> {
        self.range(self.whole + 1)
    }

    /// Same, to be changed.
    pub fn incomplete_mut(&mut self) -> impl Iterator<Item = (u64, &mut Message)> {
        let (first, skip) = (
            self.first,
            (self.whole + 1).saturating_sub(self.first) as usize,
        );
        self.list
            .iter_mut()
            .enumerate()
            .skip(skip)
            .map(move |(i, m)| (first + i as u64, m))
    }

    /// Opens the next message; its number, or nothing if a datagram has told otherwise of it.
    pub fn open(&mut self, source: u32, bytes: usize, fragments: u32, mine: bool) -> Option<u64> {
        let (number, base) = (self.opened + 1, self.next_base);
        let message = self.reach(number);
        if message.known && (message.source, message.bytes, message.base) != (source, bytes, base) {
            return None;
        }
        (message.source, message.bytes, message.base) = (source, bytes, base);
        (message.known, message.opened, message.fragments) = (true, true, fragments);
        if mine {
            message.fill();
        }
        self.opened = number;
        self.next_base = base + u64::from(fragments);
        self.advance();
        Some(number)
    }

    /// Moves the counts on after a change.
    pub fn advance(&mut self) {
        while let Some(message) = self.get(self.whole + 1) {
            if !message.known {
                break;
            }
            let (stored, complete) = (
                message.base + u64::from(message.first_missing()),
                message.is_complete(),
            );
            self.stored = stored;
            if !complete {
                break;
            }
            self.whole += 1;
        }
        self.completed = self.whole.min(self.opened);
    }

    /// Forgets those that all have received.
    pub fn release(&mut self, completed: u64) {
        while self.first <= completed.min(self.completed) && !self.list.is_empty() {
            self.list.pop_front();
            self.first += 1;
        }
    }

    /// The message that a fragment of the session belongs to.
    pub fn holder(&self, sequence: u64) -> Option<(u64, &Message)> {
        // Unknown messages have no place; they only lie behind the opened ones.
        let opened = (self.opened + 1).saturating_sub(self.first) as usize;
        let (mut low, mut high) = (0, opened.min(self.list.len()));
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.list[middle].end() <= sequence {
                low = middle + 1
            } else {
                high = middle
            }
        }
        let message = self.list.get(low).filter(|message| message.opened)?;
        (message.base <= sequence).then_some((self.first + low as u64, message))
    }

    /// Where the opened messages end.
    pub fn end(&self) -> u64 {
        self.next_base
    }
}
