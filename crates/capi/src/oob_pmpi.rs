//! Out-of-band exchange through the host MPI: collectives on the program's communicator, in calls that
//! are collective over it, and messages on a private one. What a call in a fiber may have to say, after an error, waits for a
//! thread that may call the host.

use crate::maximum::Maximum;
use crate::private_comm::{Kind, Private};
use ferrorail_base::{Rank, fiber};
use ferrorail_bootstrap::{Oob, OobError};
use ferrorail_mpi_abi::{Comm, Host, MpiError, RequestList};
use std::mem::ManuallyDrop;

/// What travels in the first collective of a gather: a length and the start of a blob.
const HEAD_BYTES: usize = 1024;

/// The ranks of a communicator of the host.
pub struct OobPmpi {
    host: &'static Host,
    /// The program's.
    comm: Comm,
    rank: Rank,
    size: u32,
    /// For messages, once prepared.
    private: Option<Private>,
    leaving: Leaving,
    maximum: Maximum,
}

/// How far a rank has come with leaving: in each round it tells the rank `distance` on, once it has heard
/// as much from the ranks before, so that after the last round it has heard of all.
struct Leaving {
    distance: u32,
    pending: Option<Pending>,
}

/// A round under way.
struct Pending {
    requests: RequestList,
    /// What is sent and received; stays where it is until both are complete.
    bytes: ManuallyDrop<Box<[[u8; 1]; 2]>>,
}

impl OobPmpi {
    /// Takes the ranks of `comm`, which is the program's. Not collective.
    ///
    /// # Errors
    /// The host's.
    pub fn new(host: &'static Host, comm: Comm) -> Result<Self, MpiError> {
        Ok(Self {
            host,
            comm,
            rank: Rank(host.comm_rank(comm)?),
            size: host.comm_size(comm)?,
            private: None,
            leaving: Leaving {
                distance: 1,
                pending: None,
            },
            maximum: Maximum::default(),
        })
    }

    /// One collective for short blobs: each rank's length and its first bytes; a second one only
    /// if some blob is longer.
    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, MpiError> {
        let mut head = [0; HEAD_BYTES];
        let inline = mine.len().min(HEAD_BYTES - 8);
        head[..8].copy_from_slice(&(mine.len() as u64).to_le_bytes());
        head[8..8 + inline].copy_from_slice(&mine[..inline]);
        let mut heads = vec![0; HEAD_BYTES * self.size as usize];
        self.host.allgather_bytes(&head, &mut heads, self.comm)?;
        let counts: Vec<usize> = heads.chunks_exact(HEAD_BYTES).map(length).collect();
        if counts.iter().all(|&bytes| bytes <= HEAD_BYTES - 8) {
            let blobs = heads.chunks_exact(HEAD_BYTES).zip(counts);
            return Ok(blobs
                .map(|(head, bytes)| head[8..8 + bytes].to_vec())
                .collect());
        }
        let all = self.host.allgatherv_bytes(mine, &counts, self.comm)?;
        let mut rest = all.as_slice();
        let blob = |bytes| {
            let (blob, others) = rest.split_at(bytes);
            rest = others;
            blob.to_vec()
        };
        Ok(counts.into_iter().map(blob).collect())
    }

