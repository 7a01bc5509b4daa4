//! Barrier: nobody leaves before everybody has entered (MPI-4.1, 6.3); and the team's own
//! synchronisation, which is the same schedule.

use super::{Call, connect_peers};
use crate::plan::PlanKey;
use crate::run::{Run, Side, UserBuffers};
use crate::team::State;
use crate::team::map::Map;
use crate::{EngineError, Team};
use ferrorail_base::Rank;
use ferrorail_coll::Collective;

impl Team {
    /// Waits until every rank has called it.
    ///
    /// # Errors
    /// After an error the team is unusable: peers may be anywhere.
    pub fn barrier(&self) -> Result<(), EngineError> {
        self.call(&Call {
            collective: Collective::Barrier,
            root: Rank(0),
            send: Side::NONE,
            recv: Side::NONE,
            bytes: 0,
            reducer: None,
        })
    }
}

/// Proves every channel free: after it, every rank has finished all operations before it.
pub(super) fn synchronise(map: &Map, state: &mut State) -> Result<(), EngineError> {
    let mut plan = state
        .plans
        .take(map, PlanKey::new(Collective::Barrier, Rank(0), 0));
    connect_peers(map, state, &mut plan)?;
    let turn = state
        .clock
        .next_sync()
        .marked(Collective::Barrier, Rank(0), 0);
    let outcome =
        Run::new(map, &plan.route, UserBuffers::NONE, turn).complete(state, "synchronisation");
    state.plans.keep(plan);
    outcome?;
    state.clock.synchronised();
    Ok(())
}
