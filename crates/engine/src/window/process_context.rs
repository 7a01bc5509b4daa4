//! What a waiting window needs of its process.

use crate::team::map::Map;
use crate::{Context, EngineError, waiting};
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

    fn poke(&self) {
        self.context.host().poke();
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
        let host = self.processes[self.rank.index()].host;
        let dead = self
            .processes
            .iter()
            .position(|process| process.host == host && !ferrorail_shm::is_alive(*process));
        if let Some(dead) = dead {
            return Err(Box::new(EngineError::PeerDied {
                rank: Rank(dead as u32),
                pid: self.processes[dead].pid,
                collective: doing,
            }));
        }
        waiting::note(format!("its peers in {doing} on a window"));
        match self.context.settings().peer_timeout_s {
            Some(seconds) if waited >= Duration::from_secs(seconds) => {
                Err(Box::new(EngineError::PeerTimeout {
                    waiting_for: "its peers".into(),
                    seconds,
                    collective: doing,
                }))
            }
            _ => Ok(()),
        }
    }
}
