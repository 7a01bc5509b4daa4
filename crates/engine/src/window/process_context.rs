//! What a waiting window needs of its process.

use crate::team::map::Map;
use crate::{Context, waiting};
use ferrorail_base::{ProcessId, Rank};
use ferrorail_fabric::FabricError;
use ferrorail_onesided::window::ProcessContext;
use ferrorail_shm::WaitPolicy;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// The processes of a window and the host MPI.
pub(super) struct Processes {
    context: Arc<Context>,
    rank: Rank,
    processes: Vec<ProcessId>,
    wait: WaitPolicy,
}

impl Processes {
    /// Those of a team.
    pub fn of(map: &Map) -> Self {
        Self {
            context: map.context.clone(),
            rank: map.rank,
            processes: map.processes.clone(),
            wait: map.wait,
        }
    }
}

impl ProcessContext for Processes {
    fn wait_policy(&self) -> &WaitPolicy {
        &self.wait
    }

    fn poke(&self) -> bool {
        self.context.poke()
    }

    fn registered(&self) {
        self.context.stats().registered.add(1);
    }

    fn refused(&self, error: &FabricError, bytes: u64) {
        self.context.refused(error);
        self.context.stats().staged(bytes);
    }

    fn check(
        &self,
        doing: &'static str,
        waited: Duration,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let Some(died) = waiting::dead_peer(&self.processes, self.rank, doing) {
            return Err(died.into());
        }
        waiting::note(format!("its peers in {doing} on a window"));
        let settings = self.context.settings();
        Ok(waiting::check_timeout(
            settings,
            waited,
            "its peers".into(),
            doing,
        )?)
    }
}
