! One-sided communication from Fortran: mpi_f08. Prints `windows_f08 ranks=N ok=yes|no`.
program windows_f08
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    type(MPI_Win) :: win
    type(MPI_Group) :: world
    type(MPI_Request) :: request
    type(c_ptr) :: base
    integer, pointer :: memory(:)
    integer :: rank, ranks, right, left, wrong, all_wrong, before, value, i
    integer(MPI_ADDRESS_KIND) :: bytes, found
    logical :: flag
    integer, asynchronous :: mine(100), got(100)

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    right = mod(rank + 1, ranks)
    left = mod(rank + ranks - 1, ranks)
    wrong = 0
    bytes = 4 * 200
    call MPI_Win_allocate(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
    call c_f_pointer(base, memory, [200])
    memory = 0
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, found, flag)
    if (.not. flag .or. found /= bytes) wrong = wrong + 1
    call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, found, flag)
    if (.not. flag .or. found /= 4) wrong = wrong + 1
    mine = [(1000 * rank + i, i = 1, 100)]
    call MPI_Win_fence(0, win)
    call MPI_Put(mine, 100, MPI_INTEGER, right, 0_MPI_ADDRESS_KIND, 100, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    if (any(memory(1:100) /= [(1000 * left + i, i = 1, 100)])) wrong = wrong + 1
    call MPI_Get(got, 100, MPI_INTEGER, right, 0_MPI_ADDRESS_KIND, 100, MPI_INTEGER, win)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win)
    if (any(got /= mine)) wrong = wrong + 1
    do i = 1, 10
        call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)
        call MPI_Get(value, 1, MPI_INTEGER, 0, 150_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win)
        call MPI_Win_flush(0, win)
        value = value + 1
        call MPI_Put(value, 1, MPI_INTEGER, 0, 150_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win)
        call MPI_Win_unlock(0, win)
    end do
    call MPI_Win_lock_all(0, win)
    call MPI_Fetch_and_op(1, before, MPI_INTEGER, 0, 151_MPI_ADDRESS_KIND, MPI_SUM, win)
    call MPI_Accumulate(mine, 1, MPI_INTEGER, 0, 152_MPI_ADDRESS_KIND, 1, MPI_INTEGER, MPI_MAX, win)
    call MPI_Rget(got, 1, MPI_INTEGER, left, 0_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Win_unlock_all(win)
    if (before < 0 .or. before >= ranks) wrong = wrong + 1
    if (got(1) /= 1000 * mod(left + ranks - 1, ranks) + 1) wrong = wrong + 1
    call MPI_Comm_group(MPI_COMM_WORLD, world)
    call MPI_Win_post(world, 0, win)
    call MPI_Win_start(world, 0, win)
    call MPI_Put(rank, 1, MPI_INTEGER, right, 160_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win)
    call MPI_Win_complete(win)
    call MPI_Win_wait(win)
    if (memory(161) /= left) wrong = wrong + 1
    if (rank == 0) then
        if (memory(151) /= 10 * ranks .or. memory(152) /= ranks) wrong = wrong + 1
        if (memory(153) /= 1000 * (ranks - 1) + 1) wrong = wrong + 1
    end if
    call MPI_Group_free(world)
    call MPI_Win_free(win)
    if (win /= MPI_WIN_NULL) wrong = wrong + 1
    call MPI_Win_create(mine, bytes / 2, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
    call MPI_Win_fence(0, win)
    call MPI_Put(rank, 1, MPI_INTEGER, right, 99_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win)
    if (mine(100) /= left) wrong = wrong + 1
    call MPI_Win_free(win)
    call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0) then
        if (all_wrong == 0) print '(a,i0,a)', 'windows_f08 ranks=', ranks, ' ok=yes'
        if (all_wrong /= 0) print '(a,i0,a)', 'windows_f08 ranks=', ranks, ' ok=no'
    end if
    call MPI_Finalize()
    if (all_wrong /= 0) stop 1
end program
