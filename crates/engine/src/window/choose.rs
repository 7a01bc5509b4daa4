//! What is decided of a window, as pure functions of what every rank knows: windows are made by them,
//! and `ferrorail explain window` asks them.

use super::spec::Memory;
use ferrorail_base::Topology;
use ferrorail_base::config::{AccumulateChoice, AtomicsChoice};
use ferrorail_fabric::AtomicScope;
use ferrorail_onesided::lock::{LockAlgorithm, SEATS};
use std::borrow::Cow;

/// Bytes from which on `FERRORAIL_ACCUMULATE=auto` leaves accumulating to the target: as in the thesis
/// (figure 3.13: 512 integers). Over soft-RoCE 1 KB are slower that way, and 4 KB twice as fast.
const EVENT_BYTES: usize = 2048;

/// Where a target is, as an origin sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The origin itself.
    Own,
    /// On its node.
    Node,
    /// On another node.
    Far,
}

/// How the memory of a target is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is mapped: by load and store.
    Mapped,
    /// It is another process's: by cross-memory copies.
    Attach,
    /// By RDMA, to memory registered when the window was made.
    Rails,
    /// By RDMA, to what is attached now, which a table at the target tells.
    Attached,
}

impl Way {
    /// The way to memory of that kind there.
    pub fn of(memory: Memory, place: Place) -> Self {
        match (memory, place) {
            (_, Place::Own) => Self::Mapped,
            (Memory::Allocate | Memory::Shared { .. }, Place::Node) => Self::Mapped,
            (Memory::Create { .. } | Memory::Dynamic, Place::Node) => Self::Attach,
            (Memory::Dynamic, Place::Far) => Self::Attached,
            (_, Place::Far) => Self::Rails,
        }
    }
}

/// The nodes of a window's ranks: virtual ones do not divide shared memory.
pub fn nodes(memory: Memory, topology: &Topology) -> Cow<'_, Topology> {
    match memory {
        Memory::Shared { .. } => Cow::Owned(Topology::from_sizes(&[topology.size()])),
        _ => Cow::Borrowed(topology),
    }
}

/// What the atomics of words exclude each other with; `rails` is what those of the rails do, if the
/// window uses any.
///
/// # Errors
/// Why no window can be made.
pub fn atomics(
    choice: AtomicsChoice,
    rails: Option<AtomicScope>,
) -> Result<Option<AtomicScope>, &'static str> {
    match (choice, rails) {
        (_, Some(AtomicScope::None)) => Err("the rails have no remote atomics"),
        (AtomicsChoice::Cpu, Some(AtomicScope::Rail)) => {
            Err("FERRORAIL_ATOMICS=cpu, but the rails' atomics do not exclude the CPU's")
        }
        (AtomicsChoice::Nic, Some(_)) => Ok(Some(AtomicScope::Rail)),
        (_, found) => Ok(found),
    }
}

/// Whether atomics on a target's words go by rail.
pub fn words_by_rail(scope: Option<AtomicScope>, place: Place) -> bool {
    match scope {
        None => false,
        Some(AtomicScope::Global) => place == Place::Far,
        Some(_) => true,
    }
}

/// The lock algorithm: what is asked for, as far as it has room for so many ranks, else the fair one.
pub fn lock_algorithm(asked: Option<LockAlgorithm>, ranks: u32) -> LockAlgorithm {
    match asked {
        Some(LockAlgorithm::Queue) | None => LockAlgorithm::for_ranks(ranks),
        Some(algorithm) => algorithm,
    }
}

/// Whether `asked` has no room for so many ranks.
pub fn is_too_small(asked: Option<LockAlgorithm>, ranks: u32) -> bool {
    asked == Some(LockAlgorithm::Queue) && ranks > SEATS
}

/// Bytes from which on targets of other nodes accumulate themselves, if any do. `rails` is whether those
/// that the window uses copy memory of one host only, if it uses any.
pub fn accumulate_from(
    choice: AccumulateChoice,
    memory: Memory,
    rails: Option<bool>,
) -> Option<usize> {
    // What is attached to a dynamic window is known to origins only.
    let copies = rails.filter(|_| memory != Memory::Dynamic)?;
    match choice {
        AccumulateChoice::Origin | AccumulateChoice::Nic => None,
        AccumulateChoice::Event => Some(0),
        // To move the result then costs less than to wake somebody.
        AccumulateChoice::Auto if copies => None,
        AccumulateChoice::Auto => Some(EVENT_BYTES),
    }
}

/// Whether elements of eight bytes are accumulated one at a time; `asked` if all ranks hint at that.
pub fn by_element(choice: AccumulateChoice, memory: Memory, rails: bool, asked: bool) -> bool {
    // Memory that the window brings lies in segments, where the atomics of every rank reach it.
    rails && memory.is_allocated() && (asked || choice == AccumulateChoice::Nic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reached_by_what_it_is_and_where() {
        let create = Memory::Create { address: 0 };
        let ways = |memory| [Place::Own, Place::Node, Place::Far].map(|at| Way::of(memory, at));
        assert_eq!(ways(create), [Way::Mapped, Way::Attach, Way::Rails]);
        assert_eq!(
            ways(Memory::Allocate),
            [Way::Mapped, Way::Mapped, Way::Rails]
        );
        assert_eq!(
            ways(Memory::Dynamic),
            [Way::Mapped, Way::Attach, Way::Attached]
        );
    }

    #[test]
    fn words_have_one_path() {
        use AtomicScope::{Global, None as Never, Rail};
        use AtomicsChoice::{Auto, Cpu, Nic};
        assert_eq!(atomics(Auto, None), Ok(None));
        assert_eq!(atomics(Nic, Some(Global)), Ok(Some(Rail)));
        assert_eq!(atomics(Cpu, Some(Global)), Ok(Some(Global)));
        assert!(atomics(Cpu, Some(Rail)).is_err() && atomics(Auto, Some(Never)).is_err());
        assert!(!words_by_rail(None, Place::Far));
        assert!(!words_by_rail(Some(Global), Place::Node));
        assert!(words_by_rail(Some(Rail), Place::Own));
    }

    #[test]
    fn targets_accumulate_where_that_is_asked_for_and_pays() {
        use AccumulateChoice::{Auto, Event, Origin};
        let from = |choice, rails| accumulate_from(choice, Memory::Allocate, rails);
        assert_eq!(from(Origin, Some(false)), None);
        assert_eq!(
            [from(Event, Some(true)), from(Event, None)],
            [Some(0), None]
        );
        assert_eq!([from(Auto, Some(true)), from(Auto, None)], [None, None]);
        assert_eq!(from(Auto, Some(false)), Some(EVENT_BYTES));
        assert_eq!(accumulate_from(Event, Memory::Dynamic, Some(false)), None);
    }

    #[test]
    fn queue_makes_way_where_it_has_no_room() {
        let queue = Some(LockAlgorithm::Queue);
        assert_eq!(lock_algorithm(queue, SEATS), LockAlgorithm::Queue);
        assert_eq!(lock_algorithm(queue, SEATS + 1), LockAlgorithm::TestAndSet);
        assert_eq!(lock_algorithm(None, SEATS + 1), LockAlgorithm::TestAndSet);
        let mcs = lock_algorithm(Some(LockAlgorithm::Mcs), 1000);
        assert_eq!(mcs, LockAlgorithm::Mcs);
        assert!(is_too_small(queue, SEATS + 1) && !is_too_small(None, SEATS + 1));
    }
}
