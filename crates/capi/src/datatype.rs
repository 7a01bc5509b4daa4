//! What a datatype means in bytes, and data with gaps through the host's pack and unpack.

use crate::error::CallError;
use crate::runtime::Session;
use ferrorail_mpi_abi::{Datatype, TypeLayout};
use libc::{c_int, c_void};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes packed by one call at most, unless a single element has more. An `int` must hold it.
const PACK_BYTES_MAX: usize = 1 << 30;

/// Largest element whose order in memory is looked at; larger ones are packed anyway.
const ORDER_BYTES_MAX: usize = 1 << 24;

/// How elements of a datatype lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of data in one element.
    pub bytes: usize,
    /// Distance between elements.
    pub extent: isize,
    /// Where data begins, if elements are plain bytes in order and without gaps.
    pub dense_at: Option<isize>,
}

/// Facts on named types that are not in the fast table (`MPI_DOUBLE_INT`); they never go away.
static NAMED: Mutex<Option<HashMap<usize, Layout>>> = Mutex::new(None);

/// Layout of `datatype`; `None` if it may not be used for communication (null, not committed).
#[inline]
pub fn layout(session: &Session, datatype: Datatype) -> Option<Layout> {
    match session.datatypes.dense_bytes(datatype) {
        Some(bytes) => Some(Layout {
            bytes,
            extent: bytes as isize,
            dense_at: Some(0),
        }),
        None => derived(session, datatype),
    }
}

/// Layout of a type that carries its facts as an attribute, or gets them now.
#[cold]
fn derived(session: &Session, datatype: Datatype) -> Option<Layout> {
    let host = session.host();
    if datatype == host.predefined().datatype_null {
        return None;
    }
    if let Some(layout) = named().get_or_insert_default().get(&datatype.0) {
        return Some(*layout);
    }
    let known = host.type_attribute(datatype, session.type_key).ok()?;
    if let Some(address) = known {
        // SAFETY: the value is a leaked `Layout`, freed by the delete callback only.
        return Some(unsafe { *(address as *const Layout) });
    }
    let layout = examine(session, datatype)?;
    if host.is_named_type(datatype).ok()? {
        named().get_or_insert_default().insert(datatype.0, layout);
    } else {
        let address = Box::into_raw(Box::new(layout));
        if host
            .set_type_attribute(datatype, session.type_key, address as usize)
            .is_err()
        {
            // SAFETY: the host did not take it.
            drop(unsafe { Box::from_raw(address) });
        }
    }
    Some(layout)
}

fn named() -> MutexGuard<'static, Option<HashMap<usize, Layout>>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Delete callback of the datatype attribute.
pub unsafe extern "C" fn on_type_free(
    _datatype: usize,
    _key: c_int,
    value: *mut c_void,
    _extra: *mut c_void,
) -> c_int {
    // SAFETY: the value was leaked from a box when the attribute was set, and is deleted once.
    drop(unsafe { Box::from_raw(value.cast::<Layout>()) });
    0
}

/// Asks the host. Packing nothing tells whether the type is committed, without an error handler of
/// the program being called.
fn examine(session: &Session, datatype: Datatype) -> Option<Layout> {
    let host = session.host();
    let mut nothing = [0u8; 8];
    // SAFETY: no element is read or written.
    unsafe {
        let address = nothing.as_mut_ptr();
        host.pack(address, 0, datatype, address, 0, session.self_comm)
            .ok()?;
    }
    let layout = host.type_layout(datatype).ok()?;
    let in_order = layout.is_dense()
        && layout.bytes <= ORDER_BYTES_MAX
        && is_in_order(session, datatype, &layout).unwrap_or(false);
    Some(Layout {
        bytes: layout.bytes,
        extent: layout.extent,
        dense_at: (in_order || layout.bytes == 0).then_some(layout.true_lower_bound),
    })
}

/// Whether a dense element's data lies in the order of its signature: packing memory in which each
/// byte tells its place (one digit of it at a time) must not move any.
fn is_in_order(session: &Session, datatype: Datatype, layout: &TypeLayout) -> Option<bool> {
    let bytes = layout.bytes;
    let mut packed = vec![0u8; bytes];
    for digit in 0..3 {
        if digit > 0 && bytes <= 1 << (8 * digit) {
            break;
        }
        let memory: Vec<u8> = (0..bytes)
            .map(|place| (place >> (8 * digit)) as u8)
            .collect();
        let element = memory
            .as_ptr()
            .wrapping_offset(layout.true_lower_bound.wrapping_neg());
        // SAFETY: the element's data lies within `memory`, whose first byte is its lowest.
        unsafe {
            let to = packed.as_mut_ptr();
            session
                .host()
                .pack(element, 1, datatype, to, bytes, session.self_comm)
                .ok()?;
        }
        if packed != memory {
            return Some(false);
        }
    }
    Some(true)
}

