//! What came of a benchmark of collectives.

use super::bounds;
use super::row::Row;
use ferrorail_mpi_abi::Host;

/// See the module documentation; known to rank 0.
pub struct Outcome<'a> {
    /// What was measured.
    pub rows: &'a [Row],
    /// Collectives that the library does not take over.
    pub missing: &'a [&'static str],
    /// The MPI library.
    pub host: &'a Host,
    /// Ranks of the job.
    pub ranks: u32,
    /// What the machine can do, if that was measured.
    pub bounds: Option<&'a bounds::Found>,
}
