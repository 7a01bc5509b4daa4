//! The greatest of what all ranks of a team say, by messages that nobody waits for: each tells rank 0, which
//! tells all once it knows.

use crate::private_comm::Private;
use ferrorail_bootstrap::greatest;
use ferrorail_mpi_abi::{Host, MpiError, RequestList};
use libc::c_int;
use std::mem::ManuallyDrop;

/// A message: the sender's rank, the phase, the value.
const WORDS: usize = 3;
type Message = [u8; WORDS * size_of::<u64>()];

/// What is said and known in one phase.
#[derive(Clone, Debug, Default)]
struct Phase {
    /// By this rank.
    mine: Option<u64>,
    /// By all, at rank 0.
    said: Vec<Option<u64>>,
    known: Option<u64>,
}

/// One rank's part.
#[derive(Default)]
pub struct Maximum {
    phases: [Phase; 2],
    sending: Vec<Sending>,
}

/// A message that is being sent; stays where it is until that is complete.
struct Sending {
    requests: RequestList,
    bytes: ManuallyDrop<Box<Message>>,
}

/// The ranks of a team, and the tag of these messages.
#[derive(Clone, Copy)]
pub struct Members<'a> {
    pub host: &'static Host,
    pub private: &'a Private,
    pub tag: c_int,
    pub rank: u32,
    pub size: u32,
}

impl Maximum {
    /// As [`Oob::maximum`](ferrorail_bootstrap::Oob::maximum).
    ///
    /// # Errors
    /// The host's.
    pub fn say(
        &mut self,
        team: Members<'_>,
        phase: u8,
        mine: u64,
    ) -> Result<Option<u64>, MpiError> {
        while let Some(message) = receive(team)? {
            self.hear(team, words(&message));
        }
        let index = usize::from(phase);
        if self.phases[index].mine != Some(mine) {
            self.phases[index].mine = Some(mine);
            let message = [u64::from(team.rank), u64::from(phase), mine];
            match team.rank {
                0 => self.hear(team, message),
                _ => self.send(team, 0..1, message)?,
            }
        }
        if team.rank == 0 {
            self.decide(team)?;
        }
        self.settle(team)?;
        Ok(self.phases[index].known)
    }

    fn hear(&mut self, team: Members<'_>, [rank, phase, value]: [u64; WORDS]) {
        let phase = &mut self.phases[phase as usize];
        if team.rank == 0 {
            phase.said.resize(team.size as usize, None);
            phase.said[rank as usize] = Some(value);
        } else {
            phase.known = Some(value);
        }
    }

    /// Tells all what rank 0 has found out. That stays, whatever is said later.
    fn decide(&mut self, team: Members<'_>) -> Result<(), MpiError> {
        for index in 0..self.phases.len() {
            let phase = &mut self.phases[index];
            if phase.said.is_empty() || phase.known.is_some() {
                continue;
            }
            phase.known = greatest(&phase.said);
            if let Some(value) = phase.known {
                self.send(team, 1..team.size, [0, index as u64, value])?;
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        team: Members<'_>,
        to: std::ops::Range<u32>,
        message: [u64; WORDS],
    ) -> Result<(), MpiError> {
        let mut bytes: Box<Message> = Box::new([0; _]);
        for (into, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(message) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        let mut sending = Sending {
            requests: RequestList::with_capacity(team.host.kind(), to.len()),
            bytes: ManuallyDrop::new(bytes),
        };
        for peer in to {
            let (peer, comm) = (team.private.rank(peer), team.private.comm());
            // SAFETY: the bytes stay in their box until all requests are complete, or for ever.
            unsafe {
                let requests = &mut sending.requests;
                team.host
                    .start_send(&**sending.bytes, peer, team.tag, comm, requests)?;
            }
        }
        self.sending.push(sending);
        Ok(())
    }

    /// Frees messages that have been sent.
    fn settle(&mut self, team: Members<'_>) -> Result<(), MpiError> {
        let mut under_way = Vec::new();
        for mut sending in self.sending.drain(..) {
            match team.host.test_all(&mut sending.requests)? {
                true => drop(ManuallyDrop::into_inner(sending.bytes)),
                false => under_way.push(sending),
            }
        }
        self.sending = under_way;
        Ok(())
    }

    /// Receives what has come and nobody wants any more, by the time that all have left.
    ///
    /// # Errors
    /// The host's.
    pub fn leave(&mut self, team: Members<'_>) -> Result<(), MpiError> {
        while receive(team)?.is_some() {}
        self.settle(team)
    }
}

/// The next message, if one is there.
fn receive(team: Members<'_>) -> Result<Option<Message>, MpiError> {
    let mut message = [0; _];
    let there = receive_any(team.host, team.private, team.tag, &mut message)?;
    Ok(there.then_some(message))
}

/// Receives a message of any rank with `tag` into `bytes`, if one is there.
///
/// # Errors
/// The host's.
pub fn receive_any(
    host: &Host,
    private: &Private,
    tag: c_int,
    bytes: &mut [u8],
) -> Result<bool, MpiError> {
    let comm = private.comm();
    if !host.has_message(comm, tag) {
        return Ok(false);
    }
    let any = host.constants().any_source.cast_unsigned();
    let mut requests = RequestList::with_capacity(host.kind(), 1);
    // SAFETY: the bytes live until the message, which is there, has been received.
    unsafe { host.start_receive(bytes, any, tag, comm, &mut requests)? };
    host.wait_all(&mut requests)?;
    Ok(true)
}

fn words(message: &Message) -> [u64; WORDS] {
    let word = |index| u64::from_le_bytes(std::array::from_fn(|byte| message[index * 8 + byte]));
    std::array::from_fn(word)
}
