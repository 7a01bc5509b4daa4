//! Owners of what libibverbs hands out, released in `Drop`.
//!
//! Calls that set things up go through `ibverbs-sys`; the inline verbs (`ibv_query_port`,
//! `ibv_post_send`, `ibv_poll_cq`) exist only in `rdma-sys`. Both describe the same C structures.

use ibverbs_sys as ffi;
use std::fmt;
use std::io;
use std::mem::{align_of, size_of};
use std::ptr::NonNull;
use std::sync::Arc;

// The two crates' views of what crosses between them.
const _: () = {
    assert!(size_of::<ffi::ibv_send_wr>() == size_of::<rdma_sys::ibv_send_wr>());
    assert!(align_of::<ffi::ibv_send_wr>() == align_of::<rdma_sys::ibv_send_wr>());
    assert!(size_of::<ffi::ibv_wc>() == size_of::<rdma_sys::ibv_wc>());
    assert!(size_of::<ffi::ibv_sge>() == size_of::<rdma_sys::ibv_sge>());
    assert!(size_of::<ffi::ibv_context>() == size_of::<rdma_sys::ibv_context>());
};

/// The system's reason if a verb that answers with an errno failed.
pub fn check(status: i32) -> io::Result<()> {
    match status {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}

/// Something that libibverbs made, which is released when this is dropped. In a structure it comes before what
/// it was made from.
pub struct Handle<T> {
    raw: NonNull<T>,
    verb: &'static str,
    release: unsafe extern "C" fn(*mut T) -> i32,
}

// SAFETY: libibverbs is thread-safe; what it made is released by its last owner only.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    /// Takes what a verb has made, which the verb `release` of that name undoes.
    ///
    /// # Errors
    /// The system's reason if it is null.
    ///
    /// # Safety
    /// `raw` is new, and may be released when nothing that is made from it is left.
    pub unsafe fn new(
        raw: *mut T,
        verb: &'static str,
        release: unsafe extern "C" fn(*mut T) -> i32,
    ) -> io::Result<Self> {
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { raw, verb, release })
    }

    /// For calls of the library.
    pub fn as_ptr(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: made by a verb, and released once; what is made from it holds references.
        if let Err(error) = check(unsafe { (self.release)(self.raw.as_ptr()) }) {
            tracing::warn!("{} failed: {error}", self.verb);
        }
    }
}

/// What a port says of itself.
pub type PortAttributes = ffi::ibv_port_attr;

type QueryPort = unsafe extern "C" fn(
    *mut rdma_sys::ibv_context,
    u8,
    *mut rdma_sys::ibv_port_attr,
    usize,
) -> i32;

/// An opened device.
#[derive(Debug)]
pub struct Context(Handle<ffi::ibv_context>);

impl Context {
    /// Opens `device`, an entry of a device list that is still held.
    ///
    /// # Safety
    /// `device` is such an entry.
    pub unsafe fn open(device: *mut ffi::ibv_device) -> io::Result<Self> {
        // SAFETY: the caller vouches for the pointer; everything made from the context holds a reference.
        unsafe {
            let raw = ffi::ibv_open_device(device);
            Handle::new(raw, "ibv_close_device", ffi::ibv_close_device).map(Self)
        }
    }

    /// For making what belongs to it.
    pub fn as_ptr(&self) -> *mut ffi::ibv_context {
        self.0.as_ptr()
    }

    /// `ibv_query_device`.
    pub fn device_attributes(&self) -> io::Result<ffi::ibv_device_attr> {
        let mut attributes = ffi::ibv_device_attr::default();
        // SAFETY: the context is open and the structure is ours.
        check(unsafe { ffi::ibv_query_device(self.0.as_ptr(), &raw mut attributes) })?;
        Ok(attributes)
    }

    /// `ibv_query_port`.
    pub fn port_attributes(&self, port: u8) -> io::Result<PortAttributes> {
        let mut attributes = PortAttributes::default();
        // SAFETY: the context is open.
        let status = match unsafe { self.extended_query() } {
            Some(query) => {
                let (context, into) = (self.0.as_ptr().cast(), (&raw mut attributes).cast());
                // SAFETY: the context is open, and the structure is ours and as long as it says.
                unsafe { query(context, port, into, size_of::<PortAttributes>()) }
            }
            // An old library, whose structure is a beginning of ours.
            // SAFETY: as above.
            None => unsafe {
                let into = (&raw mut attributes).cast();
                rdma_sys::ibv_query_port(self.0.as_ptr().cast(), port, into)
            },
        };
        check(status)?;
        Ok(attributes)
    }

