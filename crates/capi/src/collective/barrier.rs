//! `MPI_Barrier` (MPI 4.1, section 6.3).

use super::{Args, Checked, Collective, Refusal, done};
use crate::session::Session;
use ferrorail_engine::Team;

/// Barrier.
pub struct Barrier;

impl Checked for () {}

impl Collective for Barrier {
    const NAME: &'static str = "barrier";
    type Call = ();

    #[inline]
    fn check(_: &Session, _: &Args) -> Result<(), Refusal> {
        Ok(())
    }

    #[inline]
    unsafe fn perform(_: &Session, team: &Team, _: &Args, (): &()) -> Result<(), Refusal> {
        done(team.barrier())
    }
}
