//! What share of the program's collective calls ferrorail took.

use crate::rows::add_fields;
use crate::stats::{CallRow, ForwardRow};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Blocking collective calls of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareRow {
    /// Those that ferrorail ran.
    pub taken: u64,
    /// All of them.
    pub all: u64,
}

impl ShareRow {
    /// Counts rows of calls.
    pub(crate) fn of(taken: &[CallRow], forwarded: &[ForwardRow]) -> Self {
        let taken = taken.iter().map(|row| row.calls).sum();
        let left = forwarded.iter().filter(|row| !row.is_of_a_window());
        let left: u64 = left.map(|row| row.calls).sum();
        Self {
            taken,
            all: taken + left,
        }
    }

    /// Adds those of another rank.
    pub(crate) fn add(&mut self, other: &Self) {
        add_fields!(self, other, taken all);
    }

    /// The line of the table.
    pub(crate) fn add_to(&self, text: &mut String) {
        if self.all == 0 {
            return;
        }
        let share = 100.0 * self.taken as f64 / self.all as f64;
        let _ = writeln!(
            text,
            "  taken {} of {} collective calls ({share:.1} %)",
            self.taken, self.all
        );
    }
}
