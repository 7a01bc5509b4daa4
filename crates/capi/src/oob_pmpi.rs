//! Out-of-band exchange through the host MPI, on a communicator that nobody else uses.

use ferrorail_base::Rank;
use ferrorail_bootstrap::{Oob, OobError};
use ferrorail_mpi_abi::{Comm, Host, MpiError, RequestList};
use libc::c_int;
use std::mem::ManuallyDrop;

/// Tags of the private communicator: lengths, then contents.
const TAG_LENGTH: c_int = 1;
const TAG_CONTENT: c_int = 2;

/// What travels in the first collective of a gather: a length and the start of a blob.
const HEAD_BYTES: usize = 1024;

/// The ranks of a communicator of the host.
pub struct OobPmpi {
    host: &'static Host,
    comm: Comm,
    rank: Rank,
    size: u32,
    host_keys: Option<Vec<u64>>,
}

impl OobPmpi {
    /// Makes a private communicator of the ranks of `comm`, which gets none of its attributes and
    /// returns errors. Collective over `comm`.
    ///
    /// # Errors
    /// The host's.
    pub fn create(host: &'static Host, comm: Comm) -> Result<Self, MpiError> {
        let (rank, size) = (Rank(host.comm_rank(comm)?), host.comm_size(comm)?);
        let comm = host.private_comm(comm)?;
        Ok(Self {
            host,
            comm,
            rank,
            size,
            host_keys: None,
        })
    }

    /// Equal keys for ranks that the host says share memory: the lowest rank among them.
    fn ask_host_keys(&self) -> Result<Vec<u64>, MpiError> {
        let shared = self.host.shared_memory_comm(self.comm)?;
        let lowest = self.lowest_rank(shared);
        self.host.free_comm(shared)?;
        let mut all = vec![0; 8 * self.size as usize];
        self.host
            .allgather_bytes(&lowest?.to_le_bytes(), &mut all, self.comm)?;
        Ok(words(&all))
    }

    fn lowest_rank(&self, shared: Comm) -> Result<u64, MpiError> {
        Ok(self.host.allreduce_min(self.rank.0 as c_int, shared)? as u64)
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
        let counts: Vec<usize> = heads
            .chunks_exact(HEAD_BYTES)
            .map(|head| words(&head[..8])[0] as usize)
            .collect();
        let mut blobs = Vec::with_capacity(counts.len());
        if counts.iter().all(|&bytes| bytes <= HEAD_BYTES - 8) {
            for (head, bytes) in heads.chunks_exact(HEAD_BYTES).zip(counts) {
                blobs.push(head[8..8 + bytes].to_vec());
            }
            return Ok(blobs);
        }
        let all = self.host.allgatherv_bytes(mine, &counts, self.comm)?;
        let mut rest = all.as_slice();
        for bytes in counts {
            let (blob, others) = rest.split_at(bytes);
            blobs.push(blob.to_vec());
            rest = others;
        }
        Ok(blobs)
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
        let Some(lengths) = self.transfer(peers, lengths, heads, TAG_LENGTH, keep_on)? else {
            return Ok(None);
        };
        let blobs = lengths.iter().map(|head| vec![0; words(head)[0] as usize]);
        let (incoming, outgoing) = (blobs.collect(), outgoing.to_vec());
        self.transfer(peers, outgoing, incoming, TAG_CONTENT, keep_on)
    }

    /// Sends `outgoing` and returns `incoming` filled; `None` if `keep_on` said no. What is left under way
    /// is never freed.
    fn transfer(
        &self,
        peers: &[Rank],
        outgoing: Vec<Vec<u8>>,
        incoming: Vec<Vec<u8>>,
        tag: c_int,
        keep_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<Vec<u8>>>, MpiError> {
        let outgoing = ManuallyDrop::new(outgoing);
        let mut incoming = ManuallyDrop::new(incoming);
        let mut requests = RequestList::with_capacity(self.host.kind(), 2 * peers.len());
        for (peer, blob) in peers.iter().zip(incoming.iter_mut()) {
            // SAFETY: the blobs are not touched before all requests are complete, and stay where they
            // are if that never happens.
            unsafe {
                self.host
                    .start_receive(blob, peer.0, tag, self.comm, &mut requests)?;
            }
        }
        for (peer, blob) in peers.iter().zip(outgoing.iter()) {
            // SAFETY: as above.
            unsafe {
                self.host
                    .start_send(blob, peer.0, tag, self.comm, &mut requests)?;
            }
        }
        while !self.host.test_all(&mut requests)? {
            if !keep_on() {
                return Ok(None);
            }
        }
        drop(ManuallyDrop::into_inner(outgoing));
        Ok(Some(ManuallyDrop::into_inner(incoming)))
    }
}

impl Oob for OobPmpi {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn host_keys(&mut self) -> Result<Vec<u64>, OobError> {
        if self.host_keys.is_none() {
            self.host_keys = Some(self.ask_host_keys().map_err(failed("host_keys"))?);
        }
        Ok(self.host_keys.clone().unwrap_or_default())
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
        let swapped = self.swap(peers, outgoing, keep_on);
        swapped
            .map_err(failed("exchange"))?
            .ok_or_else(|| OobError {
                act: "exchange",
                reason: "nobody answered".into(),
                mpi_class: None,
            })
    }

    fn barrier(&mut self) -> Result<(), OobError> {
        self.host.barrier(self.comm).map_err(failed("barrier"))
    }
}

impl Drop for OobPmpi {
    fn drop(&mut self) {
        if let Err(error) = self.host.free_comm(self.comm) {
            tracing::debug!("private communicator: {error}");
        }
    }
}

fn failed(act: &'static str) -> impl FnOnce(MpiError) -> OobError {
    move |error| OobError {
        act,
        reason: error.to_string(),
        mpi_class: Some(error.class),
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
    bytes.chunks_exact(8).map(word).collect()
}
