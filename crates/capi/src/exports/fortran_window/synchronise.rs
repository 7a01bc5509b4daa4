//! Synchronisation (MPI 4.1, section 12.5), and attaching memory.

use super::{Aint, In, Int, Out, routines};
use crate::window;
use libc::c_int;

routines! {
    (assert: Int, win: Int) |t, forward| window::run("win_fence", t.win(win), forward, |s, w| window::fence(s, w, *assert))
    , as mpi_win_fence mpi_win_fence_ mpi_win_fence__ MPI_WIN_FENCE; mpi_win_fence_f08_;

    (group: Int, assert: Int, win: Int) |t, forward| window::run("win_post", t.win(win), forward, |s, w| window::post(s, w, t.group(group), *assert))
    , as mpi_win_post mpi_win_post_ mpi_win_post__ MPI_WIN_POST; mpi_win_post_f08_;

    (group: Int, assert: Int, win: Int) |t, forward| window::run("win_start", t.win(win), forward, |s, w| window::start(s, w, t.group(group), *assert))
    , as mpi_win_start mpi_win_start_ mpi_win_start__ MPI_WIN_START; mpi_win_start_f08_;

    (win: Int) |t, forward| window::run("win_complete", t.win(win), forward, window::complete)
    , as mpi_win_complete mpi_win_complete_ mpi_win_complete__ MPI_WIN_COMPLETE; mpi_win_complete_f08_;

    (win: Int) |t, forward| window::run("win_wait", t.win(win), forward, window::wait)
    , as mpi_win_wait mpi_win_wait_ mpi_win_wait__ MPI_WIN_WAIT; mpi_win_wait_f08_;

    (win: Int) |t, forward| window::run("win_unlock_all", t.win(win), forward, window::unlock_all)
    , as mpi_win_unlock_all mpi_win_unlock_all_ mpi_win_unlock_all__ MPI_WIN_UNLOCK_ALL; mpi_win_unlock_all_f08_;

    (win: Int) |t, forward| window::run("win_flush_all", t.win(win), forward, window::flush_all)
    , as mpi_win_flush_all mpi_win_flush_all_ mpi_win_flush_all__ MPI_WIN_FLUSH_ALL; mpi_win_flush_all_f08_;

    (win: Int) |t, forward| window::run("win_flush_local_all", t.win(win), forward, window::flush_local_all)
    , as mpi_win_flush_local_all mpi_win_flush_local_all_ mpi_win_flush_local_all__ MPI_WIN_FLUSH_LOCAL_ALL; mpi_win_flush_local_all_f08_;

    (win: Int) |t, forward| window::run("win_sync", t.win(win), forward, window::sync)
    , as mpi_win_sync mpi_win_sync_ mpi_win_sync__ MPI_WIN_SYNC; mpi_win_sync_f08_;

    (win: Int, flag: *mut c_int) |t, forward| window::run("win_test", t.win(win), forward, |_s, w| window::test(w, flag))
    , as mpi_win_test mpi_win_test_ mpi_win_test__ MPI_WIN_TEST; mpi_win_test_f08_;

    (kind: Int, rank: Int, assert: Int, win: Int) |t, forward| window::run("win_lock", t.win(win), forward, |s, w| window::lock(s, w, *kind, *rank, *assert))
    , as mpi_win_lock mpi_win_lock_ mpi_win_lock__ MPI_WIN_LOCK; mpi_win_lock_f08_;

    (assert: Int, win: Int) |t, forward| window::run("win_lock_all", t.win(win), forward, |s, w| window::lock_all(s, w, *assert))
    , as mpi_win_lock_all mpi_win_lock_all_ mpi_win_lock_all__ MPI_WIN_LOCK_ALL; mpi_win_lock_all_f08_;

    (rank: Int, win: Int) |t, forward| window::run("win_unlock", t.win(win), forward, |s, w| window::unlock(s, w, *rank))
    , as mpi_win_unlock mpi_win_unlock_ mpi_win_unlock__ MPI_WIN_UNLOCK; mpi_win_unlock_f08_;

    (rank: Int, win: Int) |t, forward| window::run("win_flush", t.win(win), forward, |s, w| window::flush(s, w, *rank))
    , as mpi_win_flush mpi_win_flush_ mpi_win_flush__ MPI_WIN_FLUSH; mpi_win_flush_f08_;

    (rank: Int, win: Int) |t, forward| window::run("win_flush_local", t.win(win), forward, |s, w| window::flush_local(s, w, *rank))
    , as mpi_win_flush_local mpi_win_flush_local_ mpi_win_flush_local__ MPI_WIN_FLUSH_LOCAL; mpi_win_flush_local_f08_;

    (win: Int, base: Out, bytes: Aint) |t, forward| window::run("win_attach", t.win(win), forward, |_s, w| window::attach(w, t.address(base), *bytes))
    , as mpi_win_attach mpi_win_attach_ mpi_win_attach__ MPI_WIN_ATTACH; mpi_win_attach_f08_;

    (win: Int, base: In) |t, forward| window::run("win_detach", t.win(win), forward, |_s, w| window::detach(w, t.address(base)))
    , as mpi_win_detach mpi_win_detach_ mpi_win_detach__ MPI_WIN_DETACH; mpi_win_detach_f08_;
}