    /// The library's call that fills in as much of the attributes as it knows. What verbs.h does
    /// inline; rdma-sys' version of it knows neither the extended calls of 64-bit hosts nor the
    /// structure's last member, the speed beyond 8 bits.
    ///
    /// # Safety
    /// The context is open.
    unsafe fn extended_query(&self) -> Option<QueryPort> {
        let context: *mut rdma_sys::ibv_context = self.0.as_ptr().cast();
        let before = std::mem::offset_of!(rdma_sys::verbs_context, context);
        let from_end = size_of::<rdma_sys::verbs_context>()
            - std::mem::offset_of!(rdma_sys::verbs_context, query_port);
        // SAFETY: a context whose `abi_compat` is all ones is the last member of a larger structure,
        // which says how far back it reaches; `query_port` is looked at if that is far enough.
        unsafe {
            if (*context).abi_compat as usize != usize::MAX {
                return None;
            }
            let extended: *const rdma_sys::verbs_context = context.byte_sub(before).cast();
            if (*extended).sz < from_end {
                return None;
            }
            (*extended).query_port
        }
    }

    /// The device's valid GIDs, `entries_max` at most, over all its ports.
    pub fn gid_table(&self, entries_max: usize) -> io::Result<Vec<ibverbs::GidEntry>> {
        let mut table = vec![ffi::ibv_gid_entry::default(); entries_max];
        // SAFETY: the table has room for the given number of entries of the given size.
        let count = unsafe {
            ffi::_ibv_query_gid_table(
                self.0.as_ptr(),
                table.as_mut_ptr(),
                table.len(),
                0,
                size_of::<ffi::ibv_gid_entry>(),
            )
        };
        if count < 0 {
            return Err(io::Error::from_raw_os_error(-count as i32));
        }
        table.truncate(count as usize);
        Ok(table.into_iter().map(ibverbs::GidEntry::from).collect())
    }
}

/// What queue pairs and memory regions that work together belong to.
#[derive(Debug)]
pub struct ProtectionDomain {
    raw: Handle<ffi::ibv_pd>,
    context: Arc<Context>,
}

impl ProtectionDomain {
    /// `ibv_alloc_pd`.
    pub fn allocate(context: &Arc<Context>) -> io::Result<Self> {
        // SAFETY: the context is open; queue pairs and regions hold references to the domain.
        let raw = unsafe {
            let raw = ffi::ibv_alloc_pd(context.as_ptr());
            Handle::new(raw, "ibv_dealloc_pd", ffi::ibv_dealloc_pd)
        }?;
        let context = Arc::clone(context);
        Ok(Self { raw, context })
    }

    /// The device it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// For making queue pairs.
    pub fn as_ptr(&self) -> *mut ffi::ibv_pd {
        self.raw.as_ptr()
    }
}

/// Memory registered with one rail.
#[derive(Debug)]
pub struct MemoryRegion {
    raw: Handle<ffi::ibv_mr>,
    _domain: Arc<ProtectionDomain>,
}

impl MemoryRegion {
    /// `ibv_reg_mr`.
    ///
    /// # Safety
    /// The memory stays mapped until the region is dropped.
    pub unsafe fn register(
        domain: &Arc<ProtectionDomain>,
        address: *mut u8,
        bytes: usize,
        access: ffi::ibv_access_flags,
    ) -> io::Result<Self> {
        let access = access.0 as i32;
        // SAFETY: the domain is alive; the caller vouches for the memory.
        let raw = unsafe {
            let raw = ffi::ibv_reg_mr(domain.as_ptr(), address.cast(), bytes, access);
            Handle::new(raw, "ibv_dereg_mr", ffi::ibv_dereg_mr)
        }?;
        let _domain = Arc::clone(domain);
        Ok(Self { raw, _domain })
    }

    /// Key for work requests of this process.
    pub fn lkey(&self) -> u32 {
        // SAFETY: the structure lives until deregistration.
        unsafe { (*self.raw.as_ptr()).lkey }
    }

    /// Key for work requests of peers.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the structure lives until deregistration.
        unsafe { (*self.raw.as_ptr()).rkey }
    }
}
