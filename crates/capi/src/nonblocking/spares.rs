//! Queues of persistent collectives whose requests were freed, for the next ones of their communicator: a new one takes a team.
//!
//! Ranks free requests when they like. So all say, in the call that makes the next one, which queue they would take, and take it
//! if that is the same. Else they give up what they would have taken: what some rank lacks is not to be in the way for ever.

use super::queue::Queue;
use crate::ballot::{Ballot, ballot, is_unanimous};
use ferrorail_base::sync::Mutex;
use libc::c_int;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Those of a communicator.
#[derive(Default)]
pub struct Spares(Mutex<State>);

#[derive(Default)]
struct State {
    /// How many queues were made, which numbers them: ranks make them together.
    made: c_int,
    free: BTreeMap<c_int, Arc<Queue>>,
    /// The communicator is gone.
    is_closed: bool,
}

/// A queue of a persistent collective.
pub struct Numbered {
    number: c_int,
    /// The queue.
    pub queue: Arc<Queue>,
}

/// What a rank would take.
pub struct Candidate {
    mine: Option<Numbered>,
    /// What it says of it: its number, and where its team is.
    pub ballot: Ballot,
}

impl Candidate {
    fn of(mine: Option<Numbered>) -> Self {
        let words = match &mine {
            Some(Numbered { number, queue }) => [*number, position(queue).unwrap_or(0)],
            None => [0, 0],
        };
        Self {
            mine,
            ballot: ballot(words),
        }
    }

    /// The queue if all ranks say the same, given the `least` of their ballots; else what this rank has no use for, as the
    /// others lack it or are elsewhere in it.
    pub fn decide(self, least: Ballot) -> Result<Numbered, Option<Arc<Queue>>> {
        match self.mine {
            Some(mine) if is_unanimous(least) => Ok(mine),
            mine => Err(mine.map(|mine| mine.queue)),
        }
    }
}

/// Where the team of a queue is; `None` if it may not go on.
fn position(queue: &Queue) -> Option<c_int> {
    let position = queue.team().position()?;
    Some((position >> 33) as c_int)
}

impl Spares {
    /// Takes out the first queue, of which all ranks [`decide`](Candidate::decide).
    pub fn candidate(&self) -> Candidate {
        let first = self.0.lock().free.pop_first();
        Candidate::of(first.map(|(number, queue)| Numbered { number, queue }))
    }

    /// Numbers a queue that all ranks have made.
    pub fn number(&self, queue: Arc<Queue>) -> Numbered {
        let mut state = self.0.lock();
        state.made += 1;
        Numbered {
            number: state.made,
            queue,
        }
    }

    /// Keeps a queue for the next collective; or returns it if there will be none, or it may not go on.
    pub fn keep(&self, Numbered { number, queue }: &Numbered) -> Option<Arc<Queue>> {
        let may_go_on = position(queue).is_some();
        let mut state = self.0.lock();
        if state.is_closed || !may_go_on {
            return Some(queue.clone());
        }
        state.free.insert(*number, queue.clone());
        None
    }

    /// The communicator is gone: what it kept.
    pub fn close(&self) -> impl Iterator<Item = Arc<Queue>> + use<> {
        let mut state = self.0.lock();
        state.is_closed = true;
        std::mem::take(&mut state.free).into_values()
    }
}
