//! Errors of the engine as errors of the host MPI.

use crate::session::Session;
use ferrorail_base::memory::NoMemory;
use ferrorail_engine::{EngineError, ErrorClass};
use ferrorail_mpi_abi::{AbiKind, Comm, Host, MpiError, Win};
use libc::c_int;

/// Why a call that began inside ferrorail failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Packing or unpacking failed.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// The two sides of the call describe different amounts of data.
    #[error("{send_bytes} bytes are sent but {recv_bytes} are received from each rank")]
    Signature {
        /// Bytes that the send arguments describe.
        send_bytes: usize,
        /// Bytes that the receive arguments describe for one rank.
        recv_bytes: usize,
    },
    /// An argument is wrong.
    #[error(transparent)]
    Wrong(#[from] Wrong),
    /// The system refused memory for a copy of the program's data, or for a table that describes it.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// No memory has so many bytes.
    #[error("the call describes more bytes than can be counted")]
    TooMuch,
}

impl CallError {
    /// The host's class for it.
    pub fn class(&self, host: &Host) -> c_int {
        let errors = &host.constants().errors;
        match self {
            Self::Engine(error) => error.mpi_class().unwrap_or_else(|| match error.class() {
                ErrorClass::NoMemory => errors.no_mem,
                ErrorClass::Truncate => errors.truncate,
                ErrorClass::ProcessFailed => process_failed(host).unwrap_or(errors.other),
                ErrorClass::Internal => errors.intern,
                ErrorClass::Synchronisation => host.window_constants().errors.rma_sync,
                ErrorClass::Rank => errors.rank,
                ErrorClass::Displacement => host.window_constants().errors.disp,
                ErrorClass::Range => host.window_constants().errors.rma_range,
                ErrorClass::Attachment => host.window_constants().errors.rma_attach,
                ErrorClass::Argument => errors.arg,
                _ => errors.other,
            }),
            Self::Mpi(error) => error.class,
            Self::Signature { .. } => errors.truncate,
            Self::NoMemory(_) | Self::TooMuch => errors.no_mem,
            Self::Wrong(wrong) => wrong.class(host),
        }
    }

    /// Whether this rank alone may have failed, before its team's operation: the other ranks are in it.
    pub fn is_of_this_rank(&self) -> bool {
        matches!(self, Self::NoMemory(_) | Self::Mpi(_))
    }
}

/// What is wrong with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("invalid arguments")]
    Arguments,
    #[error("the arguments of another rank are invalid")]
    ElsewhereArguments,
    #[error("there is no buffer")]
    Buffer,
    #[error("a block is sent from where it is received")]
    Alias,
    #[error("a count is negative")]
    Count,
    #[error("a datatype may not be used here")]
    Datatype,
    #[error("the operation may not be used for accumulation")]
    Operation,
    #[error("no such type of lock")]
    LockType,
    #[error("no such assertion")]
    Assertion,
    #[error("the group is not one of the window's ranks")]
    Group,
    #[error("the window is not of that kind")]
    Flavour,
    #[error("a length is negative")]
    Size,
    #[error("the displacement unit is too large for this form of the call")]
    Unit,
}

impl Wrong {
    fn class(self, host: &Host) -> c_int {
        let (general, window) = (&host.constants().errors, &host.window_constants().errors);
        match self {
            Self::Arguments | Self::ElsewhereArguments => general.arg,
            Self::Buffer | Self::Alias => general.buffer,
            Self::Count => general.count,
            Self::Datatype => general.datatype,
            Self::Operation => general.op,
            Self::LockType => window.locktype,
            Self::Assertion => window.assert,
            Self::Group => window.group,
            Self::Flavour => window.rma_flavor,
            Self::Size => window.size,
            Self::Unit => window.disp,
        }
    }
}

/// [`report`] to the error handler of `window`.
#[cold]
pub fn report_window(session: &Session, window: Win, call: &str, error: &CallError) -> c_int {
    let host = &session.runtime.host;
    let class = error.class(host);
    tracing::error!("{call}: {error}");
    host.call_window_error_handler(window, class);
    class
}

/// Reports `error` to the error handler of `comm` (MPI 4.1, section 9.3) and returns the code for
/// the caller, if the handler returns.
#[cold]
pub fn report(session: &Session, comm: Comm, collective: &str, error: &CallError) -> c_int {
    let host = &session.runtime.host;
    let class = error.class(host);
    tracing::error!("{collective}: {error}");
    host.call_error_handler(comm, class);
    class
}

/// `MPI_ERR_PROC_FAILED`, which Open MPI has since version 5 (`ompi/include/mpi.h.in`).
fn process_failed(host: &Host) -> Option<c_int> {
    let major = host
        .version()
        .split_once("Open MPI v")?
        .1
        .split('.')
        .next()?;
    let has_it = host.kind() == AbiKind::OpenMpi && major.parse::<u32>().ok()? >= 5;
    has_it.then_some(75)
}
