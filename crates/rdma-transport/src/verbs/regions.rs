//! Memory registered with all rails of this process.

use super::error::{says_gone, with_memlock_hint};
use super::handles::MemoryRegion;
use super::queue_pair::remote_access;
use super::rail::Rail;
use ferrorail_base::memory::MemoryRange;
use ferrorail_base::sync::Mutex;
use ferrorail_fabric::{FabricError, LocalRegion, RAILS_MAX, RemoteRegion, SharedBacking};
use std::collections::HashMap;

/// Registered memory.
#[derive(Debug, Default)]
pub struct Regions(Mutex<Known>);

/// By the handle in its [`LocalRegion`].
#[derive(Debug, Default)]
struct Known {
    last_handle: u64,
    by_handle: HashMap<u64, Vec<MemoryRegion>>,
}

impl Regions {
    /// Registers memory with each of `rails` whose device is not gone. One is, if registering fails as
    /// on a device that does nothing any more, and works on another.
    ///
    /// # Safety
    /// It stays mapped until [`Regions::deregister`].
    pub unsafe fn register(
        &self,
        rails: &[Rail],
        address: *mut u8,
        bytes: usize,
        backing: Option<SharedBacking>,
    ) -> Result<LocalRegion, FabricError> {
        let access = remote_access();
        let (mut lkeys, mut rkeys) = ([0; RAILS_MAX], [0; RAILS_MAX]);
        let failed = |source| FabricError::RegisterMemory {
            verb: "ibv_reg_mr",
            bytes,
            source: with_memlock_hint(source),
        };
        let mut registered = Vec::with_capacity(rails.len());
        let mut gone = Vec::new();
        for rail in rails.iter().filter(|rail| !rail.is_gone()) {
            // SAFETY: the caller keeps the memory until `deregister`.
            let region = unsafe { MemoryRegion::register(&rail.domain, address, bytes, access) };
            let region = match region {
                Ok(region) => region,
                Err(error) if says_gone(&error) => {
                    gone.push((rail, error));
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            lkeys[usize::from(rail.info.plane)] = region.lkey();
            rkeys[usize::from(rail.info.plane)] = region.rkey();
            registered.push(region);
        }
        if registered.is_empty() {
            let error = gone.pop().map(|(_, error)| error);
            return Err(failed(error.unwrap_or_else(|| {
                std::io::Error::from_raw_os_error(libc::ENODEV)
            })));
        }
        for (rail, error) in &gone {
            rail.lose(error);
        }
        let mut regions = self.0.lock();
        regions.last_handle += 1;
        let handle = regions.last_handle;
        regions.by_handle.insert(handle, registered);
        let mut region = LocalRegion {
            range: MemoryRange::new(address, bytes),
            lkeys,
            rkeys,
            backing,
            handle,
            description: Vec::new(),
        };
        region.description = RemoteRegion::of(&region).to_wire().to_vec();
        Ok(region)
    }

    /// Undoes that.
    pub fn deregister(&self, region: &LocalRegion) {
        let registered = self.0.lock().by_handle.remove(&region.handle);
        debug_assert!(registered.is_some(), "a region of another fabric");
    }
}
