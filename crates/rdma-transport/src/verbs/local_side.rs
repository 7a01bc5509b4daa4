//! One generation of a lane on this side: a queue pair and where its packets begin.

use super::error::set_up;
use super::handles::MemoryRegion;
use super::queue_pair::{Local, QueuePair};
use super::rail::Rail;
use super::request::LocalPart;
use super::wire::RailAddress;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_fabric::FabricError;
use std::hash::{BuildHasher, Hasher};
use std::io;

/// This side's end of a connection.
#[derive(Debug)]
pub struct LocalSide {
    /// The queue pair.
    pub queue_pair: QueuePair,
    // Behind the queue pair, whose requests may still read them.
    words: Option<Words>,
    /// First packet sequence number it sends.
    pub packet_sequence: u32,
    /// Whether it may be posted to.
    pub connected: bool,
}

/// Registered memory for the values of notifications in flight, on devices without inline data.
#[derive(Debug)]
struct Words {
    // Before `values`, which it covers.
    region: MemoryRegion,
    values: Box<[AtomicU64]>,
}

impl Words {
    /// As many as operations are in flight.
    fn new(rail: &Rail) -> io::Result<Self> {
        let count = rail.limits.lane_operations;
        let values: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let access = ibverbs_sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        let address = values.as_ptr().cast_mut().cast();
        // SAFETY: the values live on the heap for longer than the region.
        let region = unsafe {
            MemoryRegion::register(&rail.domain, address, size_of_val(&*values), access)
        }?;
        Ok(Self { region, values })
    }

    /// Their memory.
    fn bytes(&self) -> u64 {
        size_of_val(&*self.values) as u64
    }

    /// Stores the value of operation `number` where the device finds it.
    fn store(&self, number: u64, value: u64) -> LocalPart {
        let word = &self.values[(number % self.values.len() as u64) as usize];
        word.store(value, Ordering::Relaxed);
        LocalPart {
            address: std::ptr::from_ref(word) as u64,
            bytes: 8,
            lkey: self.region.lkey(),
        }
    }
}

impl LocalSide {
    /// Makes a queue pair, not yet connected.
    pub fn create(rail: &Rail, object: &str) -> Result<Self, FabricError> {
        if rail.is_gone() {
            let gone = io::Error::from_raw_os_error(libc::ENODEV);
            return Err(set_up("ibv_create_qp", object)(gone));
        }
        let size = rail.queue_pair_size();
        let wake_events = rail.wake_events.as_ref();
        let queue_pair = QueuePair::create(&rail.domain, &rail.completions, wake_events, size)
            .map_err(set_up("ibv_create_qp", object))?;
        queue_pair.initialize(rail.local.port, object)?;
        let words = match queue_pair.inline_bytes() < 8 {
            true => Some(Words::new(rail).map_err(set_up("ibv_reg_mr", object))?),
            false => None,
        };
        let random = std::hash::RandomState::new().build_hasher().finish();
        Ok(Self {
            queue_pair,
            words,
            packet_sequence: random as u32 & 0x00ff_ffff,
            connected: false,
        })
    }

    /// Where operation `number` finds the `value` of its notification, which lives until it is posted.
    pub fn word(&self, number: u64, value: &u64) -> LocalPart {
        match &self.words {
            Some(words) => words.store(number, *value),
            // Inline: the device reads the value during the call.
            None => LocalPart {
                address: std::ptr::from_ref(value) as u64,
                bytes: 8,
                lkey: 0,
            },
        }
    }

    /// Memory that it takes here: the queues, and words in flight.
    pub fn bytes(&self) -> u64 {
        self.queue_pair.bytes() + self.words.as_ref().map_or(0, Words::bytes)
    }

    /// Connects it to `peer`.
    pub fn connect(
        &mut self,
        local: &Local,
        peer: &RailAddress,
        object: &str,
    ) -> Result<(), FabricError> {
        let first = self.packet_sequence;
        self.queue_pair.connect((local, first), peer, object)?;
        self.connected = true;
        Ok(())
    }
}
