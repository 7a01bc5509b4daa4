//! The complaint about wrong data, which all ranks make together.

use anyhow::Result;
use ferrorail_mpi_abi::{Comm, Host};

/// A rank received wrong data. Every rank knows, so that the job can end in order.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct WrongData {
    /// Whether this is the rank that tells.
    pub mine: bool,
    reason: String,
}

impl WrongData {
    /// Unless all ranks of `comm`, of which this is `rank`, found right data. `describe` says what is
    /// wrong where: with a rank.
    pub fn check(
        host: &Host,
        comm: Comm,
        rank: u32,
        is_wrong: bool,
        describe: impl FnOnce(i32) -> String,
    ) -> Result<()> {
        let mine = if is_wrong { rank as i32 } else { i32::MAX };
        let first = host.allreduce_min(mine, comm)?;
        if first == i32::MAX {
            return Ok(());
        }
        let (mine, reason) = (first == mine, describe(first));
        Err(Self { mine, reason }.into())
    }

    /// As a rank knows that does not take part.
    pub fn elsewhere() -> Self {
        Self {
            mine: false,
            reason: "wrong data at another rank".to_owned(),
        }
    }
}
