//! Rails: what carries bytes between processes, behind [`ferrorail_fabric::Transport`].
//!
//! * [`verbs`]: RDMA devices (InfiniBand, RoCE, soft-RoCE) through reliable connected queue pairs,
//!   one per peer and rail. Needs libibverbs at run time, which is loaded when the first rail is
//!   opened; [`verbs::is_available`] asks without an error.
//! * [`loopback`]: emulated rails between processes of one host, for machines without RDMA.
//!
//! * [`failover`]: either of them with rails that may fail and come back.
//!
//! Both carry datagrams to groups as well ([`ferrorail_fabric::Multicast`]), and pass the suite
//! `tests/multicast`.
//!
//! All pass one conformance suite, `tests/conformance`. It runs on loopback rails everywhere; on
//! verbs it needs devices, and is then run by `scripts/soft-roce` or on real ones:
//!
//! ```sh
//! cargo test -p ferrorail-rdma-transport --no-run     # prints the name of the test program
//! scripts/soft-roce target/debug/deps/verbs-… --ignored
//! ```
//!
//! Rails of two processes are paired by plane ([`ferrorail_fabric::RailInfo::plane`]): the position
//! among the rails asked for, whether they could be opened or not. Nothing here knows ranks,
//! collectives or windows; addresses travel by the caller's out-of-band channel.

mod breakages;
pub mod failover;
pub mod loopback;
pub mod verbs;
