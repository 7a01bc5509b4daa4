//! The greatest of what all ranks of a team say, by messages that nobody waits for: each tells rank 0, which
//! tells all once it knows.

use crate::private_comm::{Kind, Private};
use ferrorail_bootstrap::greatest;
use ferrorail_mpi_abi::{MpiError, RequestList};
use std::mem::ManuallyDrop;
use zerocopy::IntoBytes;

/// A message: the sender's rank, the phase, the value.
type Message = [u64; 3];

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
    message: ManuallyDrop<Box<Message>>,
}

impl Maximum {
    /// As [`Oob::maximum`](ferrorail_bootstrap::Oob::maximum).
    ///
    /// # Errors
    /// The host's.
    pub fn say(&mut self, team: &Private, phase: u8, mine: u64) -> Result<Option<u64>, MpiError> {
        while let Some(message) = receive(team)? {
            self.hear(team, message);
        }
        let index = usize::from(phase);
        if self.phases[index].mine != Some(mine) {
            self.phases[index].mine = Some(mine);
            let message = [u64::from(team.rank()), u64::from(phase), mine];
            match team.rank() {
                0 => self.hear(team, message),
                _ => self.send(team, 0..1, message)?,
            }
        }
        if team.rank() == 0 {
            self.decide(team)?;
        }
        self.settle(team)?;
        Ok(self.phases[index].known)
    }

    fn hear(&mut self, team: &Private, [rank, phase, value]: Message) {
        let phase = &mut self.phases[phase as usize];
        if team.rank() == 0 {
            phase.said.resize(team.size() as usize, None);
            phase.said[rank as usize] = Some(value);
        } else {
            phase.known = Some(value);
        }
    }

    /// Tells all what rank 0 has found out. That stays, whatever is said later.
    fn decide(&mut self, team: &Private) -> Result<(), MpiError> {
        for index in 0..self.phases.len() {
            let phase = &mut self.phases[index];
            if phase.said.is_empty() || phase.known.is_some() {
                continue;
            }
            phase.known = greatest(&phase.said);
            if let Some(value) = phase.known {
                self.send(team, 1..team.size(), [0, index as u64, value])?;
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        team: &Private,
        to: std::ops::Range<u32>,
        message: Message,
    ) -> Result<(), MpiError> {
        let mut sending = Sending {
            requests: team.requests(to.len()),
            message: ManuallyDrop::new(Box::new(message)),
        };
        for peer in to {
            let (message, requests) = (sending.message.as_bytes(), &mut sending.requests);
            // SAFETY: the message stays in its box until all requests are complete, or for ever.
            unsafe { team.start_send(message, peer, Kind::Maximum, requests)? };
        }
        self.sending.push(sending);
        Ok(())
    }

    /// Frees messages that have been sent.
    fn settle(&mut self, team: &Private) -> Result<(), MpiError> {
        let mut under_way = Vec::new();
        for mut sending in self.sending.drain(..) {
            match team.host().test_all(&mut sending.requests)? {
                true => drop(ManuallyDrop::into_inner(sending.message)),
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
    pub fn leave(&mut self, team: &Private) -> Result<(), MpiError> {
        while receive(team)?.is_some() {}
        self.settle(team)
    }
}

/// The next message, if one is there.
fn receive(team: &Private) -> Result<Option<Message>, MpiError> {
    let mut message: Message = [0; _];
    let there = team.receive_any(Kind::Maximum, message.as_mut_bytes())?;
    Ok(there.then_some(message))
}
