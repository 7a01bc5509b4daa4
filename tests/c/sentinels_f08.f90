! Fortran's MPI_BOTTOM and MPI_IN_PLACE in every argument where they may stand: `use mpi_f08`.
!
!     mpirun -n P sentinels_f08
module memory
  implicit none
  integer, parameter :: n = 100
  ! Of a module, as a call may change what its arguments do not name.
  integer :: mine(n)
  integer, allocatable :: all(:)
end module

program sentinels_f08
  use mpi_f08
  use memory
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank, ranks, checks, failures, peer, counts_sum(2), all_sum(2)
  integer, allocatable :: counts(:), places(:)
  type(MPI_Datatype) :: own, part, whole

  call MPI_INIT()
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks)
  failures = 0
  checks = 0
  allocate(all(n * ranks), counts(ranks), places(ranks))
  counts = n
  places = (/ (peer * n, peer = 0, ranks - 1) /)
  call absolute_types()
  call from_bottom()
  call in_place()
  call windows()
  call MPI_TYPE_FREE(own)
  call MPI_TYPE_FREE(part)
  call MPI_TYPE_FREE(whole)

  counts_sum = (/ checks, failures /)
  call MPI_ALLREDUCE(counts_sum, all_sum, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) then
    write (*, '(a,i0,a,i0,a,i0,a,a)') 'sentinels_f ranks=', ranks, ' checks=', all_sum(1), &
      ' failures=', all_sum(2), ' ok=', merge('yes', 'no ', all_sum(2) == 0)
  end if
  call MPI_FINALIZE()
  if (all_sum(2) /= 0) stop 1

