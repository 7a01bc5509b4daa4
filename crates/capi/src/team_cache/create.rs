//! Making the team of a communicator, together with all its ranks.

use super::entry::{Entry, Nonblocking};
use super::{end_use, sweep};
use crate::ballot::is_unanimous;
use crate::comm_settings;
use crate::nonblocking::comm_team::CommTeam;
use crate::nonblocking::queue::Queue;
use crate::oob_pmpi::OobPmpi;
use crate::parked::{self, Key, Parked, Purpose};
use crate::reason;
use crate::session::Session;
use crate::wish::{unwanted, wish};
use ferrorail_base::config::Settings;
use ferrorail_bootstrap::{InProcess, Oob};
use ferrorail_engine::waiting::InHost;
use ferrorail_engine::{EngineError, PREPARING, Team};
use ferrorail_mpi_abi::{Comm, MpiError};
use std::borrow::Cow;
use std::iter;
use std::sync::Arc;

/// Decides, together with all ranks of `comm`, what becomes of its collectives. No lock is held, so
/// that threads may do this on several communicators at once.
pub fn create(session: &Session, comm: Comm, purpose: Purpose) -> Result<Entry, MpiError> {
    let host = session.host();
    if host.is_inter_comm(comm)? {
        return Ok(Entry::Forward(reason::INTER_COMM));
    }
    let settings = comm_settings::settings(session, comm)?;
    if host.comm_size(comm)? == 1 {
        let wish = wish(session, &settings, purpose);
        return Ok(match unwanted(session, wish, comm) {
            Some(reason) => Entry::Forward(reason),
            None => team(
                session,
                &settings,
                comm,
                Box::new(alone()),
                Wanted { key: None, purpose },
            ),
        });
    }
    let ranks = match session.world.members(host, comm)? {
        Ok(ranks) => ranks,
        Err(reason) => return Ok(Entry::Forward(reason)),
    };
    let key = Key {
        ranks,
        settings: match &settings {
            Cow::Borrowed(_) => None,
            Cow::Owned(own) => Some(Box::new(own.clone())),
        },
        purpose,
    };
    let parked = parked::take(&key);
    let [low, high, not_low, not_high] = parked::ballot_of(parked.as_ref());
    let wish_here = wish(session, &settings, purpose);
    let mine = [wish_here, low, high, not_low, not_high];
    let [wish, ballots @ ..] = host.allreduce_min_each(mine, comm)?;
    if let Some(reason) = unwanted(session, wish, comm) {
        return Ok(Entry::Forward(reason));
    }
    sweep();
    let oob = Box::new(OobPmpi::new(host, comm)?);
    if let Some(Parked { team, .. }) = parked.filter(|_| is_unanimous(ballots)) {
        team.adopt(oob);
        return Ok(Entry::of(team, Some(key)));
    }
    let wanted = Wanted {
        key: Some(key),
        purpose,
    };
    Ok(team(session, &settings, comm, oob, wanted))
}

/// Makes what `comm` needs for non-blocking collectives, in the first blocking one after one of them. That all ranks come
/// to at the same place, as collectives of a communicator have one order.
pub fn prepare_nonblocking(session: &Session, comm: Comm, entry: &Entry) {
    let Entry::Team(_, _, nonblocking, _) = entry else {
        return;
    };
    if !nonblocking.is_due() {
        return;
    }
    nonblocking.made(create_queue(session, comm, nonblocking));
}

/// Makes a queue of non-blocking collectives on `comm`, together with all its ranks; or why the host is to have them.
pub fn create_queue(
    session: &Session,
    comm: Comm,
    nonblocking: &Nonblocking,
) -> Result<Arc<Queue>, &'static str> {
    let _in_host = InHost::enter("preparing for non-blocking collectives");
    match create(session, comm, Purpose::Nonblocking) {
        Ok(Entry::Team(team, key, ..)) => {
            let comm_team = CommTeam::new(team, key, nonblocking.orphaned());
            Ok(Arc::new(Queue::new(comm_team)))
        }
        Ok(Entry::Forward(reason)) => Err(reason),
        Err(error) => {
            tracing::warn!("no team for non-blocking collectives: {error}");
            Err(reason::NO_TEAM)
        }
    }
}

/// The ranks of a communicator of one, which needs no call of the host.
fn alone() -> InProcess {
    InProcess::world(1).swap_remove(0)
}

/// What a team is made for.
struct Wanted {
    key: Option<Key>,
    purpose: Purpose,
}

fn team(
    session: &Session,
    settings: &Settings,
    comm: Comm,
    oob: Box<dyn Oob>,
    Wanted { key, purpose }: Wanted,
) -> Entry {
    let spares = key.as_ref().map_or(0, parked::spares_wanted);
    match Team::create_with_spares(&session.context, settings, oob, spares) {
        Ok((mut team, mut spares)) => {
            if purpose == Purpose::Nonblocking {
                let mut all = iter::once(&mut *team).chain(&mut spares);
                if let Err(error) = all.try_for_each(Team::run_in_fibers) {
                    // Others may still be in it.
                    end_use(&Arc::from(team), None);
                    return Entry::Forward(refused(session, comm, &error));
                }
            }
            if let Some(key) = &key {
                parked::keep_spares(spares, key);
            }
            Entry::of(Arc::from(team), key)
        }
        Err(error) => Entry::Forward(refused(session, comm, &error)),
    }
}

fn refused(session: &Session, comm: Comm, error: &EngineError) -> &'static str {
    match error {
        EngineError::SwitchedOff { .. } => return reason::SWITCHED_OFF,
        EngineError::Unconnected => return reason::NO_CONNECTION,
        _ => {}
    }
    if let EngineError::Refused { act: PREPARING, .. } = error {
        tracing::debug!("{error}");
        return reason::NO_COMMUNICATOR;
    }
    if session.host().comm_rank(comm) == Ok(0) {
        // Communicators that are made one after another mostly fail alike.
        let act = match error {
            EngineError::Refused { act, .. } => act,
            _ => "making a team",
        };
        session.context.warn_once_about(act, || {
            format!("collectives of a communicator are left to the host MPI: {error}")
        });
    }
    reason::NO_TEAM
}
