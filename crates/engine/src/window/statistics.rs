//! What the statistics say of windows.

use super::{Memory, OneSided};
use crate::rows::{Row, add_fields};
use ferrorail_base::sync::{AtomicU64, Ordering};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Windows of one kind, and what ranks did on them. None of it needs the target's progress, except
/// that of its service thread where that has served anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowRow {
    /// `create`, `allocate`, `shared` or `dynamic`.
    pub memory: String,
    /// Whose atomics its locks use: `cpu` or `nic`.
    pub atomics: String,
    /// The lock algorithm of passive-target synchronisation.
    pub lock: String,
    /// Sides of windows: as many per window as it has ranks.
    pub windows: u64,
    /// Puts.
    pub puts: u64,
    /// Gets.
    pub gets: u64,
    /// Accumulating operations: read-modify-write under the target's accumulate lock.
    pub accumulates: u64,
    /// Those that changed one element at a time, by atomics of the rails or of the CPU.
    pub elements: u64,
    /// Locks of a target, or of all.
    pub locks: u64,
    /// Acquisitions of a target's lock over rails.
    pub acquired: u64,
    /// Remote messages of those, and of giving the locks back: operations over rails on the words
    /// of locks.
    pub lock_messages: u64,
    /// Fences, and epochs started or posted.
    pub epochs: u64,
    /// Accumulating operations that the target's service thread did.
    pub handled: u64,
    /// Requests that the service threads of these ranks served: locks, unlocks, accumulates.
    pub served: u64,
    /// Operations that were left to targets, which carried them out at the end of the epoch.
    pub by_target: u64,
    /// Those that these ranks carried out for others.
    pub for_origins: u64,
    /// Registrations of buffers that were kept beyond their operation.
    pub kept: u64,
    /// Operations whose buffer was registered already.
    pub reused: u64,
    /// Kept registrations that made way for others.
    pub evicted: u64,
}

impl WindowRow {
    /// What was done on a window that is freed.
    pub(super) fn of(memory: Memory, window: &OneSided) -> Self {
        let counters = window.counters();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            memory: memory.name().into(),
            atomics: window.atomics().into(),
            lock: window.lock_algorithm().name().into(),
            windows: 1,
            puts: count(&counters.puts),
            gets: count(&counters.gets),
            accumulates: count(&counters.accumulates),
            elements: count(&counters.elements),
            locks: count(&counters.locks),
            acquired: count(&counters.acquired),
            lock_messages: count(&counters.lock_messages),
            epochs: count(&counters.epochs),
            handled: count(&counters.handled),
            served: count(&counters.served),
            by_target: count(&counters.by_target),
            for_origins: count(&counters.for_origins),
            kept: count(&counters.kept),
            reused: count(&counters.reused),
            evicted: count(&counters.evicted),
        }
    }
}

impl Row for WindowRow {
    fn is_like(&self, other: &Self) -> bool {
        (&self.memory, &self.atomics, &self.lock) == (&other.memory, &other.atomics, &other.lock)
    }

    fn add(&mut self, other: &Self) {
        add_fields!(self, other, windows puts gets accumulates elements locks acquired);
        add_fields!(self, other, lock_messages epochs handled served);
        add_fields!(self, other, by_target for_origins kept reused evicted);
    }
}

/// Lines of the table.
pub fn table(rows: &[WindowRow], text: &mut String) {
    for row in rows {
        let _ = writeln!(
            text,
            "  windows {:<8} {:>6}  {} atomics, lock {}: {} puts, {} gets, {} accumulates, {} locks, \
             {} epochs; {} acquired over rails by {} messages",
            row.memory,
            row.windows,
            row.atomics,
            row.lock,
            row.puts,
            row.gets,
            row.accumulates,
            row.locks,
            row.epochs,
            row.acquired,
            row.lock_messages
        );
        if row.elements > 0 {
            let _ = writeln!(
                text,
                "  elements of these: {} of the accumulates changed each by an atomic of its own",
                row.elements
            );
        }
        if row.by_target > 0 {
            let _ = writeln!(
                text,
                "  of these operations: {} left to their targets, which carried out {}",
                row.by_target, row.for_origins
            );
        }
        if row.kept + row.reused > 0 {
            let _ = writeln!(
                text,
                "  registrations of these: {} kept, {} reused, {} evicted",
                row.kept, row.reused, row.evicted
            );
        }
        if row.served > 0 {
            let _ = writeln!(
                text,
                "  service threads of these: {} requests served; {} of the accumulates were theirs",
                row.served, row.handled
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::merge;

    #[test]
    fn windows_of_a_kind_are_added_up() {
        let row = |memory: &str, puts| WindowRow {
            memory: memory.into(),
            windows: 1,
            puts,
            ..WindowRow::default()
        };
        let mut rows = Vec::new();
        for one in [row("create", 2), row("shared", 5), row("create", 3)] {
            merge(&mut rows, one);
        }
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].windows, rows[0].puts, rows[1].puts), (2, 5, 5));
        let mut text = String::new();
        table(&rows, &mut text);
        assert!(text.contains("5 puts"), "{text}");
    }
}
