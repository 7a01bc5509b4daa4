//! What a window of some shape would do, by the functions that windows are made by.

use super::choose::{self, Place, Way};
use super::spec::Memory;
use ferrorail_base::Topology;
use ferrorail_base::config::{LockRequest, Scattered, Settings};
use ferrorail_fabric::AtomicScope;
use ferrorail_onesided::lock::{LockAlgorithm, Mode};
use ferrorail_onesided::window::layout::STAGING_BYTES;
use ferrorail_onesided::window::lock_messages;
use serde::Serialize;

/// The window that is asked about.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// Its memory.
    pub memory: Memory,
    /// Ranks and nodes.
    pub topology: Topology,
    /// Rails between nodes, and what their atomics exclude each other with.
    pub rails: (u8, AtomicScope),
    /// Whether the rails copy memory of one host only.
    pub copies: bool,
    /// The lock algorithm of the info key.
    pub lock: Option<LockAlgorithm>,
    /// Those in force.
    pub settings: &'a Settings,
}

impl Question<'_> {
    /// Whether the memory of targets there takes cross-memory attach: loopback rails copy what programs bring by it, too.
    fn attaches(&self, place: Place) -> bool {
        match Way::of(self.memory, place) {
            Way::Attach => true,
            Way::Rails | Way::Attached => self.copies && !self.memory.is_allocated(),
            Way::Mapped => false,
        }
    }
}

/// What becomes of operations on targets at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// `itself`, `same node` or `other node`.
    pub target: &'static str,
    /// Its memory.
    pub memory: &'static str,
    /// `MPI_Put` and `MPI_Get`.
    pub put_and_get: String,
    /// `MPI_Accumulate` and its kin.
    pub accumulate: String,
    /// Whose atomics the words of locks are accessed by.
    pub words: &'static str,
    /// Remote messages of acquiring the target's lock and giving it back.
    pub lock_messages: Option<LockMessages>,
}

/// Remote messages of an acquisition with its release, exclusive and shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LockMessages {
    /// Where nobody else wants the lock.
    pub alone: (u64, u64),
    /// Under any contention; none if there is no bound.
    pub most: Option<(u64, u64)>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The memory's name.
    pub memory: &'static str,
    /// Ranks.
    pub ranks: u32,
    /// Nodes, as the window sees them.
    pub nodes: u32,
    /// Rails that it uses.
    pub rails: u8,
    /// The lock algorithm.
    pub lock: &'static str,
    /// Why it is that one.
    pub lock_because: &'static str,
    /// Who must act at the target.
    pub progress: &'static str,
    /// By where the target is.
    pub operations: Vec<Operations>,
}

/// Says what would happen.
///
/// # Errors
/// Why there would be no such window.
pub fn explain(question: &Question<'_>) -> Result<Answer, &'static str> {
    let (memory, settings) = (question.memory, question.settings);
    let topology = choose::nodes(memory, &question.topology);
    let spans = topology.node_count() > 1;
    let scope = spans.then_some(question.rails.1);
    let scope = choose::atomics(settings.atomics, scope)?;
    let ranks = topology.size();
    let set = || LockAlgorithm::from_name(settings.lock.as_deref()?);
    let asked = question.lock.or_else(set);
    let lock = choose::lock_algorithm(asked, ranks);
    let by_target = choose::accumulate_from(
        settings.accumulate,
        memory,
        spans.then_some(question.copies),
    );
    let apart = choose::by_element(settings.accumulate, memory, spans, false);
    let has = |place| match place {
        Place::Own => true,
        Place::Node => topology.node_size_max() > 1,
        Place::Far => spans,
    };
    let places = [Place::Own, Place::Node, Place::Far].into_iter();
    let places = places.filter(|&place| has(place));
    if !settings.cma && places.clone().any(|place| question.attaches(place)) {
        return Err(
            "memory that programs bring is reached by cross-memory attach, and FERRORAIL_CMA is off",
        );
    }
    let operations = places.map(|place| {
        let way = Way::of(memory, place);
        let by_rail = choose::words_by_rail(scope, place);
        Operations {
            target: match place {
                Place::Own => "itself",
                Place::Node => "same node",
                Place::Far => "other node",
            },
            memory: way.name(),
            put_and_get: moves(way, question.rails.0, settings),
            accumulate: match apart {
                true => by_element(&accumulates(way, by_rail, by_target), way, by_rail),
                false => accumulates(way, by_rail, by_target),
            },
            words: if by_rail { "nic" } else { "cpu" },
            lock_messages: by_rail.then(|| messages(lock, settings.windows.lock_request)),
        }
    });
    Ok(Answer {
        memory: memory.name(),
        ranks,
        nodes: topology.node_count(),
        rails: if spans { question.rails.0 } else { 0 },
        lock: lock.name(),
        lock_because: match asked {
            _ if choose::is_too_small(asked, ranks) => "queue has no room for so many ranks",
            Some(_) => "it is asked for",
            None => "the default for so many ranks",
        },
        progress: match (lock.is_served(), by_target) {
            (true, _) => "a thread of ferrorail at the target hands out its lock",
            (false, Some(_)) => "a thread of ferrorail at the target accumulates",
            (false, None) => "none: nobody acts at the target",
        },
        operations: operations.collect(),
    })
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Attach => "of another process",
            Self::Rails => "registered on rails",
            Self::Attached => "registered on rails when it is attached",
        }
    }
}