contains

  ! `own` is `mine`, `whole` is `all`, and the k-th `part` is the k-th block of `all`.
  subroutine absolute_types()
    type(MPI_Datatype) :: block
    integer(MPI_ADDRESS_KIND) :: at(1)
    integer :: length(1)
    length = n
    call MPI_GET_ADDRESS(mine, at(1))
    call MPI_TYPE_CREATE_HINDEXED(1, length, at, MPI_INTEGER, own)
    call MPI_GET_ADDRESS(all, at(1))
    call MPI_TYPE_CREATE_HINDEXED(1, length, at, MPI_INTEGER, block)
    call MPI_TYPE_CREATE_RESIZED(block, 0_MPI_ADDRESS_KIND, int(4 * n, MPI_ADDRESS_KIND), part)
    call MPI_TYPE_FREE(block)
    length = n * ranks
    call MPI_TYPE_CREATE_HINDEXED(1, length, at, MPI_INTEGER, whole)
    call MPI_TYPE_COMMIT(own)
    call MPI_TYPE_COMMIT(part)
    call MPI_TYPE_COMMIT(whole)
  end subroutine

  subroutine from_bottom()
    integer :: one(ranks), kth(ranks)
    one = 1
    kth = (/ (peer, peer = 0, ranks - 1) /)
    call start()
    call MPI_ALLGATHER(MPI_BOTTOM, 1, own, MPI_BOTTOM, 1, part, MPI_COMM_WORLD)
    call verify()
    call start()
    call MPI_ALLGATHERV(MPI_BOTTOM, 1, own, MPI_BOTTOM, one, kth, part, MPI_COMM_WORLD)
    call verify()
    if (rank /= 0) all = -1
    call MPI_BCAST(MPI_BOTTOM, 1, whole, 0, MPI_COMM_WORLD)
    call verify()
    mine = -1
    call MPI_SCATTER(MPI_BOTTOM, 1, part, MPI_BOTTOM, 1, own, 0, MPI_COMM_WORLD)
    call verify_mine()
    mine = -1
    call MPI_SCATTERV(MPI_BOTTOM, one, kth, part, MPI_BOTTOM, 1, own, 0, MPI_COMM_WORLD)
    call verify_mine()
    call start()
    call MPI_GATHER(MPI_BOTTOM, 1, own, MPI_BOTTOM, 1, part, 0, MPI_COMM_WORLD)
    if (rank == 0) call verify()
    call start()
    call MPI_GATHERV(MPI_BOTTOM, 1, own, MPI_BOTTOM, one, kth, part, 0, MPI_COMM_WORLD)
    if (rank == 0) call verify()
  end subroutine

  subroutine in_place()
    call start()
    call MPI_ALLGATHER(mine, n, MPI_INTEGER, all, n, MPI_INTEGER, MPI_COMM_WORLD)
    ! The root keeps its block: a receive buffer that is MPI_IN_PLACE.
    mine = -1
    if (rank == 0) then
      call MPI_SCATTER(all, n, MPI_INTEGER, MPI_IN_PLACE, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
      call expect(all_are(mine, -1))
    else
      call MPI_SCATTER(all, n, MPI_INTEGER, mine, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
      call verify_mine()
    end if
    call verify()
    mine = -1
    if (rank == 0) then
      call MPI_SCATTERV(all, counts, places, MPI_INTEGER, MPI_IN_PLACE, n, MPI_INTEGER, 0, &
                        MPI_COMM_WORLD)
      call expect(all_are(mine, -1))
    else
      call MPI_SCATTERV(all, counts, places, MPI_INTEGER, mine, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
      call verify_mine()
    end if
    mine = rank + 1
    call MPI_ALLREDUCE(MPI_IN_PLACE, mine, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call expect(all_are(mine, ranks * (ranks + 1) / 2))
    mine = rank + 1
    if (rank == 0) then
      call MPI_REDUCE(MPI_IN_PLACE, mine, n, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
      call expect(all_are(mine, ranks * (ranks + 1) / 2))
    else
      call MPI_REDUCE(mine, all, n, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
      call expect(all_are(mine, rank + 1))
    end if
    mine = rank + 1
    call MPI_SCAN(MPI_IN_PLACE, mine, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call expect(all_are(mine, (rank + 1) * (rank + 2) / 2))
    all = rank + 1
    call MPI_REDUCE_SCATTER_BLOCK(MPI_IN_PLACE, all, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call expect(all_are(all(1:n), ranks * (ranks + 1) / 2))
  end subroutine

  ! Origins and results at MPI_BOTTOM.
  subroutine windows()
    type(MPI_Win) :: win
    type(c_ptr) :: base
    integer, pointer :: there(:)
    integer :: right, left
    integer(MPI_ADDRESS_KIND) :: bytes
    right = mod(rank + 1, ranks)
    left = mod(rank + ranks - 1, ranks)
    bytes = 4 * n
    call MPI_WIN_ALLOCATE(bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win)
    call c_f_pointer(base, there, [n])
    there = -1
    mine = rank
    call MPI_WIN_FENCE(0, win)
    call MPI_PUT(MPI_BOTTOM, 1, own, right, 0_MPI_ADDRESS_KIND, n, MPI_INTEGER, win)
    call MPI_WIN_FENCE(0, win)
    call expect(all_are(there, left))
    mine = -1
    call MPI_GET(MPI_BOTTOM, 1, own, right, 0_MPI_ADDRESS_KIND, n, MPI_INTEGER, win)
    call MPI_WIN_FENCE(0, win)
    call expect(all_are(mine, rank))
    mine = 1000
    call MPI_ACCUMULATE(MPI_BOTTOM, 1, own, right, 0_MPI_ADDRESS_KIND, n, MPI_INTEGER, MPI_SUM, win)
    call MPI_WIN_FENCE(0, win)
    call expect(all_are(there, left + 1000))
    call MPI_WIN_FREE(win)
  end subroutine

  subroutine start()
    integer :: at
    all = -1
    mine = (/ (value(rank, at), at = 1, n) /)
  end subroutine

  integer function value(from, at)
    integer, intent(in) :: from, at
    value = mod(from * 7919 + at * 104729, 1000003)
  end function

  logical function all_are(values, wanted)
    integer, intent(in) :: values(:), wanted
    all_are = minval(values) == wanted .and. maxval(values) == wanted
  end function

  subroutine verify()
    integer :: from, at
    do from = 0, ranks - 1
      do at = 1, n
        call expect(all(from * n + at) == value(from, at))
      end do
    end do
  end subroutine

  subroutine verify_mine()
    integer :: at
    do at = 1, n
      call expect(mine(at) == value(rank, at))
    end do
  end subroutine

  subroutine expect(holds)
    logical, intent(in) :: holds
    checks = checks + 1
    if (.not. holds) failures = failures + 1
  end subroutine
end program
