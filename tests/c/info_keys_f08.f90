! Settings of one communicator from mpi_f08: with FERRORAIL_ENABLE=0, ferrorail carries the collectives
! of the communicator that says so by info. The first argument is `set` or `dup`: which routine says it.
program info_keys_f08
  use mpi_f08
  implicit none
  type(MPI_Comm) :: comm
  type(MPI_Info) :: info
  integer :: rank, ranks, total
  character(len=3) :: way
  call get_command_argument(1, way)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Info_create(info)
  call MPI_Info_set(info, 'ferrorail_enable', '1')
  if (way == 'set') then
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_set_info(comm, info)
  else
    call MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, comm)
  end if
  call MPI_Info_free(info)
  call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, comm)
  call MPI_Comm_free(comm)
  call MPI_Bcast(total, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
  if (rank == 0) print '(a,a)', 'info_keys_f08 ok=', merge('yes', 'no ', total == ranks * (ranks - 1) / 2)
  call MPI_Finalize()
end program
