//! Agreement: a step of set-up counts only if every rank managed it.

use crate::EngineError;
use ferrorail_base::Rank;
use ferrorail_base::sync::assert_unlocked;
use ferrorail_bootstrap::{Oob, OobError};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Everybody's value by rank, or the same error everywhere. Collective.
///
/// # Errors
/// [`EngineError::Refused`] names the lowest rank whose `mine` is `Err`.
pub(crate) fn agree<T: Serialize + DeserializeOwned>(
    oob: &mut dyn Oob,
    act: &'static str,
    mine: Result<T, String>,
) -> Result<Vec<T>, EngineError> {
    let answers = (0..).map(Rank).zip(gather(oob, act, &mine)?);
    answers
        .map(|(rank, answer)| answer.map_err(|reason| EngineError::Refused { act, rank, reason }))
        .collect()
}

/// Everybody's value by rank. Collective.
pub(crate) fn gather<T: Serialize + DeserializeOwned>(
    oob: &mut dyn Oob,
    act: &'static str,
    mine: &T,
) -> Result<Vec<T>, EngineError> {
    let unreadable = |error: serde_json::Error| OobError {
        act,
        reason: format!("a rank sent something unreadable: {error}"),
        mpi_class: None,
    };
    assert_unlocked();
    let wire = serde_json::to_vec(mine).map_err(unreadable)?;
    let answers = oob.allgather(&wire)?;
    let parsed: Result<Vec<T>, _> = answers
        .iter()
        .map(|answer| serde_json::from_slice(answer))
        .collect();
    Ok(parsed.map_err(unreadable)?)
}
