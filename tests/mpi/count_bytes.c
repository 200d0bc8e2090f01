/* Counts what is sent, by MPI's profiling interface: loaded before MPI, its sends are called instead, and call on.
 * Communicators that others use (mpi4py's gather, agreement on errors) are left out by the tag: generated code uses
 * tags from 1 on for its exchanges, on point-to-point calls only. */
#include <mpi.h>

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
        count(number, type); \
        return PMPI_##name(data, number, type, to, tag, comm, at); \
    }

SEND(Send)
SEND(Ssend)
SEND(Bsend)
NONBLOCKING_SEND(Isend)
NONBLOCKING_SEND(Issend)
NONBLOCKING_SEND(Ibsend)
