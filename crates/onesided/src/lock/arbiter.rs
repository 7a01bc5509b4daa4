//! The side of a served lock that runs at its target: who holds the lock, and who comes next.

use super::word::request;
use super::{Entrance, Mode};
use std::collections::VecDeque;

/// Keeps one lock for contenders that ask by words of their own (see
/// [`LockAlgorithm::is_served`](super::LockAlgorithm::is_served)). First come, first served; shared holders that follow each
/// other in the queue are together, and those that join do not queue behind exclusive ones.
///
/// It reads no memory: whoever runs it shows it the words, and stores what it grants.
#[derive(Debug)]
pub struct Arbiter {
    contenders: Vec<Contender>,
    waiting: VecDeque<u32>,
    shared: u32,
    exclusive: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Contender {
    /// The last word of it that was looked at.
    seen: u64,
    held: Option<Mode>,
}

impl Arbiter {
    /// A free lock.
    #[must_use]
    pub fn new(contenders: u32) -> Self {
        Self {
            contenders: vec![Contender::default(); contenders as usize],
            waiting: VecDeque::with_capacity(contenders as usize),
            shared: 0,
            exclusive: false,
        }
    }

    /// Takes note of the word in which `contender` asks, read with acquire ordering. Whether it was
    /// news.
    ///
    /// # Panics
    /// If there is no such contender.
    pub fn observe(&mut self, contender: u32, word: u64) -> bool {
        let known = &mut self.contenders[contender as usize];
        if known.seen == word {
            return false;
        }
        known.seen = word;
        // Whoever asks again has left, though the word that said so may have been overwritten.
        match known.held.take() {
            Some(Mode::Shared) => self.shared -= 1,
            Some(Mode::Exclusive) => self.exclusive = false,
            None => {}
        }
        if request::entrance(word).is_some() && !self.waiting.contains(&contender) {
            self.waiting.push_back(contender);
        }
        true
    }

    /// Lets in the next contender if there is one and it may: who, and what is to be stored in its
    /// mailbox [`Grant`](super::Mailbox::Grant): the request, so that no earlier answer is taken for it.
    pub fn grant(&mut self) -> Option<(u32, u64)> {
        let joins = |&contender: &u32| {
            let entrance = request::entrance(self.contenders[contender as usize].seen);
            entrance == Some(Entrance::Joining)
        };
        let joining = self.waiting.iter().position(joins);
        let place = joining.filter(|_| !self.exclusive).unwrap_or(0);
        let next = *self.waiting.get(place)?;
        let contender = &mut self.contenders[next as usize];
        let mode = request::entrance(contender.seen)?.mode();
        match mode {
            Mode::Shared if !self.exclusive => self.shared += 1,
            Mode::Exclusive if !self.exclusive && self.shared == 0 => self.exclusive = true,
            _ => return None,
        }
        contender.held = Some(mode);
        self.waiting.remove(place);
        Some((next, contender.seen))
    }

    /// Whether nobody holds the lock or waits for it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.shared == 0 && !self.exclusive && self.waiting.is_empty()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn ask(arbiter: &mut Arbiter, contender: u32, number: u64, mode: Option<Mode>) {
        assert!(arbiter.observe(contender, request::pack(number, mode.map(Entrance::Fair))));
    }

    #[test]
    fn readers_behind_a_writer_wait_for_it_and_enter_together() {
        let mut arbiter = Arbiter::new(4);
        ask(&mut arbiter, 0, 1, Some(Mode::Shared));
        ask(&mut arbiter, 1, 1, Some(Mode::Exclusive));
        ask(&mut arbiter, 2, 1, Some(Mode::Shared));
        ask(&mut arbiter, 3, 1, Some(Mode::Shared));
        assert_eq!(arbiter.grant().map(|(who, _)| who), Some(0));
        assert_eq!(arbiter.grant(), None, "a reader does not overtake a writer");
        ask(&mut arbiter, 0, 2, None);
        assert_eq!(arbiter.grant().map(|(who, _)| who), Some(1));
        assert_eq!(arbiter.grant(), None);
        ask(&mut arbiter, 1, 2, None);
        assert_eq!(arbiter.grant().map(|(who, _)| who), Some(2));
        assert_eq!(arbiter.grant().map(|(who, _)| who), Some(3));
        ask(&mut arbiter, 3, 2, None);
        ask(&mut arbiter, 2, 2, None);
        assert!(arbiter.is_idle());
    }

    #[test]
    fn who_joins_passes_waiting_writers_but_no_holder() {
        let mut arbiter = Arbiter::new(4);
        ask(&mut arbiter, 0, 1, Some(Mode::Shared));
        ask(&mut arbiter, 1, 1, Some(Mode::Exclusive));
        assert_eq!(arbiter.grant().map(|(who, _)| who), Some(0));
        let joins = request::pack(1, Some(Entrance::Joining));
        assert!(arbiter.observe(2, joins));
        assert_eq!(arbiter.grant(), Some((2, joins)));
        assert_eq!(arbiter.grant(), None);
        ask(&mut arbiter, 0, 2, None);
        ask(&mut arbiter, 2, 2, None);
        assert_eq!(arbiter.grant().map(|(who, _)| who), Some(1));
        assert!(arbiter.observe(3, joins));
        assert_eq!(arbiter.grant(), None);
        ask(&mut arbiter, 1, 2, None);
        assert_eq!(arbiter.grant().map(|(who, _)| who), Some(3));
    }

    #[test]
    fn a_release_that_was_overwritten_counts() {
        let mut arbiter = Arbiter::new(2);
        ask(&mut arbiter, 0, 1, Some(Mode::Exclusive));
        let granted = request::pack(1, Some(Entrance::Fair(Mode::Exclusive)));
        assert_eq!(arbiter.grant(), Some((0, granted)));
        assert!(!arbiter.observe(0, granted), "no news");
        ask(&mut arbiter, 1, 1, Some(Mode::Exclusive));
        ask(&mut arbiter, 0, 3, Some(Mode::Shared));
        assert_eq!(arbiter.grant().map(|(who, _)| who), Some(1), "in turn");
        assert_eq!(arbiter.grant(), None);
        ask(&mut arbiter, 1, 4, None);
        let granted = request::pack(3, Some(Entrance::Fair(Mode::Shared)));
        assert_eq!(arbiter.grant(), Some((0, granted)));
    }
}
