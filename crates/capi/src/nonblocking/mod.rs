//! Non-blocking collectives (MPI 4.1, section 6.12) under way: each runs in a fiber on a team that the communicator has for
//! these, and is gone on with by the program's calls that test and await requests, by those that wait in ferrorail, and else
//! by a thread (`docs/design/0070-nonblocking-collectives.md`).
//!
//! * [`comm_team`]: the team of one communicator;
//! * [`queue`]: the calls of one communicator, in order;
//! * [`helper`]: the thread that goes on where the program does not;
//! * [`kept_types`]: types that the program may free while a call is under way;
//! * [`request`]: what the program has for a call: a generalized request of the host;
//! * [`persistent_request`]: what it has for a persistent collective, which is one of these each time it is started;
//! * [`persistent`]: the persistent collectives there are, and the program's calls that start them;
//! * [`spares`]: what persistent collectives leave for the next ones;
//! * [`wait`]: the program's calls on requests.

pub mod comm_team;
pub mod helper;
pub mod kept_types;
pub mod persistent;
pub mod persistent_request;
pub mod queue;
pub mod request;
pub mod spares;
pub mod wait;
