//! How patient who waits is.

use std::time::Duration;

/// How patient each rung of the ladder is. A constant of the job's placement, not of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    /// Polls with a spin hint before anything else; 0 where ranks outnumber cores.
    pub spin: u32,
    /// Polls before a yield where ranks share cores and nobody else on this one can go on ([`Cores`](super::Cores)).
    pub spin_idle: u32,
    /// Polls at most before sleeping, without a yield, while other programs use the cores of ranks that have one each
    /// (`wait::crowd`); 0 where who waits does not look for such programs.
    pub spin_crowded: u32,
    /// How long to poll with yields before sleeping. Where ranks outnumber cores, a yield hands the
    /// core to a rank that has work, while a sleep costs two context switches and a timer: with 8
    /// ranks on 2 cores sleeping early makes every operation slower.
    pub yields: Duration,
    /// Idle steps between pokes of the host's progress while yielding. Sleeping pokes every time.
    pub poke_every: u32,
    /// Longest single sleep: bounds both the host's starvation and a lost wake-up.
    pub sleep: Duration,
    /// A nap is at most one of so many parts of what has been waited: nobody ends it, so it makes the
    /// wait that much longer. So is a sleep of more than a millisecond, as the host may be awaited elsewhere.
    pub nap_share: u32,
    /// In a fiber, leave it at each step: who drives it waits ([`ferrorail_base::fiber`]).
    pub suspends: bool,
}

// Measured with `cargo run --release -p ferrorail-shm --example wait_policy` on 2 cores. An 8-byte
// exchange of 2 ranks takes 0.06 us with 200 spins or more and 0.25 us with none; when other work
// takes one of the cores, every spin is lost time, 2000 of them ten times as much as 200. For 8
// ranks it takes 5 to 10 us with 20 us of yields or more, 31 us with none, and 150 us and more once
// ranks spin.

/// Polls before the first yield where every rank has a core: 10 to 20 us, above the latency of a
/// rail and about what being scheduled away and back costs.
pub(super) const SPINS: u32 = 200;
/// Polls of a rank whose core nobody else can use: they take about as long as the two switches that they may save.
const SPINS_IDLE: u32 = 50;
/// 100 to 200 us: about as long as the work between two calls of most programs differs between ranks, and a small part of
/// a time slice.
const SPINS_CROWDED: u32 = 3000;
const YIELDS: Duration = Duration::from_millis(1);
const POKE_EVERY: u32 = 32;
/// A rank that waits for a second wakes some 300 times, which takes 5 to 8 ms of a core; with sleeps of 1 ms, 20 ms.
pub(super) const SLEEP: Duration = Duration::from_millis(4);
pub(super) const NAP_SHARE: u32 = 16;

impl WaitPolicy {
    /// The policy for `local_ranks` ranks that share `cores` cores ([`cores_of`](crate::cores_of)
    /// counts them); `spin` is the user's `FERRORAIL_SPIN`, `None` for automatic.
    pub fn for_host(local_ranks: u32, cores: u32, spin: Option<u32>) -> Self {
        let (spin, spin_idle, spin_crowded) = match (spin, local_ranks > cores) {
            (Some(spin), _) => (spin, 0, 0),
            (None, true) => (0, SPINS_IDLE, 0),
            (None, false) => (SPINS, 0, SPINS_CROWDED),
        };
        Self {
            spin,
            spin_idle,
            spin_crowded,
            yields: YIELDS,
            poke_every: POKE_EVERY,
            sleep: SLEEP,
            nap_share: NAP_SHARE,
            suspends: false,
        }
    }

    /// The policy of calls that run in fibers: those who drive them wait by this one.
    pub fn suspending(self) -> Self {
        Self {
            spin: 0,
            spin_crowded: 0,
            suspends: true,
            ..self
        }
    }
}
