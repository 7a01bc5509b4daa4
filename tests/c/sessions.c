/* Communicators made from sessions (MPI 4.0, chapter 11), of all processes and of some: right results,
 * whether the world is there or not, and however often.
 *
 *     mpirun -n P sessions alone|beside|before
 *
 * alone: MPI_Init is never called, and one session only: MPICH 4.0 and 5.0 alone crash or hang in a second one
 * then. beside: it is called before the sessions, before: after the first.
 */
#include "presence_check.h"

static MPI_Session session;

static MPI_Comm open_session(void)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "sessions", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void use_session(MPI_Comm comm)
{
    MPI_Comm copy, part;
    int rank;
    use(comm, "a session", 100);
    MPI_Comm_dup(comm, &copy);
    use(copy, "a duplicate", 100);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_split(comm, rank % 2, -rank, &part);
    use(part, "a part", 100);
    MPI_Comm_free(&part);
    MPI_Comm_free(&copy);
}

int main(int argc, char **argv)
{
    const char *mode = argc == 2 ? argv[1] : "";
    int alone = strcmp(mode, "alone") == 0, before = strcmp(mode, "before") == 0;
    if (!alone && !before && strcmp(mode, "beside") != 0)
        return 2;
    if (!alone && !before)
        MPI_Init(&argc, &argv);
    int sessions = before || alone ? 1 : 3, rank = 0;
    for (int round = 0; round < sessions; round++) {
        MPI_Comm comm = open_session();
        use_session(comm);
        MPI_Comm_rank(comm, &rank);
        if (before)
            MPI_Init(&argc, &argv);
        if (!alone) {
            use(MPI_COMM_WORLD, "the world", 100);
            use(comm, "a session again", 100);
        }
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    if (!alone)
        return finish("sessions");
    if (rank == 0)
        printf("sessions checks=%ld failures=%ld ok=%s\n", checks, failures, failures == 0 ? "yes" : "no");
    return failures != 0;
}
