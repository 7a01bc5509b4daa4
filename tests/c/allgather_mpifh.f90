! MPI_ALLGATHER through mpif.h: plain, in place, derived types, sub-communicators.
!
!     mpirun -n P allgather_mpifh
program allgather_mpifh
  implicit none
  include 'mpif.h'
  include 'allgather_cases.inc'
end program
