//! Datatypes: layout, attributes, packing.

use super::comm::copy_nothing;
use super::{Host, MpiError};
use crate::{Comm, Datatype, TypeDeleteFn};
use libc::{c_int, c_void};

/// Extents of a datatype in bytes (MPI 4.1, section 5.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeLayout {
    /// `MPI_Type_size`: bytes of data.
    pub bytes: usize,
    /// Distance between consecutive elements.
    pub extent: isize,
    /// Offset of the lowest data byte.
    pub true_lower_bound: isize,
    /// Distance from the lowest data byte to the end of the highest.
    pub true_extent: isize,
}

impl TypeLayout {
    /// Whether consecutive elements cover memory without gaps. The order of the data may still
    /// differ from the order in memory.
    pub fn is_dense(&self) -> bool {
        let bytes = self.bytes as isize;
        self.extent == bytes && self.true_extent == bytes
    }
}

impl Host {
    /// Size and extents of `datatype`.
    ///
    /// # Errors
    /// The library's, after its error handler (on `MPI_COMM_WORLD` or `MPI_COMM_SELF`).
    pub fn type_layout(&self, datatype: Datatype) -> Result<TypeLayout, MpiError> {
        let (mut lower_bound, mut extent) = (0, 0);
        let (mut true_lower_bound, mut true_extent) = (0, 0);
        // SAFETY: all results are live.
        unsafe {
            let code = (self.functions.type_get_extent)(datatype, &mut lower_bound, &mut extent);
            self.check("MPI_Type_get_extent", code)?;
            let code = (self.functions.type_get_true_extent)(
                datatype,
                &mut true_lower_bound,
                &mut true_extent,
            );
            self.check("MPI_Type_get_true_extent", code)?;
        }
        let bytes = self.type_bytes(datatype)?;
        Ok(TypeLayout {
            bytes,
            extent,
            true_lower_bound,
            true_extent,
        })
    }

    fn type_bytes(&self, datatype: Datatype) -> Result<usize, MpiError> {
        if let Some(type_size_x) = self.functions.type_size_x {
            let mut bytes = 0i64;
            // SAFETY: `bytes` is live.
            self.check("MPI_Type_size_x", unsafe {
                type_size_x(datatype, &mut bytes)
            })?;
            return Ok(bytes as usize);
        }
        let mut bytes = 0;
        // SAFETY: `bytes` is live.
        self.check("MPI_Type_size", unsafe {
            (self.functions.type_size)(datatype, &mut bytes)
        })?;
        if bytes == self.constants().undefined {
            let class = self.constants().errors.count;
            return Err(MpiError {
                function: "MPI_Type_size",
                code: class,
                class,
            });
        }
        Ok(bytes as usize)
    }

    /// A datatype key whose values are not copied to duplicates.
    ///
    /// # Errors
    /// The library's, after its error handler.
    ///
    /// # Safety
    /// `delete` keeps to the callback's contract and does not unwind.
    pub unsafe fn create_type_key(&self, delete: TypeDeleteFn) -> Result<c_int, MpiError> {
        let mut key = self.constants().keyval_invalid;
        // SAFETY: the caller vouches for `delete`.
        let code = unsafe {
            let extra = std::ptr::null_mut();
            (self.functions.type_create_keyval)(copy_nothing, delete, &mut key, extra)
        };
        self.check("MPI_Type_create_keyval", code)?;
        Ok(key)
    }

    /// The value of `key` on `datatype`, if set.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn type_attribute(
        &self,
        datatype: Datatype,
        key: c_int,
    ) -> Result<Option<usize>, MpiError> {
        let mut value = 0usize;
        let mut flag = 0;
        // SAFETY: `value` and `flag` are live.
        let code = unsafe {
            (self.functions.type_get_attr)(datatype, key, (&raw mut value).cast(), &mut flag)
        };
        self.check("MPI_Type_get_attr", code)?;
        Ok((flag != 0).then_some(value))
    }

    /// Sets the value of `key` on `datatype`.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn set_type_attribute(
        &self,
        datatype: Datatype,
        key: c_int,
        value: usize,
    ) -> Result<(), MpiError> {
        // SAFETY: the library only keeps the value.
        let code = unsafe { (self.functions.type_set_attr)(datatype, key, value as *mut c_void) };
        self.check("MPI_Type_set_attr", code)
    }

    /// Packs `count` elements at `from` into exactly `bytes` bytes at `to`. Uses the large-count
    /// form where a plain `int` does not do.
    ///
    /// # Errors
    /// The library's, after the error handler of `comm`; also if the packed form has another
    /// length, as on a heterogeneous system.
    ///
    /// # Safety
    /// `from` holds `count` elements; `to` has `bytes` bytes.
    pub unsafe fn pack(
        &self,
        from: *const u8,
        count: usize,
        datatype: Datatype,
        to: *mut u8,
        bytes: usize,
        comm: Comm,
    ) -> Result<(), MpiError> {
        let (from, to) = (from.cast::<c_void>(), to.cast::<c_void>());
        let packed = match (c_int::try_from(count), c_int::try_from(bytes)) {
            (Ok(count), Ok(size)) => {
                let mut position = 0;
                // SAFETY: the caller vouches for both buffers.
                let code = unsafe {
                    (self.functions.pack)(from, count, datatype, to, size, &mut position, comm)
                };
                self.check("MPI_Pack", code)?;
                position as usize
            }
            _ => {
                let pack_c = self
                    .functions
                    .pack_c
                    .ok_or_else(|| self.too_large("MPI_Pack_c"))?;
                let (mut position, size) = (0, bytes as i64);
                // SAFETY: as above.
                let code =
                    unsafe { pack_c(from, count as i64, datatype, to, size, &mut position, comm) };
                self.check("MPI_Pack_c", code)?;
                position as usize
            }
        };
        if packed == bytes {
            Ok(())
        } else {
            Err(self.too_large("MPI_Pack"))
        }
    }

    /// Unpacks `bytes` bytes at `from` into `count` elements at `to`; bytes between the elements'
    /// data keep their values.
    ///
    /// # Errors
    /// The library's, after the error handler of `comm`.
    ///
    /// # Safety
    /// `from` has `bytes` bytes; `to` has room for `count` elements.
    pub unsafe fn unpack(
        &self,
        from: *const u8,
        bytes: usize,
        to: *mut u8,
        count: usize,
        datatype: Datatype,
        comm: Comm,
    ) -> Result<(), MpiError> {
        let (from, to) = (from.cast::<c_void>(), to.cast::<c_void>());
        match (c_int::try_from(count), c_int::try_from(bytes)) {
            (Ok(count), Ok(size)) => {
                let mut position = 0;
                // SAFETY: the caller vouches for both buffers.
                let code = unsafe {
                    (self.functions.unpack)(from, size, &mut position, to, count, datatype, comm)
                };
                self.check("MPI_Unpack", code)
            }
            _ => {
                let unpack_c = self
                    .functions
                    .unpack_c
                    .ok_or_else(|| self.too_large("MPI_Unpack_c"))?;
                let (mut position, size) = (0, bytes as i64);
                // SAFETY: as above.
                let code = unsafe {
                    unpack_c(from, size, &mut position, to, count as i64, datatype, comm)
                };
                self.check("MPI_Unpack_c", code)
            }
        }
    }

    fn too_large(&self, function: &'static str) -> MpiError {
        let class = self.constants().errors.count;
        MpiError {
            function,
            code: class,
            class,
        }
    }
}
