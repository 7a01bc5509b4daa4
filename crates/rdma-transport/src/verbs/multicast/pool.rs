//! Registered memory that datagrams leave from and arrive in, in slots of one size.

use super::super::handles::{MemoryRegion, ProtectionDomain};
use ibverbs_sys::ibv_access_flags;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rdma_sys::ibv_sge;
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;

/// Slots of registered memory. In pages of its own, which a fork may treat apart.
#[derive(Debug)]
pub struct Pool {
    // Released before the memory.
    region: MemoryRegion,
    memory: Pages,
    slot_bytes: usize,
    slots: usize,
}

/// An anonymous mapping.
#[derive(Debug)]
struct Pages {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: memory belongs to no thread; access to it goes through the pool's owner.
unsafe impl Send for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `Pool::register`, with that length; no reference to it is left.
        if let Err(error) = unsafe { munmap(self.start, self.bytes.get()) } {
            tracing::warn!("munmap failed: {error}");
        }
    }
}

impl Pool {
    /// Maps and registers `slots` slots of `slot_bytes` bytes.
    ///
    /// # Errors
    /// The verb or system call that failed, with the system's reason.
    pub fn register(
        domain: &Arc<ProtectionDomain>,
        slots: usize,
        slot_bytes: usize,
    ) -> Result<Self, (&'static str, io::Error)> {
        let bytes = NonZeroUsize::new(slots * slot_bytes).unwrap_or(NonZeroUsize::MIN);
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, anywhere.
        let start = unsafe { mmap_anonymous(None, bytes, access, MapFlags::MAP_PRIVATE) };
        let start = start.map_err(|errno| ("mmap", errno.into()))?;
        let memory = Pages { start, bytes };
        let (address, length) = (memory.start.as_ptr().cast(), bytes.get());
        let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        // SAFETY: the pages stay mapped until the region is gone, by the order of fields.
        let region = unsafe { MemoryRegion::register(domain, address, length, access) };
        Ok(Self {
            region: region.map_err(|error| ("ibv_reg_mr", error))?,
            memory,
            slot_bytes,
            slots,
        })
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Length of each.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// First byte of a slot.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn slot(&self, index: usize) -> *mut u8 {
        assert!(index < self.slots, "slot {index} of {}", self.slots);
        let start: *mut u8 = self.memory.start.as_ptr().cast();
        // SAFETY: inside the mapping.
        unsafe { start.add(index * self.slot_bytes) }
    }

    /// The first `bytes` bytes of a slot, as work requests name them.
    ///
    /// # Panics
    /// If there is no such slot, or they do not fit it.
    pub fn part(&self, index: usize, bytes: usize) -> ibv_sge {
        assert!(bytes <= self.slot_bytes, "{bytes} bytes in a slot");
        ibv_sge {
            addr: self.slot(index) as u64,
            length: bytes as u32,
            lkey: self.region.lkey(),
        }
    }

    /// What a slot begins with.
    ///
    /// # Panics
    /// If there is no such slot, or it is shorter than that.
    ///
    /// # Safety
    /// The device has written the slot and does not write it while the bytes are in use.
    pub unsafe fn read(&self, index: usize, bytes: usize) -> &[u8] {
        assert!(bytes <= self.slot_bytes, "{bytes} bytes in a slot");
        // SAFETY: inside the mapping, and nobody writes it by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.slot(index), bytes) }
    }
}
