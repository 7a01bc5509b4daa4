//! Datatypes: layout, attributes, packing.

use super::comm::copy_nothing;
use super::{Host, MpiError};
use crate::{Comm, Datatype, DeleteFn};
use libc::{c_int, c_void};
use std::ops::Range;
use std::ptr;

/// Extents of a datatype in bytes (MPI 4.1, section 5.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeLayout {
    /// `MPI_Type_size`: bytes of data.
    pub bytes: usize,
    /// Offset of the first byte that an element takes up.
    pub lower_bound: isize,
    /// Distance between consecutive elements.
    pub extent: isize,
    /// Offset of the lowest data byte.
    pub true_lower_bound: isize,
    /// Distance from the lowest data byte to the end of the highest.
    pub true_extent: isize,
}

impl TypeLayout {
    /// The bytes that an element takes up, gaps at its ends included, by their offsets from its address.
    pub fn span(&self) -> Range<isize> {
        let bounds = [self.lower_bound, self.lower_bound + self.extent];
        let data = [
            self.true_lower_bound,
            self.true_lower_bound + self.true_extent,
        ];
        let all = || bounds.into_iter().chain(data);
        all().fold(data[0], isize::min)..all().fold(data[1], isize::max)
    }

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
            lower_bound,
            extent,
            true_lower_bound,
            true_extent,
        })
    }

    fn type_bytes(&self, datatype: Datatype) -> Result<usize, MpiError> {
        if let Some(type_size_x) = self.functions.type_size_x {
            // SAFETY: `bytes` is live.
            let bytes = self.answer("MPI_Type_size_x", 0, |bytes| unsafe {
                type_size_x(datatype, bytes)
            })?;
            return Ok(bytes as usize);
        }
        // SAFETY: `bytes` is live.
        let bytes = self.answer("MPI_Type_size", 0, |bytes| unsafe {
            (self.functions.type_size)(datatype, bytes)
        })?;
        if bytes == self.constants().undefined {
            return Err(self.too_large("MPI_Type_size"));
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
    pub unsafe fn create_type_key(&self, delete: DeleteFn) -> Result<c_int, MpiError> {
        let create = self.functions.type_create_keyval;
        let none = self.constants().keyval_invalid;
        // SAFETY: the caller vouches for `delete`.
        self.answer("MPI_Type_create_keyval", none, |key| unsafe {
            create(copy_nothing, delete, key, ptr::null_mut())
        })
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
        let get = self.functions.type_get_attr;
        // SAFETY: `value` and `flag` are live.
        self.attribute("MPI_Type_get_attr", |value, flag| unsafe {
            get(datatype, key, value, flag)
        })
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

    /// A duplicate of `datatype`, which lives until [`Host::free_type`].
    ///
    /// # Errors
    /// The library's.
    pub fn duplicate_type(&self, datatype: Datatype) -> Result<Datatype, MpiError> {
        let duplicate = self.functions.type_dup;
        // SAFETY: the library checks the handle.
        self.answer("MPI_Type_dup", Datatype(0), |new| unsafe {
            duplicate(datatype, new)
        })
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
                let pack = self.functions.pack;
                // SAFETY: the caller vouches for both buffers.
                self.answer("MPI_Pack", 0, |position| unsafe {
                    pack(from, count, datatype, to, size, position, comm)
                })? as usize
            }
            _ => {
                let pack = self.functions.pack_c;
                let pack = pack.ok_or_else(|| self.too_large("MPI_Pack_c"))?;
                let (count, size) = (count as i64, bytes as i64);
                // SAFETY: as above.
                self.answer("MPI_Pack_c", 0, |position| unsafe {
                    pack(from, count, datatype, to, size, position, comm)
                })? as usize
            }
        };
        match packed == bytes {
            true => Ok(()),
            false => Err(self.too_large("MPI_Pack")),
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
            // SAFETY: the caller vouches for both buffers.
            (Ok(count), Ok(size)) => self.check("MPI_Unpack", unsafe {
                (self.functions.unpack)(from, size, &mut 0, to, count, datatype, comm)
            }),
            _ => {
                let unpack = self.functions.unpack_c;
                let unpack = unpack.ok_or_else(|| self.too_large("MPI_Unpack_c"))?;
                let (count, size) = (count as i64, bytes as i64);
                // SAFETY: as above.
                self.check("MPI_Unpack_c", unsafe {
                    unpack(from, size, &mut 0, to, count, datatype, comm)
                })
            }
        }
    }

    fn too_large(&self, function: &'static str) -> MpiError {
        MpiError::of_class(function, self.constants().errors.count)
    }
}
