//! One size of one collective, ready to be called.

use super::buffers::{Buffers, Pool};
use super::call::Arguments;
use super::job_sizes::Team;
use super::mode::{self, Arrival, Mode, Reuse};
use super::operation::{Form, Operation, Place};
use ferrorail_mpi_abi::Host;

/// What is called, on which buffers, and how.
pub struct Cell<'a> {
    pub operation: &'static Operation,
    pub bytes: usize,
    pub arguments: Arguments,
    pub buffers: Buffers<'a>,
    pub mode: Mode,
    /// The time that pauses of a rank are drawn from, in µs.
    pub late_us: f64,
}

impl<'a> Cell<'a> {
    /// With buffers of `pool`; ranks are not late.
    pub fn new(
        host: &Host,
        team: Team,
        (operation, bytes, mode): (&'static Operation, usize, Mode),
        pool: &'a mut Pool,
    ) -> Self {
        let buffers = pool.buffers(operation.lengths(team.place, bytes));
        Self {
            operation,
            bytes,
            arguments: Arguments::new(host, operation, team, bytes),
            buffers: match mode.reuse {
                Reuse::Warm => buffers.first(),
                Reuse::Rotating | Reuse::Dirty => buffers,
            },
            mode,
            late_us: 0.0,
        }
    }

    /// What the rank of `place` does before its call number `call`.
    pub fn prepare(&mut self, place: Place, call: usize) {
        if self.mode.arrival == Arrival::Random {
            mode::compute(mode::pause(place.rank, call, self.late_us));
        }
        if self.mode.reuse == Reuse::Dirty {
            let (send, recv) = self.buffers.slices(call);
            match self.operation.form {
                // It has one buffer, which only the root sends.
                Form::Bcast if place.rank == place.root => recv.fill(0),
                Form::Bcast => (),
                _ => send.fill(0),
            }
        }
    }
}
