//! Registered test memory, touched only through raw pointers and atomics.

use super::Rails;
use ferrorail_base::sync::{AtomicU64, Ordering};
use ferrorail_fabric::{LocalRegion, LocalSlice, SharedBacking};
use memmap2::{MmapOptions, MmapRaw};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::os::fd::AsRawFd;

/// Page-aligned memory registered with one fabric for as long as it lives.
pub struct Memory<'f, F: Rails> {
    fabric: &'f F,
    map: MmapRaw,
    region: Option<LocalRegion>,
    /// Keeps the backing's descriptor open while the memory is registered.
    _file: File,
}

impl<'f, F: Rails> Memory<'f, F> {
    /// Memory whose shared object the fabric is told of.
    pub fn shared(fabric: &'f F, bytes: usize) -> Self {
        Self::new(fabric, bytes, true)
    }

    /// Memory registered as if it were private.
    pub fn private(fabric: &'f F, bytes: usize) -> Self {
        Self::new(fabric, bytes, false)
    }

    fn new(fabric: &'f F, bytes: usize, tell: bool) -> Self {
        let bytes = bytes.next_multiple_of(4096);
        let file = File::from(memfd_create("conformance", MFdFlags::MFD_CLOEXEC).unwrap());
        file.set_len(bytes as u64).unwrap();
        let map = MmapOptions::new().len(bytes).map_raw(&file).unwrap();
        let backing = tell.then(|| SharedBacking::whole(file.as_raw_fd(), bytes));
        // SAFETY: the mapping lives until `drop` has deregistered it.
        let region = unsafe { fabric.register(map.as_mut_ptr(), bytes, backing) };
        Self {
            fabric,
            region: Some(region.expect("register")),
            map,
            _file: file,
        }
    }

    pub fn region(&self) -> &LocalRegion {
        self.region
            .as_ref()
            .expect("registered until it is dropped")
    }

    pub fn slice(&self, offset: usize, bytes: usize) -> LocalSlice<'_> {
        LocalSlice {
            region: self.region(),
            offset,
            bytes,
        }
    }

    pub fn bytes(&self) -> usize {
        self.map.len()
    }

    pub fn fill(&mut self, byte: u8) {
        // SAFETY: inside the mapping; tests fill only while nothing is in flight.
        unsafe { self.map.as_mut_ptr().write_bytes(byte, self.bytes()) }
    }

    /// Bytes that differ by place and by `seed`.
    pub fn fill_pattern(&mut self, seed: u64) {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for i in 0..self.bytes() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // SAFETY: inside the mapping; tests fill only while nothing is in flight.
            unsafe { self.map.as_mut_ptr().add(i).write((state >> 33) as u8) }
        }
    }

    /// A copy of `bytes` bytes at `offset`.
    pub fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        assert!(offset + bytes <= self.bytes());
        let mut copy = vec![0; bytes];
        // SAFETY: bounds were checked; a racing write shows as wrong data, which tests look for.
        unsafe {
            let from = self.map.as_ptr().add(offset);
            std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr(), bytes);
        }
        copy
    }

    /// Acquire-load of the word at `offset`.
    pub fn load(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes());
        // SAFETY: aligned, inside the mapping, and only ever accessed atomically or by the rails.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(offset).cast()) }
            .load(Ordering::Acquire)
    }
}

impl<F: Rails> Drop for Memory<'_, F> {
    fn drop(&mut self) {
        let region = self.region.take();
        self.fabric
            .deregister(region.expect("registered until now"));
    }
}
