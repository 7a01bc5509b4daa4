//! What does the work of a cell.

use super::call::Function;
use super::cell::Cell;
use super::contender::Contender;
use super::job_sizes::Team;
use super::operation::Operation;
use super::plain::Plain;
use super::raw::RawMulticast;
use super::variant::By;
use anyhow::{Result, anyhow};
use ferrorail_mpi_abi::Host;

/// An implementation of one operation.
pub enum Side<'h> {
    Mpi(Function),
    Raw(Box<RawMulticast<'h>>),
    Plain(Box<Plain>),
}

impl<'h> Side<'h> {
    /// That of `contender`. Collective.
    ///
    /// # Errors
    /// If there is none; those of raw multicasts and plain programs.
    pub fn open(
        host: &'h Host,
        team: Team,
        contender: &Contender,
        operation: &Operation,
    ) -> Result<Self> {
        match contender.variant.as_ref().map(|variant| variant.by) {
            Some(By::RawMulticast) => {
                let raw = RawMulticast::open(host, team)?;
                Ok(Self::Raw(Box::new(raw)))
            }
            Some(By::Plain(way)) => {
                let plain = Plain::open(host, team, operation, way)?;
                Ok(Self::Plain(Box::new(plain)))
            }
            _ => contender
                .function(operation)
                .map(Self::Mpi)
                .ok_or_else(|| anyhow!("ferrorail has no {}", operation.symbol())),
        }
    }

    /// Calls once, with the buffers of `pair`.
    ///
    /// # Errors
    /// Those of the implementation.
    pub fn call(&mut self, host: &Host, cell: &mut Cell<'_>, pair: usize) -> Result<()> {
        let buffers @ (send, recv) = cell.buffers.pair(pair);
        match self {
            Self::Mpi(function) => {
                // SAFETY: the buffers have the lengths that the operation states for these arguments.
                let code = unsafe { function.call(&cell.arguments, send, recv) };
                Ok(host.check(cell.operation.name, code)?)
            }
            // SAFETY: likewise.
            Self::Plain(plain) => unsafe { plain.call(cell.operation, cell.bytes, buffers) },
            Self::Raw(raw) => raw.broadcast_whole(cell.bytes, &mut cell.buffers, pair),
        }
    }
}
