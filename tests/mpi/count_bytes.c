/* Counts what is sent, by MPI's profiling interface: loaded before MPI, its sends are called instead, and call on.
 * Communicators that others use (mpi4py's gather, agreement on errors) are left out by the tag: generated code uses
 * tags from 1 on for its exchanges. Calls in which all ranks take part are counted as the messages that they stand for,
 * without those of a rank to itself, and only on other communicators than the caller's. */
#include <mpi.h>

/* Ranks meet, before the first message of a call, with messages of this tag and above (tm_mpi_meet.h). */
enum { MEETING = 32766 };

static long long bytes, messages;

static void count(MPI_Count number, MPI_Datatype type)
{
    MPI_Count size;
    PMPI_Type_size_x(type, &size);
    bytes += number * size;
    messages++;
}

void counted(long long *of_bytes, long long *of_messages)
{
    *of_bytes = bytes;
    *of_messages = messages;
    bytes = messages = 0;
}

#define SEND(name) \
    int MPI_##name(const void *data, int number, MPI_Datatype type, int to, int tag, MPI_Comm comm) \
    { \
        count(number, type); \
        return PMPI_##name(data, number, type, to, tag, comm); \
    }
#define NONBLOCKING_SEND(name) \
    int MPI_##name(const void *data, int number, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *at) \
    { \
        if (tag < MEETING) count(number, type); \
        return PMPI_##name(data, number, type, to, tag, comm, at); \
    }

SEND(Send)
SEND(Ssend)
SEND(Bsend)
NONBLOCKING_SEND(Isend)
NONBLOCKING_SEND(Issend)
NONBLOCKING_SEND(Ibsend)

int MPI_Bcast(void *data, int number, MPI_Datatype type, int root, MPI_Comm comm)
{
    int rank, ranks;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    for (int other = 0; rank == root && comm != MPI_COMM_WORLD && other < ranks; other++)
        if (other != root) count(number, type);
    return PMPI_Bcast(data, number, type, root, comm);
}

int MPI_Alltoallw(const void *from, const int *numbers, const int *places, const MPI_Datatype *types, void *into,
                  const int *other_numbers, const int *other_places, const MPI_Datatype *other_types, MPI_Comm comm)
{
    int rank, ranks;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    for (int other = 0; comm != MPI_COMM_WORLD && other < ranks; other++)
        if (other != rank && numbers[other] > 0) count(numbers[other], types[other]);
    return PMPI_Alltoallw(from, numbers, places, types, into, other_numbers, other_places, other_types, comm);
}

/* Partial results are combined in place: each rank gives its own once, unless it is alone. */
int MPI_Allreduce(const void *from, void *into, int number, MPI_Datatype type, MPI_Op operator, MPI_Comm comm)
{
    int ranks;
    PMPI_Comm_size(comm, &ranks);
    if (from == MPI_IN_PLACE && ranks > 1) count(number, type);
    return PMPI_Allreduce(from, into, number, type, operator, comm);
}
