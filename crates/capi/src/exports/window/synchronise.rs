//! Synchronisation (MPI 4.1, section 12.5).

use super::{In, Out, call};
use crate::window;
use libc::c_int;

macro_rules! calls {
    ($($name:ident $label:literal $before:tt $after:tt
       |$session:ident, $entry:ident| $call:expr;)*) => {
        $(call!($name, $label, $before, $after, |$session, $entry| $call);)*
    };
}

calls! {
    MPI_Win_fence "win_fence" (assert: c_int) () |s, w| window::fence(s, w, assert);
    MPI_Win_post "win_post" (group: usize, assert: c_int) ()
        |s, w| window::post(s, w, group, assert);
    MPI_Win_start "win_start" (group: usize, assert: c_int) ()
        |s, w| window::start(s, w, group, assert);
    MPI_Win_complete "win_complete" () () |s, w| window::complete(s, w);
    MPI_Win_wait "win_wait" () () |s, w| window::wait(s, w);
    MPI_Win_test "win_test" () (flag: *mut c_int) |_s, w| window::test(w, flag);
    MPI_Win_lock "win_lock" (kind: c_int, rank: c_int, assert: c_int) ()
        |s, w| window::lock(s, w, kind, rank, assert);
    MPI_Win_unlock "win_unlock" (rank: c_int) () |s, w| window::unlock(s, w, rank);
    MPI_Win_lock_all "win_lock_all" (assert: c_int) () |s, w| window::lock_all(s, w, assert);
    MPI_Win_unlock_all "win_unlock_all" () () |s, w| window::unlock_all(s, w);
    MPI_Win_flush "win_flush" (rank: c_int) () |s, w| window::flush(s, w, rank);
    MPI_Win_flush_local "win_flush_local" (rank: c_int) ()
        |s, w| window::flush_local(s, w, rank);
    MPI_Win_flush_all "win_flush_all" () () |s, w| window::flush_all(s, w);
    MPI_Win_flush_local_all "win_flush_local_all" () () |s, w| window::flush_local_all(s, w);
    MPI_Win_sync "win_sync" () () |s, w| window::sync(s, w);
    MPI_Win_attach "win_attach" () (base: Out, bytes: isize)
        |_s, w| window::attach(w, base, bytes);
    MPI_Win_detach "win_detach" () (base: In) |_s, w| window::detach(w, base);
}
