//! What the program has for a persistent collective: a persistent request of the host, to receive an empty message of this
//! process to itself, which is sent each time that the collective is over. So the host knows when it is inactive, active and
//! complete, and all of its calls on requests take it.

use super::kept_types::KeptTypes;
use crate::session::Session;
use ferrorail_base::sync::{AtomicBool, Mutex, Ordering};
use ferrorail_mpi_abi::{Comm, MpiError, Request};
use libc::c_int;
use std::collections::BTreeSet;

/// The request, and what is given back with it.
pub struct PersistentRequest {
    /// Its handle.
    pub request: Request,
    number: usize,
    message: (Comm, c_int),
    types: KeptTypes,
    /// What the arguments name.
    _arrays: Vec<Vec<i64>>,
    is_freed: AtomicBool,
}

/// Messages of a communicator are told apart by tags, of which there are so many everywhere (MPI 4.1, section 9.1.2), less the
/// one that [`crate::progress::Progress`] has.
const TAGS: usize = 32767;

/// Numbers of messages, and the communicators behind the session's own that they need.
struct Numbers {
    next: usize,
    free: BTreeSet<usize>,
    comms: Vec<Comm>,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers::NONE);

impl Numbers {
    const NONE: Self = Self {
        next: 0,
        free: BTreeSet::new(),
        comms: Vec::new(),
    };

    /// A number that no request has, and its message.
    fn take(&mut self, session: &Session) -> Result<(usize, (Comm, c_int)), MpiError> {
        let number = self.free.pop_first().unwrap_or(self.next);
        let (behind, tag) = place(number);
        while self.comms.len() < behind {
            let comm = session.host().private_comm(session.self_comm)?;
            self.comms.push(comm);
        }
        self.next = self.next.max(number + 1);
        let comm = match behind {
            0 => session.self_comm,
            _ => self.comms[behind - 1],
        };
        Ok((number, (comm, tag)))
    }
}

/// How many communicators behind the session's own message `number` has its, and its tag.
fn place(number: usize) -> (usize, c_int) {
    (number / TAGS, 1 + (number % TAGS) as c_int)
}

impl PersistentRequest {
    /// Of a collective that looks at these types and arrays until the request is freed and nothing is under way.
    ///
    /// # Errors
    /// The host's.
    pub fn new(
        session: &Session,
        types: KeptTypes,
        arrays: Vec<Vec<i64>>,
    ) -> Result<Self, MpiError> {
        let made = NUMBERS.lock().take(session);
        let made = made.and_then(|(number, message @ (comm, tag))| {
            match session.host().persistent_request(comm, tag) {
                Ok(request) => Ok((number, message, request)),
                Err(error) => {
                    NUMBERS.lock().free.insert(number);
                    Err(error)
                }
            }
        });
        match made {
            Ok((number, message, request)) => Ok(Self {
                request,
                number,
                message,
                types,
                _arrays: arrays,
                is_freed: AtomicBool::new(false),
            }),
            Err(error) => {
                types.free(session);
                Err(error)
            }
        }
    }

    /// The collective, which was started, is over.
    ///
    /// # Errors
    /// The host's.
    pub fn complete(&self, session: &Session) -> Result<(), MpiError> {
        let (comm, tag) = self.message;
        session.host().complete_started(comm, tag)?;
        if self.is_freed.load(Ordering::Acquire) {
            self.give_back(session);
        }
        Ok(())
    }

    /// Frees the request, which the program has not seen.
    pub fn withdraw(self, session: &Session) {
        if let Err(error) = session.host().free_request(self.request) {
            tracing::debug!("a persistent request: {error}");
        }
        self.give_back(session);
    }

    /// The program has freed the request, whose collective may be under way.
    pub fn freed(&self, session: &Session, is_under_way: bool) {
        self.is_freed.store(true, Ordering::Release);
        if !is_under_way {
            self.give_back(session);
        }
    }

    /// Gives back what it has of its own. By a thread of the program, once.
    fn give_back(&self, session: &Session) {
        self.types.free(session);
        NUMBERS.lock().free.insert(self.number);
    }
}

/// Frees what all had, at the end.
pub fn end(session: &Session) {
    let numbers = std::mem::replace(&mut *NUMBERS.lock(), Numbers::NONE);
    for comm in numbers.comms {
        if let Err(error) = session.host().free_comm(comm) {
            tracing::debug!("at finalize: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_tags_of_their_own_that_every_host_has() {
        let places: BTreeSet<_> = (0..3 * TAGS).map(place).collect();
        assert_eq!(places.len(), 3 * TAGS);
        assert!(places.iter().all(|(_, tag)| (1..=32767).contains(tag)));
        assert_eq!((place(0), place(TAGS)), ((0, 1), (1, 1)));
    }
}