/// `count` elements of a datatype at an address of the program.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    /// Address as passed; may be `MPI_BOTTOM`.
    pub address: *mut u8,
    /// Number of elements.
    pub count: usize,
    /// Their type.
    pub datatype: Datatype,
    /// Its layout.
    pub layout: Layout,
}

impl Elements {
    /// Bytes of data; `None` on overflow.
    #[inline]
    pub fn bytes(&self) -> Option<usize> {
        self.layout.bytes.checked_mul(self.count)
    }

    /// Address of the data, if it is plain bytes.
    #[inline]
    pub fn dense(&self) -> Option<*mut u8> {
        self.layout
            .dense_at
            .map(|offset| self.address.wrapping_offset(offset))
    }

    /// The block of as many elements for rank `index`, counted from this one.
    pub fn block(&self, index: usize) -> Self {
        let stride = self
            .layout
            .extent
            .wrapping_mul((self.count * index) as isize);
        Self {
            address: self.address.wrapping_offset(stride),
            ..*self
        }
    }

    /// The elements of `ranks` blocks, one after the other.
    ///
    /// # Errors
    /// If their bytes cannot be counted.
    #[inline]
    pub fn times(&self, ranks: u32) -> Result<Self, CallError> {
        let too_many = CallError::NoMemory { bytes: usize::MAX };
        let Some(count) = self.count.checked_mul(ranks as usize) else {
            return Err(too_many);
        };
        let all = Self { count, ..*self };
        all.bytes().map(|_| all).ok_or(too_many)
    }

    /// Addresses of the data, which is plain bytes from `address` on.
    #[inline]
    pub fn range(&self, address: *const u8) -> Range<usize> {
        let bytes = self.bytes().unwrap_or(usize::MAX);
        address as usize..(address as usize).saturating_add(bytes)
    }

    /// Calls `act` with element address, element count, offset in packed bytes and bytes, for
    /// pieces that the host's `int` arguments can express.
    fn pieces(
        &self,
        mut act: impl FnMut(*mut u8, usize, usize, usize) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let most = (PACK_BYTES_MAX / self.layout.bytes.max(1)).max(1);
        let mut done = 0;
        while done < self.count {
            let count = most.min(self.count - done);
            let stride = self.layout.extent.wrapping_mul(done as isize);
            let bytes = self.layout.bytes;
            act(
                self.address.wrapping_offset(stride),
                count,
                bytes * done,
                bytes * count,
            )?;
            done += count;
        }
        Ok(())
    }

    /// Packs all elements to `to`.
    ///
    /// # Safety
    /// The elements are readable; `to` has room for [`Elements::bytes`].
    pub unsafe fn pack(&self, session: &Session, to: *mut u8) -> Result<(), CallError> {
        self.pieces(|address, count, offset, bytes| {
            let to = to.wrapping_add(offset);
            let comm = session.self_comm;
            // SAFETY: the caller's contract, piece by piece.
            unsafe {
                session
                    .host()
                    .pack(address, count, self.datatype, to, bytes, comm)?
            };
            Ok(())
        })
    }

    /// Unpacks all elements from `from`; bytes in gaps keep their values.
    ///
    /// # Safety
    /// `from` has [`Elements::bytes`] bytes; the elements are writable.
    pub unsafe fn unpack(&self, session: &Session, from: *const u8) -> Result<(), CallError> {
        self.pieces(|address, count, offset, bytes| {
            let from = from.wrapping_add(offset);
            let comm = session.self_comm;
            // SAFETY: the caller's contract, piece by piece.
            unsafe {
                session
                    .host()
                    .unpack(from, bytes, address, count, self.datatype, comm)?
            };
            Ok(())
        })
    }
}

/// Memory for packed data, never read before it is written.
pub struct Packed(Vec<u8>);

impl Packed {
    /// Room for `bytes` bytes.
    pub fn new(bytes: usize) -> Result<Self, CallError> {
        let mut memory = Vec::new();
        memory
            .try_reserve_exact(bytes)
            .map_err(|_| CallError::NoMemory { bytes })?;
        Ok(Self(memory))
    }

    /// Its first byte.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }
}