fn moves(way: Way, rails: u8, settings: &Settings) -> String {
    let stripe_threshold = settings.stripe_threshold;
    let over_rails = || {
        let divided = match rails {
            1 => String::new(),
            _ => format!(", from {stripe_threshold} B on divided over {rails} rails"),
        };
        format!(
            "RDMA write and read, up to {STAGING_BYTES} B through a registered slot, else the program's \
             buffer{divided}"
        )
    };
    match way {
        Way::Mapped => "copies".into(),
        Way::Attach if settings.windows.scattered == Scattered::Origin => {
            "cross-memory copies".into()
        }
        Way::Attach => {
            "cross-memory copies; with gaps by the target: between fences or from start to complete when that ends, under a lock if it waits in a call"
                .into()
        }
        Way::Rails => over_rails(),
        Way::Attached => format!(
            "{}; the table of what is attached is read when it changed",
            over_rails()
        ),
    }
}

fn accumulates(way: Way, by_rail: bool, by_target: Option<usize>) -> String {
    let alone = match by_rail {
        true => "under a lock by NIC atomics",
        false => "under a lock by CPU atomics",
    };
    let origin = match way {
        Way::Mapped => format!("in place, {alone}"),
        Way::Attach => format!("two cross-memory copies, {alone}"),
        Way::Rails | Way::Attached => format!("RDMA read and write, {alone}"),
    };
    match (way, by_target) {
        (Way::Rails, Some(0)) => "by a message to the target's thread".into(),
        (Way::Rails, Some(bytes)) => {
            format!("{origin}; from {bytes} B on by a message to the target's thread")
        }
        _ => origin,
    }
}

/// Where elements of eight bytes go their own way, and `others` that one.
fn by_element(others: &str, way: Way, by_rail: bool) -> String {
    let whose = match by_rail || way != Way::Mapped {
        true => "a NIC atomic",
        false => "a CPU atomic",
    };
    format!("elements of 8 B each by {whose}; others {others}")
}

fn messages(lock: LockAlgorithm, request: LockRequest) -> LockMessages {
    let modes = [Mode::Exclusive, Mode::Shared];
    let [exclusive, shared] = modes.map(|mode| lock_messages(lock, mode, request));
    LockMessages {
        alone: (exclusive.alone, shared.alone),
        most: exclusive.most.zip(shared.most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(memory: Memory, sizes: &[u32], scope: AtomicScope, settings: &Settings) -> Answer {
        let question = Question {
            memory,
            topology: Topology::from_sizes(sizes),
            rails: (2, scope),
            copies: false,
            lock: None,
            settings,
        };
        explain(&question).expect("such a window can be")
    }

    #[test]
    fn a_window_that_spans_nodes_uses_what_its_rails_have() {
        let settings = Settings::default();
        let global = ask(Memory::Allocate, &[2, 2], AtomicScope::Global, &settings);
        let words: Vec<_> = global.operations.iter().map(|row| row.words).collect();
        assert_eq!(words, ["cpu", "cpu", "nic"]);
        assert_eq!((global.lock, global.rails), ("queue", 2));
        let far = &global.operations[2];
        let messages = far.lock_messages.expect("over rails");
        assert_eq!((messages.alone, messages.most), ((2, 2), Some((4, 5))));
        assert!(global.progress.starts_with("none"));
        let per_rail = ask(Memory::Allocate, &[2, 2], AtomicScope::Rail, &settings);
        assert!(per_rail.operations.iter().all(|row| row.words == "nic"));
    }

    #[test]
    fn one_node_needs_no_message() {
        let settings = Settings::default();
        for memory in [Memory::Allocate, Memory::Create { address: 0 }] {
            let one = ask(memory, &[4], AtomicScope::Rail, &settings);
            assert!(one.operations.iter().all(|row| row.lock_messages.is_none()));
            assert_eq!((one.operations.len(), one.rails), (2, 0));
        }
        let shared = Memory::Shared { apart: false };
        let shared = ask(shared, &[1, 1], AtomicScope::Rail, &settings);
        assert_eq!((shared.nodes, shared.operations[1].memory), (1, "mapped"));
    }

    #[test]
    fn threads_at_the_target_are_told() {
        let settings = Settings {
            lock: Some("event".into()),
            ..Settings::default()
        };
        let event = ask(Memory::Allocate, &[1, 1], AtomicScope::Global, &settings);
        assert_eq!(event.lock, "event");
        assert!(event.progress.contains("hands out its lock"));
    }
}
