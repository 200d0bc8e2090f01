/* Calls on several communicators at random, some with faults, between random delays; each must end as all ranks know it
 * must. The arguments: how many calls, and the longest delay in microseconds. */
#define _DEFAULT_SOURCE
#include <unistd.h>

#include "tm_mpi.h"

#define COMMUNICATORS 4
enum { WRONG = 3 };

static char error[512];

static void fail(const char *what, int got)
{
    fprintf(stderr, "%s: %d: %s\n", what, got, error);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void pass_round(const tm_mpi *mpi)
{
    const int left = (mpi->rank + mpi->size - 1) % mpi->size, right = (mpi->rank + 1) % mpi->size;
    int given = -1;
    MPI_Request requests[2];
    MPI_Irecv(&given, 1, MPI_INT, left, 1, mpi->comm, &requests[0]);
    MPI_Isend(&mpi->rank, 1, MPI_INT, right, 1, mpi->comm, &requests[1]);
    tm_mpi_wait(mpi, "message", requests, 2);
    if (given != left) fail("a message of another call", given);
}

/* What a generated function does; with `blocks` given on each rank, ranks meet twice. */
static int call(MPI_Comm comm, int64_t size, int fault, bool blocks)
{
    tm_mpi mpi;
    if (!tm_mpi_begin(&mpi, "call", comm, error, sizeof error)) return mpi.code;
    if (blocks) {
        const int64_t mine = 4 * mpi.rank;
        if (!tm_mpi_come(&mpi, error, sizeof error)) return mpi.code;
        if (tm_mpi_blocks(&mpi, mine, mine + 4, 4 * mpi.size, 1) != mpi.size) fail("blocks of another call", mpi.odd);
    }
    if (fault) snprintf(error, sizeof error, "call: a fault");
    const int64_t sizes[] = {size, 4};
    const char *const names[] = {"N", "M"};
    const int wrong = tm_mpi_agree(&mpi, fault, error, sizeof error, 2, sizes, names);
    if (wrong) return wrong;
    pass_round(&mpi);
    tm_mpi_end(&mpi);
    return 0;
}

static void one_call(MPI_Comm *comm, bool own, int kind, int odd)
{
    int rank, size;
    MPI_Comm_rank(*comm, &rank);
    MPI_Comm_size(*comm, &size);
    const bool is_odd = odd % size == rank, differs = kind == 1 && size > 1;
    const int expected = kind == 0 ? WRONG : differs ? TM_DIFFERENT : 0;
    const int got = call(*comm, differs && is_odd ? 9 : 8, kind == 0 && is_odd ? WRONG : 0, kind < 6);
    if (got != expected) fail("not what all ranks expect", got);
    if (kind != 2 || !own) return;
    MPI_Comm other;
    MPI_Comm_dup(*comm, &other);
    MPI_Comm_free(comm);
    *comm = other;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    MPI_Init(&argc, &argv);
    const int calls = atoi(argv[1]), longest = atoi(argv[2]);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm comms[COMMUNICATORS] = {MPI_COMM_WORLD};
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &comms[3]);
    unsigned shared = 7, own = 100 + (unsigned)rank;
    for (int n = 0; n < calls; n++) {
        const int which = rand_r(&shared) % COMMUNICATORS, kind = rand_r(&shared) % 20, odd = rand_r(&shared);
        if (longest > 0 && rand_r(&own) % 50 == 0) usleep((unsigned)rand_r(&own) % (unsigned)longest);
        one_call(&comms[which], which > 0, kind, odd);
    }
    for (int n = 1; n < COMMUNICATORS; n++) MPI_Comm_free(&comms[n]);
    MPI_Finalize();
    if (rank == 0) puts("met");
    return 0;
}
