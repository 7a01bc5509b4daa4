//! Synchronisation (MPI 4.1, section 12.5), and memory of dynamic windows (section 12.2.4).

use super::{In, Out, calls};
use crate::window;
use ferrorail_engine::OneSided;
use libc::c_int;

calls! {
    MPI_Win_fence(assert: c_int, win: usize) "win_fence" on win
        |s, w| window::fence(s, w, assert);
    MPI_Win_post(group: usize, assert: c_int, win: usize) "win_post" on win
        |s, w| window::post(s, w, group, assert);
    MPI_Win_start(group: usize, assert: c_int, win: usize) "win_start" on win
        |s, w| window::start(s, w, group, assert);
    MPI_Win_complete(win: usize) "win_complete" on win
        |_s, w| Ok(w.onesided().complete()?);
    MPI_Win_wait(win: usize) "win_wait" on win
        |_s, w| Ok(w.onesided().wait()?);
    MPI_Win_test(win: usize, flag: *mut c_int) "win_test" on win
        |_s, w| window::test(w, flag);
    MPI_Win_lock(kind: c_int, rank: c_int, assert: c_int, win: usize) "win_lock" on win
        |s, w| window::lock(s, w, kind, rank, assert);
    MPI_Win_unlock(rank: c_int, win: usize) "win_unlock" on win
        |s, w| window::at(s, w, rank, OneSided::unlock);
    MPI_Win_lock_all(assert: c_int, win: usize) "win_lock_all" on win
        |s, w| window::lock_all(s, w, assert);
    MPI_Win_unlock_all(win: usize) "win_unlock_all" on win
        |_s, w| Ok(w.onesided().unlock_all()?);
    MPI_Win_flush(rank: c_int, win: usize) "win_flush" on win
        |s, w| window::at(s, w, rank, OneSided::flush);
    MPI_Win_flush_local(rank: c_int, win: usize) "win_flush_local" on win
        |s, w| window::at(s, w, rank, OneSided::flush_local);
    MPI_Win_flush_all(win: usize) "win_flush_all" on win
        |_s, w| Ok(w.onesided().flush_all()?);
    MPI_Win_flush_local_all(win: usize) "win_flush_local_all" on win
        |_s, w| Ok(w.onesided().flush_local_all()?);
    MPI_Win_sync(win: usize) "win_sync" on win
        |_s, w| { w.onesided().sync(); Ok(()) };
    MPI_Win_attach(win: usize, base: Out, bytes: isize) "win_attach" on win
        |_s, w| window::attach(w, base, bytes);
    MPI_Win_detach(win: usize, base: In) "win_detach" on win
        |_s, w| window::detach(w, base);
}
