/* Heat in a plate on ranks that hold rows, by hand: what the emitted program is compared with. Two copies of the rank's
 * rows with a row of each neighbour around them; in each step both edge rows are exchanged, then every row is computed. */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call) do { if ((call) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1); } while (0)

int halo(MPI_Comm *communicator, int64_t steps, int64_t rows, int64_t columns, const float *start, float *result)
{
    MPI_Comm comm = *communicator;
    int rank, size;
    CHECK(MPI_Comm_rank(comm, &rank));
    CHECK(MPI_Comm_size(comm, &size));
    const size_t plate = (size_t)(rows + 2) * (size_t)columns;
    float *two = aligned_alloc(64, (2 * plate * sizeof(float) + 63) / 64 * 64);
    if (!two)
        return 1;
    memcpy(two + columns, start, (size_t)rows * (size_t)columns * sizeof(float));
    for (int64_t t = 1; t <= steps; t++) {
        float *restrict from = two + ((t - 1) % 2) * (int64_t)plate, *restrict to = two + (t % 2) * (int64_t)plate;
        MPI_Request requests[4];
        int posted = 0;
        if (rank > 0)
            CHECK(MPI_Irecv(from + 1, (int)columns - 2, MPI_FLOAT, rank - 1, 1, comm, &requests[posted++]));
        if (rank < size - 1)
            CHECK(MPI_Irecv(from + (rows + 1) * columns + 1, (int)columns - 2, MPI_FLOAT, rank + 1, 2, comm, &requests[posted++]));
        if (rank < size - 1)
            CHECK(MPI_Isend(from + rows * columns + 1, (int)columns - 2, MPI_FLOAT, rank + 1, 1, comm, &requests[posted++]));
        if (rank > 0)
            CHECK(MPI_Isend(from + columns + 1, (int)columns - 2, MPI_FLOAT, rank - 1, 2, comm, &requests[posted++]));
        CHECK(MPI_Waitall(posted, requests, MPI_STATUSES_IGNORE));
        for (int64_t i = 1; i <= rows; i++) {
            const int edge = (rank == 0 && i == 1) || (rank == size - 1 && i == rows);
            float *restrict row = to + i * columns;
            const float *restrict up = from + (i - 1) * columns, *restrict here = up + columns, *restrict below = here + columns;
            if (edge) {
                memcpy(row, start + (i - 1) * columns, (size_t)columns * sizeof(float));
                continue;
            }
            row[0] = start[(i - 1) * columns];
            for (int64_t j = 1; j < columns - 1; j++)
                row[j] = here[j] * 0.5f + (up[j] + below[j] + here[j - 1] + here[j + 1]) * 0.125f;
            row[columns - 1] = start[(i - 1) * columns + columns - 1];
        }
    }
    memcpy(result, two + (steps % 2) * (int64_t)plate + columns, (size_t)rows * (size_t)columns * sizeof(float));
    free(two);
    return 0;
}
