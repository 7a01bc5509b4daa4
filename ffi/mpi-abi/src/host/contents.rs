//! What a datatype was made of.

use super::{Host, MpiError};
use crate::{Combiner, Datatype};
use libc::{c_int, c_void};

/// How many arguments the maker of a datatype got (`MPI_Type_get_envelope`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The maker.
    pub combiner: Combiner,
    /// Integers.
    pub integers: usize,
    /// Addresses.
    pub addresses: usize,
    /// `MPI_Count` ones, if it was made by a large-count form.
    pub large: usize,
    /// Datatypes.
    pub datatypes: usize,
}

/// The arguments themselves (`MPI_Type_get_contents`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Integers.
    pub integers: Vec<c_int>,
    /// All other numbers: addresses, then `MPI_Count`s. There is but one kind of them.
    pub wide: Vec<i64>,
    /// Datatypes.
    pub datatypes: Vec<Datatype>,
}

impl Host {
    /// How `datatype` was made, through the form of the query that knows every type there is.
    ///
    /// # Errors
    /// The library's, after its error handler (on `MPI_COMM_WORLD` or `MPI_COMM_SELF`).
    pub fn type_envelope(&self, datatype: Datatype) -> Result<Envelope, MpiError> {
        let mut combiner = 0;
        let (function, code, numbers);
        if let Some(envelope) = self.functions.type_get_envelope_c {
            let mut n = [0i64; 4];
            let [i, a, l, d] = &mut n;
            function = "MPI_Type_get_envelope_c";
            // SAFETY: all results are live.
            code = unsafe { envelope(datatype, i, a, l, d, &mut combiner) };
            numbers = n.map(|n| n as usize);
        } else {
            let mut n = [0; 3];
            let [i, a, d] = &mut n;
            function = "MPI_Type_get_envelope";
            // SAFETY: all results are live.
            code = unsafe { (self.functions.type_get_envelope)(datatype, i, a, d, &mut combiner) };
            let [i, a, d] = n.map(|n| n as usize);
            numbers = [i, a, 0, d];
        }
        self.check(function, code)?;
        let [integers, addresses, large, datatypes] = numbers;
        Ok(Envelope {
            combiner: Combiner::of(self.kind, combiner),
            integers,
            addresses,
            large,
            datatypes,
        })
    }

    /// Runs `look` on the arguments that `datatype`, which is not predefined, was made with. The
    /// datatypes among them are valid meanwhile.
    ///
    /// # Errors
    /// The library's, after its error handler.
    pub fn with_type_contents<R>(
        &self,
        datatype: Datatype,
        envelope: &Envelope,
        look: impl FnOnce(&Contents) -> R,
    ) -> Result<R, MpiError> {
        let contents = self.type_contents(datatype, envelope)?;
        let result = look(&contents);
        for &inner in &contents.datatypes {
            // Each is a reference of our own (MPI 4.1, section 5.1.13), unless predefined.
            if !self.type_envelope(inner)?.combiner.is_predefined() {
                self.free_type(inner)?;
            }
        }
        Ok(result)
    }

    fn type_contents(&self, datatype: Datatype, envelope: &Envelope) -> Result<Contents, MpiError> {
        let mut integers = self.zeros::<c_int>(envelope.integers)?;
        let mut addresses = self.zeros::<isize>(envelope.addresses)?;
        let mut large = self.zeros::<i64>(envelope.large)?;
        // As large and aligned as any layout of handles.
        let mut handles = self.zeros::<u64>(envelope.datatypes)?;
        let mut wide = self.list(envelope.addresses + envelope.large)?;
        let mut datatypes = self.list(envelope.datatypes)?;
        let to: *mut c_void = handles.as_mut_ptr().cast();
        let (function, code);
        // SAFETY: the arrays have the lengths that are passed.
        unsafe {
            if let Some(get) = self.functions.type_get_contents_c {
                function = "MPI_Type_get_contents_c";
                code = get(
                    datatype,
                    integers.len() as i64,
                    addresses.len() as i64,
                    large.len() as i64,
                    handles.len() as i64,
                    integers.as_mut_ptr(),
                    addresses.as_mut_ptr(),
                    large.as_mut_ptr(),
                    to,
                );
            } else {
                function = "MPI_Type_get_contents";
                code = (self.functions.type_get_contents)(
                    datatype,
                    integers.len() as c_int,
                    addresses.len() as c_int,
                    handles.len() as c_int,
                    integers.as_mut_ptr(),
                    addresses.as_mut_ptr(),
                    to,
                );
            }
        }
        self.check(function, code)?;
        let addresses = addresses.into_iter().map(|address| address as i64);
        wide.extend(addresses.chain(large));
        datatypes.extend((0..envelope.datatypes).map(|index| self.handle(&handles, index)));
        Ok(Contents {
            integers,
            wide,
            datatypes,
        })
    }

    /// An empty list with room for `length` entries. A type may have been made with so many numbers that they
    /// take memory which the system has no more.
    fn list<T>(&self, length: usize) -> Result<Vec<T>, MpiError> {
        let mut list = Vec::new();
        let reserved = list.try_reserve_exact(length);
        reserved.map_err(|_| {
            let class = self.constants().errors.no_mem;
            MpiError::of_class("memory for MPI_Type_get_contents", class)
        })?;
        Ok(list)
    }

    fn zeros<T: Clone + Default>(&self, length: usize) -> Result<Vec<T>, MpiError> {
        let mut list = self.list(length)?;
        list.resize(length, T::default());
        Ok(list)
    }

    /// The handle at `index` of those that the library wrote one after another in its own width.
    fn handle(&self, written: &[u64], index: usize) -> Datatype {
        let first: *const u8 = written.as_ptr().cast();
        let at = first.wrapping_add(index * self.kind.handle_bytes());
        // SAFETY: there is a word for each handle, which has that or less; any bytes are a number.
        Datatype(unsafe { self.handle_at(at.cast()) })
    }

    /// Gives up a reference to a type that is the caller's own.
    ///
    /// # Errors
    /// The library's.
    pub fn free_type(&self, datatype: Datatype) -> Result<(), MpiError> {
        let mut datatype = datatype;
        // SAFETY: the handle is live, and a reference of our own.
        let code = unsafe { (self.functions.type_free)(&mut datatype) };
        self.check("MPI_Type_free", code)
    }
}
