//! Making, freeing and asking about windows (MPI 4.1, section 12.2).

use super::{Aint, Int, Out, entry, routines};
use crate::window::{self, Allocation, NewWindow};
use libc::{c_int, c_void};

routines! {
    (base: Out, bytes: Aint, unit: Int, info: Int, comm: Int, win: *mut c_int) |t, forward| t.made_window(win, |window| {
        let args = NewWindow {
            bytes: *bytes as i64,
            unit: i64::from(*unit),
            allocation: Allocation::None { base: t.address(base) },
            info: t.info(info),
            comm: t.comm(comm),
            window,
        };
        window::create("win_create", &args, forward)
    })
    , as mpi_win_create mpi_win_create_ mpi_win_create__ MPI_WIN_CREATE; mpi_win_create_f08_;

    (bytes: Aint, unit: Int, info: Int, comm: Int, base: Out, win: *mut c_int) |t, forward| t.made_window(win, |window| {
        let args = NewWindow {
            bytes: *bytes as i64,
            unit: i64::from(*unit),
            allocation: Allocation::Private { base },
            info: t.info(info),
            comm: t.comm(comm),
            window,
        };
        window::create("win_allocate", &args, forward)
    })
    , as mpi_win_allocate mpi_win_allocate_ mpi_win_allocate__ MPI_WIN_ALLOCATE mpi_win_allocate_cptr mpi_win_allocate_cptr_ mpi_win_allocate_cptr__ MPI_WIN_ALLOCATE_CPTR; mpi_win_allocate_f08_;

    (bytes: Aint, unit: Int, info: Int, comm: Int, base: Out, win: *mut c_int) |t, forward| t.made_window(win, |window| {
        let args = NewWindow {
            bytes: *bytes as i64,
            unit: i64::from(*unit),
            allocation: Allocation::Shared { base },
            info: t.info(info),
            comm: t.comm(comm),
            window,
        };
        window::create("win_allocate_shared", &args, forward)
    })
    , as mpi_win_allocate_shared mpi_win_allocate_shared_ mpi_win_allocate_shared__ MPI_WIN_ALLOCATE_SHARED mpi_win_allocate_shared_cptr mpi_win_allocate_shared_cptr_ mpi_win_allocate_shared_cptr__ MPI_WIN_ALLOCATE_SHARED_CPTR; mpi_win_allocate_shared_f08_;

    (info: Int, comm: Int, win: *mut c_int) |t, forward| t.made_window(win, |window| {
        let args = NewWindow {
            bytes: 0,
            unit: 1,
            allocation: Allocation::Dynamic,
            info: t.info(info),
            comm: t.comm(comm),
            window,
        };
        window::create("win_create_dynamic", &args, forward)
    })
    , as mpi_win_create_dynamic mpi_win_create_dynamic_ mpi_win_create_dynamic__ MPI_WIN_CREATE_DYNAMIC; mpi_win_create_dynamic_f08_;

    (win: *mut c_int) |t, forward| {
        let mut handle = t.win(win);
        window::free((&raw mut handle).cast(), forward)
    }
    , as mpi_win_free mpi_win_free_ mpi_win_free__ MPI_WIN_FREE; mpi_win_free_f08_;

    (win: Int, rank: Int, bytes: *mut isize, unit: *mut c_int, base: Out) |t, forward| window::run("win_shared_query", t.win(win), forward, |s, w| {
        let found = window::shared_query(s, w, *rank)?;
        base.cast::<Out>().write_unaligned(found.0);
        (*bytes, *unit) = (found.1, found.2);
        Ok(())
    })
    , as mpi_win_shared_query mpi_win_shared_query_ mpi_win_shared_query__ MPI_WIN_SHARED_QUERY mpi_win_shared_query_cptr mpi_win_shared_query_cptr_ mpi_win_shared_query_cptr__ MPI_WIN_SHARED_QUERY_CPTR; mpi_win_shared_query_f08_;
}

/// All spellings of `MPI_WIN_GET_ATTR`, which no library passes on to C.
macro_rules! attributes {
    ($($name:ident)*) => {$(
        entry!(
            $name,
            true,
            (win: Int, key: Int, value: *mut isize, flag: *mut c_int),
            |t, forward| {
                let none = std::ptr::without_provenance(usize::MAX);
                let mut found: *const c_void = none;
                let to = (&raw mut found).cast();
                let code = window::attribute(t.win(win), t.key(key), to, flag, forward);
                if found != none {
                    *value = window::attribute_value(t.key(key), found);
                }
                code
            }
        );
    )*};
}

attributes! {
    mpi_win_get_attr mpi_win_get_attr_ mpi_win_get_attr__ MPI_WIN_GET_ATTR mpi_win_get_attr_f08_
}
