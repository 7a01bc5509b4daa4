! MPI_Allgather through `use mpi_f08`: the cases of the other Fortran programs, with typed handles
! and, in some calls, without the optional ierror.
!
!     mpirun -n P allgather_f08
program allgather_f08
  use mpi_f08
  implicit none
  integer, parameter :: most = 3000
  integer :: ierr, rank, ranks, provided, parity_rank, parity_size
  type(MPI_Datatype) :: half_type, pair_type
  type(MPI_Comm) :: half
  integer :: n, peer, i, failures, checks, mine_sum(2), all_sum(2), sizes(6)
  integer, allocatable :: mine(:), all(:), counts(:), places(:)
  double precision, allocatable :: column(:), table(:, :)

  call MPI_INIT_THREAD(MPI_THREAD_SERIALIZED, provided, ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
  failures = 0
  checks = 0
  sizes = (/ 0, 1, 2, 17, 500, most /)
  allocate(mine(most), all(2 * most * ranks), counts(ranks), places(ranks), column(8), table(8, ranks))

  do i = 1, 6
    n = sizes(i)
    all = -1
    mine(1:n) = (/ (value(rank, peer), peer = 1, n) /)
    call MPI_ALLGATHER(mine, n, MPI_INTEGER, all, n, MPI_INTEGER, MPI_COMM_WORLD, ierr)
    call verify(n, ranks)
    all = -1
    all(rank * n + 1:rank * n + n) = mine(1:n)
    call MPI_ALLGATHER(MPI_IN_PLACE, 0, MPI_INTEGER, all, n, MPI_INTEGER, &
                       MPI_COMM_WORLD, ierr)
    call verify(n, ranks)
  end do

  ! Doubles as columns of a table.
  column = dble(rank) + 0.25d0
  call MPI_ALLGATHER(column, 8, MPI_DOUBLE_PRECISION, table, 8, MPI_DOUBLE_PRECISION, &
                     MPI_COMM_WORLD)
  do peer = 0, ranks - 1
    call expect(all_equal(table(:, peer + 1), dble(peer) + 0.25d0))
  end do

  ! The other collectives, rank 0 being the root.
  n = 17
  call MPI_BARRIER(MPI_COMM_WORLD)
  mine(1:n) = (/ (value(rank, peer), peer = 1, n) /)
  all = -1
  if (rank == 0) then
    all(1:n) = mine(1:n)
    call MPI_GATHER(MPI_IN_PLACE, n, MPI_INTEGER, all, n, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
    call expect(ierr == MPI_SUCCESS)
  else
    call MPI_GATHER(mine, n, MPI_INTEGER, all, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call expect(all(1) == -1)
  end if
  call MPI_BCAST(all, n * ranks, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call verify(n, ranks)
  mine = -1
  call MPI_SCATTER(all, n, MPI_INTEGER, mine, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
  do i = 1, n
    call expect(mine(i) == value(rank, i))
  end do
  do peer = 0, ranks - 1
    all(peer * n + 1:peer * n + n) = mine(1:n)
  end do
  call MPI_ALLTOALL(MPI_IN_PLACE, n, MPI_INTEGER, all, n, MPI_INTEGER, MPI_COMM_WORLD)
  call verify(n, ranks)

  ! The vector forms: the same, said with tables.
  counts = n
  places = (/ (peer * n, peer = 0, ranks - 1) /)
  mine(1:n) = (/ (value(rank, peer), peer = 1, n) /)
  all = -1
  call MPI_ALLGATHERV(mine, n, MPI_INTEGER, all, counts, places, MPI_INTEGER, &
                      MPI_COMM_WORLD)
  call verify(n, ranks)
  all = -1
  if (rank == 0) all(1:n) = mine(1:n)
  if (rank == 0) then
    call MPI_GATHERV(MPI_IN_PLACE, n, MPI_INTEGER, all, counts, places, MPI_INTEGER, 0, &
                     MPI_COMM_WORLD)
    call verify(n, ranks)
  else
    call MPI_GATHERV(mine, n, MPI_INTEGER, all, counts, places, MPI_INTEGER, 0, &
                     MPI_COMM_WORLD)
    call expect(all(1) == -1)
  end if
  mine = -1
  call MPI_SCATTERV(all, counts, places, MPI_INTEGER, mine, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
  do i = 1, n
    call expect(mine(i) == value(rank, i))
  end do
  all = -1
  do peer = 0, ranks - 1
    all(peer * n + 1:peer * n + n) = mine(1:n)
  end do
  call MPI_ALLTOALLV(MPI_IN_PLACE, counts, places, MPI_INTEGER, all, counts, places, &
                     MPI_INTEGER, MPI_COMM_WORLD)
  call verify(n, ranks)

  ! Every second integer of the receive buffer.
  call MPI_TYPE_VECTOR(17, 1, 2, MPI_INTEGER, half_type)
  call MPI_TYPE_CREATE_RESIZED(half_type, int(0, MPI_ADDRESS_KIND), int(136, MPI_ADDRESS_KIND), &
                               pair_type, ierr)
  call MPI_TYPE_COMMIT(pair_type, ierr)
  all = -1
  mine(1:17) = (/ (value(rank, peer), peer = 1, 17) /)
  call MPI_ALLGATHER(mine, 17, MPI_INTEGER, all, 1, pair_type, MPI_COMM_WORLD)
  do peer = 0, ranks - 1
    do i = 1, 17
      call expect(all(peer * 34 + 2 * i - 1) == value(peer, i))
      call expect(all(peer * 34 + 2 * i) == -1)
    end do
  end do
  call MPI_TYPE_FREE(pair_type, ierr)
  call MPI_TYPE_FREE(half_type)

  ! Odd and even ranks apart, in reverse order.
  call MPI_COMM_SPLIT(MPI_COMM_WORLD, mod(rank, 2), ranks - rank, half, ierr)
  call MPI_COMM_RANK(half, parity_rank, ierr)
  call MPI_COMM_SIZE(half, parity_size, ierr)
  all = -1
  mine(1:500) = (/ (value(parity_rank, peer), peer = 1, 500) /)
  call MPI_ALLGATHER(mine, 500, MPI_INTEGER, all, 500, MPI_INTEGER, half, ierr)
  call verify(500, parity_size)
  call MPI_COMM_FREE(half, ierr)

  mine_sum = (/ checks, failures /)
  call MPI_ALLREDUCE(mine_sum, all_sum, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0) then
    write (*, '(a,i0,a,i0,a,i0,a,a)') 'allgather_f ranks=', ranks, ' checks=', all_sum(1), &
      ' failures=', all_sum(2), ' ok=', merge('yes', 'no ', all_sum(2) == 0)
  end if
  call MPI_FINALIZE()
  if (all_sum(2) /= 0) stop 1

contains

  integer function value(from, at)
    integer, intent(in) :: from, at
    value = mod(from * 7919 + at * 104729, 1000003)
  end function

  logical function all_equal(values, wanted)
    double precision, intent(in) :: values(:), wanted
    all_equal = maxval(abs(values - wanted)) == 0d0
  end function

  subroutine expect(holds)
    logical, intent(in) :: holds
    checks = checks + 1
    if (.not. holds) failures = failures + 1
  end subroutine

  subroutine verify(count, blocks)
    integer, intent(in) :: count, blocks
    integer :: from, at
    call expect(ierr == MPI_SUCCESS)
    do from = 0, blocks - 1
      do at = 1, count
        call expect(all(from * count + at) == value(from, at))
      end do
    end do
    call expect(all(blocks * count + 1) == -1)
  end subroutine
end program
