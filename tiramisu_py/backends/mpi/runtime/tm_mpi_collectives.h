/* Calls in which all ranks of the process grid take part. Ranks beyond the grid have returned by then, so that these
 * calls are on a communicator of the grid's ranks. It is made once for each number of ranks, by all ranks together, and
 * kept with the communicator of the library. */
#ifndef TM_MPI_COLLECTIVES_H
#define TM_MPI_COLLECTIVES_H

#include "tm_mpi.h"

/* -- the communicator of the grid */

typedef struct {
  MPI_Comm comm;
  int64_t ranks;
} tm_mpi_grid_of;

static _Atomic int tm_mpi_grid_key = MPI_KEYVAL_INVALID;

static int tm_mpi_forget_grid(MPI_Comm comm, int key, void *kept, void *unused) {
  (void)comm, (void)key, (void)unused;
  tm_mpi_grid_of *const grid = kept;
  const int code = grid->comm == MPI_COMM_NULL ? MPI_SUCCESS : MPI_Comm_free(&grid->comm);
  free(grid);
  return code;
}

/* The communicator of the first so many ranks; MPI_COMM_NULL on the others. All ranks call it. */
static MPI_Comm tm_mpi_grid(const tm_mpi *mpi, int64_t ranks) {
  const char *const what = "the process grid";
  void *kept = NULL;
  if (ranks == mpi->size) return mpi->comm;
  TM_MPI_OWN(mpi, what, tm_mpi_kept(mpi->comm, &tm_mpi_grid_key, tm_mpi_forget_grid, &kept));
  if (kept != NULL && ((const tm_mpi_grid_of *)kept)->ranks == ranks) return ((const tm_mpi_grid_of *)kept)->comm;
  tm_mpi_grid_of *const grid = tm_mpi_memory(mpi, what, sizeof *grid);
  *grid = (tm_mpi_grid_of){MPI_COMM_NULL, ranks};
  const int colour = mpi->rank < ranks ? 0 : MPI_UNDEFINED;
  TM_MPI_OWN(mpi, what, MPI_Comm_split(mpi->comm, colour, mpi->rank, &grid->comm));
  if (grid->comm != MPI_COMM_NULL) TM_MPI_OWN(mpi, what, MPI_Comm_set_errhandler(grid->comm, MPI_ERRORS_RETURN));
  TM_MPI_OWN(mpi, what, MPI_Comm_set_attr(mpi->comm, atomic_load(&tm_mpi_grid_key), grid));
  return grid->comm;
}

/* -- calls */

/* What a rank sends to each other one, and what it receives from each. */
typedef struct {
  int ranks;
  tm_mpi_pieces *sends, *receives;
} tm_mpi_parts;

TM_INLINE tm_mpi_parts tm_mpi_begin_parts(const tm_mpi *mpi, const char *statement, int64_t ranks) {
  tm_mpi_parts parts = {(int)ranks, NULL, NULL};
  const size_t bytes = 2 * (size_t)ranks * sizeof(tm_mpi_pieces);
  parts.sends = tm_mpi_memory(mpi, statement, bytes);
  memset(parts.sends, 0, bytes);
  parts.receives = parts.sends + ranks;
  return parts;
}

/* One box more of the elements that go to, or come from, one rank. */
#define TM_MPI_ADD_TO(statement, pieces, array, first, T, type, ...)                 \
  tm_mpi_add(&mpi, statement, pieces, array, first, type, sizeof(T),                 \
             sizeof((const tm_mpi_side[]){{1, 0}, ##__VA_ARGS__}) / sizeof(tm_mpi_side), \
             (const tm_mpi_side[]){{1, 0}, ##__VA_ARGS__})

/* Sends and receives everything; the parts are then gone. */
TM_INLINE void tm_mpi_exchange(const tm_mpi *mpi, const char *statement, MPI_Comm grid, tm_mpi_parts *parts,
                               const void *source, void *target, MPI_Datatype type) {
  const int ranks = parts->ranks, both = 2 * ranks;
  tm_mpi_elements *const elements = tm_mpi_memory(mpi, statement, (size_t)both * sizeof *elements);
  MPI_Datatype *const types = tm_mpi_memory(mpi, statement, (size_t)both * sizeof *types);
  int *const counts = tm_mpi_memory(mpi, statement, 2 * (size_t)both * sizeof *counts), *const places = counts + both;
  for (int n = 0; n < both; n++) {
    elements[n] = tm_mpi_joined(mpi, statement, &parts->sends[n], type);
    types[n] = elements[n].type;
    counts[n] = elements[n].count;
    places[n] = 0;
  }
  TM_MPI_OWN(mpi, statement,
             MPI_Alltoallw(source, counts, places, types, target, counts + ranks, places + ranks, types + ranks, grid));
  for (int n = 0; n < both; n++)
    if (elements[n].made) TM_MPI_OWN(mpi, statement, MPI_Type_free(&elements[n].type));
  free(elements);
  free(types);
  free(counts);
  free(parts->sends);
  *parts = (tm_mpi_parts){0, NULL, NULL};
}

/* Rank `root` sends the pieces to all others, where they are elements of `array` too. */
TM_INLINE void tm_mpi_broadcast(const tm_mpi *mpi, const char *statement, MPI_Comm grid, tm_mpi_pieces *pieces,
                                void *array, MPI_Datatype type, int root) {
  tm_mpi_elements elements = tm_mpi_joined(mpi, statement, pieces, type);
  TM_MPI_OWN(mpi, statement, MPI_Bcast(array, elements.count, elements.type, root, grid));
  if (elements.made) TM_MPI_OWN(mpi, statement, MPI_Type_free(&elements.type));
}

#endif
