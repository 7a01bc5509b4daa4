! The same as info_keys_f08.f90, from mpif.h.
program info_keys_mpifh
  implicit none
  include 'mpif.h'
  integer :: comm, info, rank, ranks, total, error
  character(len=3) :: way
  call get_command_argument(1, way)
  call MPI_INIT(error)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, error)
  call MPI_INFO_CREATE(info, error)
  call MPI_INFO_SET(info, 'ferrorail_enable', '1', error)
  if (way == 'set') then
    call MPI_COMM_DUP(MPI_COMM_WORLD, comm, error)
    call MPI_COMM_SET_INFO(comm, info, error)
  else
    call MPI_COMM_DUP_WITH_INFO(MPI_COMM_WORLD, info, comm, error)
  end if
  call MPI_INFO_FREE(info, error)
  call MPI_ALLREDUCE(rank, total, 1, MPI_INTEGER, MPI_SUM, comm, error)
  call MPI_COMM_FREE(comm, error)
  call MPI_BCAST(total, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(a,a)', 'info_keys_mpifh ok=', merge('yes', 'no ', total == ranks * (ranks - 1) / 2)
  call MPI_FINALIZE(error)
end program