    /// `None` if `keep_on` said no.
    fn swap(
        &self,
        peers: &[Rank],
        outgoing: &[Vec<u8>],
        keep_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<Vec<u8>>>, MpiError> {
        let lengths: Vec<_> = outgoing
            .iter()
            .map(|blob| (blob.len() as u64).to_le_bytes().to_vec())
            .collect();
        let heads = vec![vec![0; 8]; peers.len()];
        let Some(lengths) = self.transfer(peers, lengths, heads, Kind::Length, keep_on)? else {
            return Ok(None);
        };
        let blobs = lengths.iter().map(|head| vec![0; length(head)]);
        let (incoming, outgoing) = (blobs.collect(), outgoing.to_vec());
        self.transfer(peers, outgoing, incoming, Kind::Content, keep_on)
    }

    /// Sends `outgoing` and returns `incoming` filled; `None` if `keep_on` said no. What is sent then is never freed, nor what
    /// a message is just coming into.
    fn transfer(
        &self,
        peers: &[Rank],
        outgoing: Vec<Vec<u8>>,
        incoming: Vec<Vec<u8>>,
        kind: Kind,
        keep_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<Vec<u8>>>, MpiError> {
        let private = self.private.as_ref().expect("exchanges were prepared");
        let outgoing = ManuallyDrop::new(outgoing);
        let mut incoming = ManuallyDrop::new(incoming);
        let list = || private.requests(peers.len());
        let (mut receives, mut sends) = (list(), list());
        // SAFETY: the blobs are not touched before all requests are complete, and stay where they
        // are if that never happens.
        unsafe {
            for (peer, blob) in peers.iter().zip(incoming.iter_mut()) {
                private.start_receive(blob, peer.0, kind, &mut receives)?;
            }
            for (peer, blob) in peers.iter().zip(outgoing.iter()) {
                private.start_send(blob, peer.0, kind, &mut sends)?;
            }
        }
        loop {
            let (sent, received) = (
                self.host.test_all(&mut sends)?,
                self.host.test_all(&mut receives)?,
            );
            if sent && received {
                break;
            }
            // Whoever has given up answers nobody, and some rank of the team has to wait for that one.
            if !keep_on() || private.has_message(Kind::Gone) {
                if !sent {
                    self.host.forget_sends(&mut sends);
                }
                if received || self.host.cancel_receives(&mut receives) {
                    drop(ManuallyDrop::into_inner(incoming));
                }
                return Ok(None);
            }
        }
        drop(ManuallyDrop::into_inner(outgoing));
        Ok(Some(ManuallyDrop::into_inner(incoming)))
    }

    fn leave_further(&mut self) -> Result<bool, MpiError> {
        let Some(private) = &self.private else {
            return Ok(true);
        };
        while self.leaving.distance < self.size {
            let pending = match &mut self.leaving.pending {
                Some(pending) => pending,
                none => none.insert(Pending::start(
                    private,
                    (self.rank.0 + self.leaving.distance) % self.size,
                    (self.rank.0 + self.size - self.leaving.distance) % self.size,
                )?),
            };
            if !self.host.test_all(&mut pending.requests)? {
                return Ok(false);
            }
            if let Some(pending) = self.leaving.pending.take() {
                drop(ManuallyDrop::into_inner(pending.bytes));
            }
            self.leaving.distance *= 2;
        }
        self.drop_unreceived(private);
        self.maximum.leave(private)?;
        Ok(true)
    }

    /// Receives what ranks said that gave up, and exchanges that were broken off, which has come by the time that all
    /// have left: some hosts complain of messages that nobody received.
    fn drop_unreceived(&self, private: &Private) {
        // What connects two ranks takes a few hundred bytes. Of a longer message the rest is lost, which ends a job with MPICH.
        let mut bytes = vec![0; 16 << 10];
        for kind in [Kind::Length, Kind::Content, Kind::Answer, Kind::Gone] {
            let mut received = || private.receive_any(kind, &mut bytes);
            let mut left = 4 * self.size;
            while left > 0 && !matches!(received(), Ok(false)) {
                left -= 1;
            }
        }
    }
}

impl Pending {
    fn start(private: &Private, to: u32, from: u32) -> Result<Self, MpiError> {
        let mut pending = Self {
            requests: private.requests(2),
            bytes: ManuallyDrop::new(Box::default()),
        };
        let ([sent, received], requests) = (&mut **pending.bytes, &mut pending.requests);
        // SAFETY: the bytes stay in their box until both requests are complete, or for ever.
        unsafe {
            private.start_receive(received, from, Kind::Leave, requests)?;
            private.start_send(sent, to, Kind::Leave, requests)?;
        }
        Ok(pending)
    }
}

impl Oob for OobPmpi {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn prepare_exchange(&mut self) -> Result<(), OobError> {
        let private = Private::join(self.host, self.comm).map_err(|error| OobError {
            act: "preparation",
            reason: error.to_string(),
            mpi_class: None,
        })?;
        self.private = Some(private);
        Ok(())
    }

    fn give_up(&mut self, peers: &[Rank]) {
        static GONE: [u8; 1] = [1];
        fiber::leave_to_program();
        let Some(private) = &self.private else {
            return;
        };
        // Most are never received: the team's tags rest before another team gets them.
        let mut requests = private.requests(peers.len());
        for peer in peers {
            // SAFETY: the byte lives for ever.
            let sent = unsafe { private.start_send(&GONE, peer.0, Kind::Gone, &mut requests) };
            if let Err(error) = sent {
                tracing::debug!("giving up: {error}");
            }
        }
        let _ = self.host.test_all(&mut requests);
    }

    fn maximum(&mut self, phase: u8, mine: u64) -> Result<Option<u64>, OobError> {
        fiber::leave_to_program();
        let Some(private) = &self.private else {
            return Ok(Some(u64::MAX));
        };
        let said = self.maximum.say(private, phase, mine);
        said.map_err(failed("maximum"))
    }

    fn leave(&mut self) -> Result<bool, OobError> {
        self.leave_further().map_err(failed("leave"))
    }

    fn allgather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, OobError> {
        self.gather(mine).map_err(failed("allgather"))
    }

    fn exchange(&mut self, peers: &[Rank], outgoing: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, OobError> {
        self.exchange_while(peers, outgoing, &mut || {
            std::thread::yield_now();
            true
        })
    }

    fn exchange_while(
        &mut self,
        peers: &[Rank],
        outgoing: &[Vec<u8>],
        keep_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<u8>>, OobError> {
        assert_eq!(peers.len(), outgoing.len(), "one blob for each peer");
        if peers.is_empty() {
            return Ok(Vec::new());
        }
        answered(self.swap(peers, outgoing, keep_on))
    }

    fn exchange_answers(
        &mut self,
        peers: &[Rank],
        answer: u8,
        keep_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u8>, OobError> {
        let bytes = |byte| vec![vec![byte]; peers.len()];
        let (mine, theirs) = (bytes(answer), bytes(0));
        let swapped = self.transfer(peers, mine, theirs, Kind::Answer, keep_on);
        Ok(answered(swapped)?.into_iter().flatten().collect())
    }

    fn barrier(&mut self) -> Result<(), OobError> {
        self.host.barrier(self.comm).map_err(failed("barrier"))
    }
}

/// What came of an exchange, unless it was broken off.
fn answered<T>(swapped: Result<Option<T>, MpiError>) -> Result<T, OobError> {
    swapped
        .map_err(failed("exchange"))?
        .ok_or_else(|| OobError {
            act: "exchange",
            reason: "a rank left the communicator after an error, or was waited for too long"
                .into(),
            mpi_class: None,
        })
}

fn failed(act: &'static str) -> impl FnOnce(MpiError) -> OobError {
    move |error| OobError {
        act,
        reason: error.to_string(),
        mpi_class: Some(error.class),
    }
}

/// The number that `head` begins with.
fn length(head: &[u8]) -> usize {
    let bytes = head.first_chunk().expect("eight bytes");
    u64::from_le_bytes(*bytes) as usize
}
