//! Open MPI's Fortran constants: addresses of common blocks, whose names depend on the compiler.

use crate::functions::FromFortran;
use crate::library::Library;
use crate::{Comm, Constants, Datatype, Group, Info, Op, Request, Win};
use libc::c_int;

/// Addresses that mean `MPI_IN_PLACE` and `MPI_BOTTOM` when a Fortran routine of Open MPI is
/// called (`ompi/mpi/fortran/base/constants.h`). An unused spelling is 0, which no argument equals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FortranSentinels {
    in_place: [usize; 4],
    bottom: [usize; 4],
}

impl FortranSentinels {
    /// Looks them up as data, since programs hold copies of them.
    pub(crate) fn load(library: &Library) -> Self {
        let address = |name: &str| {
            library
                .data(name)
                .map_or(0, |address| address.as_ptr() as usize)
        };
        let spellings = |upper: &str| {
            let lower = upper.to_ascii_lowercase();
            [
                upper.to_owned(),
                lower.clone(),
                format!("{lower}_"),
                format!("{lower}__"),
            ]
            .map(|name| address(&name))
        };
        Self {
            in_place: spellings("MPI_FORTRAN_IN_PLACE"),
            bottom: spellings("MPI_FORTRAN_BOTTOM"),
        }
    }

    /// The address that C callers would have passed for the Fortran argument `address`.
    pub fn to_c(&self, address: usize, constants: &Constants) -> usize {
        if address == 0 {
            address
        } else if self.in_place.contains(&address) {
            constants.in_place
        } else if self.bottom.contains(&address) {
            constants.bottom
        } else {
            address
        }
    }
}

/// Handles of Fortran arguments as C handles, and back.
#[derive(Clone, Copy, Debug)]
pub struct FortranHandles(Option<FromFortran>);

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident: $handle:ident;)*) => {
        impl FortranHandles {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(&self, handle: c_int) -> $handle {
                    match &self.0 {
                        // SAFETY: any integer is accepted; wrong ones become the null handle.
                        Some(convert) => unsafe { (convert.$name)(handle) },
                        None => $handle(handle as u32 as usize),
                    }
                }
            )*
        }
    };
}

handles! {
    /// A communicator.
    comm: Comm;
    /// A datatype.
    datatype: Datatype;
    /// An operation.
    op: Op;
    /// Hints.
    info: Info;
    /// A group.
    group: Group;
    /// A window.
    win: Win;
}

impl FortranHandles {
    /// Fortran's handles are C's (MPICH).
    pub(crate) const SAME: Self = Self(None);

    pub(crate) fn converted(by: FromFortran) -> Self {
        Self(Some(by))
    }

    /// A window's handle in Fortran.
    #[must_use]
    pub fn win_back(&self, handle: Win) -> c_int {
        match &self.0 {
            // SAFETY: a live handle.
            Some(convert) => unsafe { (convert.win_back)(handle) },
            None => handle.0 as c_int,
        }
    }

    /// A request's handle in Fortran.
    #[must_use]
    pub fn request_back(&self, handle: Request) -> c_int {
        match &self.0 {
            // SAFETY: a live handle.
            Some(convert) => unsafe { (convert.request_back)(handle) },
            None => handle.0 as c_int,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AbiKind;

    #[test]
    fn sentinels_become_c_constants_and_addresses_stay() {
        let sentinels = FortranSentinels {
            in_place: [0, 0, 64, 0],
            bottom: [0, 0, 128, 0],
        };
        let constants = Constants::of(AbiKind::OpenMpi);
        let to_c = |address| sentinels.to_c(address, constants);
        assert_eq!([0, 64, 128, 192].map(to_c), [0, 1, 0, 192]);
    }
}
