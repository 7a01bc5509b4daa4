//! Reasons for leaving calls on a communicator or a window to the host.

/// The arguments are wrong; the host says how.
pub const INVALID: &str = "invalid arguments";
/// One element of a reduction exceeds scratch.
pub const LARGE_ELEMENT: &str = "element larger than FERRORAIL_SCRATCH allows";
/// Two groups.
pub const INTER_COMM: &str = "inter-communicator";
/// A member belongs to another world, made by spawning, connecting or joining.
pub const BEYOND_WORLD: &str = "reaches beyond MPI_COMM_WORLD";
/// A member lacks ferrorail, or has another version.
pub const WITHOUT_FERRORAIL: &str = "ranks without ferrorail";
/// Some rank may pass buffers that no CPU can touch.
pub const DEVICE_MEMORY: &str = "device memory possible (FERRORAIL_DEVICE_MEMORY)";
/// Nobody says which ranks have it.
pub const UNKNOWN_PRESENCE: &str = "ranks with ferrorail unknown (FERRORAIL_PRESENCE)";
/// It was left to the host when it was made, or does not exist.
pub const NO_WINDOW: &str = "not a window of ferrorail";
/// The call came from a callback of an attribute that goes with the communicator.
pub const BEING_FREED: &str = "communicator being freed";
/// Switched off on some rank.
pub const SWITCHED_OFF: &str = "FERRORAIL_ENABLE=0";
/// A tool in front would call past ferrorail.
pub const BYPASSED: &str = "PMPI_* bypasses ferrorail (see the warning)";
/// Every rank would connect to every other.
pub const TOO_MANY_CONNECTIONS: &str = "more queue pairs than FERRORAIL_QUEUE_PAIRS allows";
/// A setting says so.
pub const CHOSEN: &str = "the host is chosen (FERRORAIL_ALGORITHM or FERRORAIL_TUNING)";
/// Some rank could not connect to another.
pub const NO_CONNECTION: &str = "no connection (see the warning)";
/// Ranks disagreed on an earlier call.
pub const AFTER_ERROR: &str = "after an error";
/// Wrong, but nobody else waits for it.
pub const THREADS: &str = "several threads in a communicator of one rank";
/// The host has no more communicators, of which one was needed.
pub const NO_COMMUNICATOR: &str = "no communicator left in the host MPI";
/// The team could not be made.
pub const NO_TEAM: &str = "no team (see the warning)";
/// Non-blocking, and the ranks have made no team for such calls yet.
pub const NOT_PREPARED: &str = "non-blocking before the first blocking collective that follows one";
/// Non-blocking, with an operation that the host applies.
pub const HOST_OPERATION: &str = "non-blocking reduction with an operation or type of the host's";
/// A rank has no thread to go on with non-blocking collectives.
pub const NO_THREAD: &str = "no thread for non-blocking collectives";
