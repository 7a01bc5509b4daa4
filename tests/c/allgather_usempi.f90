! MPI_ALLGATHER through `use mpi`: plain, in place, derived types, sub-communicators.
!
!     mpirun -n P allgather_usempi
program allgather_usempi
  use mpi
  implicit none
  include 'allgather_cases.inc'
end program
