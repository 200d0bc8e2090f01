/* Reductions over ranks: partial results that the ranks of a line of the process grid combine.
 *
 * A line has a communicator of its own, made by its ranks when they first combine something, and kept with the one that
 * the library sends on.
 */
#ifndef TM_MPI_REDUCTIONS_H
#define TM_MPI_REDUCTIONS_H

#include "tm_mpi.h"

/* A line of a grid with these extents: the ranks that differ from this one along some axes only (bits of `along`). */
typedef struct tm_mpi_line {
  struct tm_mpi_line *next;
  int axes;
  int64_t *extents;
  uint64_t along;
  MPI_Comm comm;
} tm_mpi_line;

static _Atomic int tm_mpi_lines_key = MPI_KEYVAL_INVALID;

static int tm_mpi_forget_lines(MPI_Comm comm, int key, void *lines, void *unused) {
  (void)comm, (void)key, (void)unused;
  int code = MPI_SUCCESS;
  for (tm_mpi_line *one = *(tm_mpi_line **)lines, *next; one != NULL; one = next) {
    const int freed = MPI_Comm_free(&one->comm);
    if (freed != MPI_SUCCESS) code = freed;
    next = one->next;
    free(one->extents);
    free(one);
  }
  free(lines);
  return code;
}

/* The lines that this rank knows. */
TM_INLINE tm_mpi_line **tm_mpi_lines(const tm_mpi *mpi, const char *statement) {
  void *kept = NULL;
  TM_MPI_OWN(mpi, statement, tm_mpi_kept(mpi->comm, &tm_mpi_lines_key, tm_mpi_forget_lines, &kept));
  if (kept == NULL) {
    kept = tm_mpi_memory(mpi, statement, sizeof(tm_mpi_line *));
    *(tm_mpi_line **)kept = NULL;
    TM_MPI_OWN(mpi, statement, MPI_Comm_set_attr(mpi->comm, atomic_load(&tm_mpi_lines_key), kept));
  }
  return (tm_mpi_line **)kept;
}

/* The communicator of this rank's line, whose ranks come here together. */
static __attribute__((unused)) MPI_Comm tm_mpi_line_of(const tm_mpi *mpi, const char *statement, uint64_t along,
                                                       int axes, const int64_t *extents) {
  const size_t bytes = sizeof(int64_t) * (size_t)axes;
  tm_mpi_line **const lines = tm_mpi_lines(mpi, statement);
  for (const tm_mpi_line *one = *lines; one != NULL; one = one->next)
    if (one->along == along && one->axes == axes && memcmp(one->extents, extents, bytes) == 0) return one->comm;
  int64_t count = 1, strides[axes];
  for (int axis = axes - 1, stride = 1; axis >= 0; stride *= (int)extents[axis--]) {
    strides[axis] = stride;
    if (along >> axis & 1) count *= extents[axis];
  }
  int *const members = tm_mpi_memory(mpi, statement, sizeof(int) * (size_t)count);
  for (int64_t n = 0; n < count; n++) {
    int64_t number = mpi->rank, left = n;
    for (int axis = axes - 1; axis >= 0; axis--) {
      if (!(along >> axis & 1)) continue;
      number += (left % extents[axis] - mpi->rank / strides[axis] % extents[axis]) * strides[axis];
      left /= extents[axis];
    }
    members[n] = (int)number;
  }
  tm_mpi_line *const made = tm_mpi_memory(mpi, statement, sizeof *made);
  *made = (tm_mpi_line){*lines, axes, tm_mpi_memory(mpi, statement, bytes), along, MPI_COMM_NULL};
  memcpy(made->extents, extents, bytes);
  MPI_Group all, line;
  TM_MPI_OWN(mpi, statement, MPI_Comm_group(mpi->comm, &all));
  TM_MPI_OWN(mpi, statement, MPI_Group_incl(all, (int)count, members, &line));
  TM_MPI_OWN(mpi, statement, MPI_Comm_create_group(mpi->comm, line, (int)along, &made->comm));
  TM_MPI_OWN(mpi, statement, MPI_Comm_set_errhandler(made->comm, MPI_ERRORS_RETURN));
  TM_MPI_OWN(mpi, statement, MPI_Group_free(&line));
  TM_MPI_OWN(mpi, statement, MPI_Group_free(&all));
  free(members);
  *lines = made;
  return made->comm;
}

/* Combines `count` elements, one after the other, over the ranks of this rank's line: each of them gets the outcome. */
TM_INLINE void tm_mpi_all_reduce(const tm_mpi *mpi, const char *statement, void *place, int64_t count, int64_t bytes,
                                 MPI_Datatype type, MPI_Op operator, uint64_t along, int axes, const int64_t *extents) {
  const MPI_Comm line = tm_mpi_line_of(mpi, statement, along, axes, extents);
  for (int64_t done = 0; done < count; done += TM_MPI_MOST) {
    const int some = (int)(count - done < TM_MPI_MOST ? count - done : TM_MPI_MOST);
    TM_MPI_OWN(mpi, statement, MPI_Allreduce(MPI_IN_PLACE, (char *)place + done * bytes, some, type, operator, line));
  }
}
/* The same in a tree, by halves of the ranks' numbers in their line: rank r takes what rank r + step has, for steps of
   the largest power of two below their number, then half of that, and so on; the first one sends the outcome to all. */
#define TM_MPI_TREE_PIECE 65536
TM_INLINE void tm_mpi_tree_reduce(const tm_mpi *mpi, const char *statement, void *place, int64_t count, int64_t bytes,
                                  MPI_Datatype type, MPI_Op operator, uint64_t along, int axes, const int64_t *extents) {
  const MPI_Comm line = tm_mpi_line_of(mpi, statement, along, axes, extents);
  int rank, ranks, most = 1;
  TM_MPI_OWN(mpi, statement, MPI_Comm_rank(line, &rank));
  TM_MPI_OWN(mpi, statement, MPI_Comm_size(line, &ranks));
  while (most < ranks) most *= 2;
  const int64_t piece = count < TM_MPI_TREE_PIECE ? count : TM_MPI_TREE_PIECE;
  char *const other = tm_mpi_memory(mpi, statement, (size_t)(piece * bytes) + 1);
  for (int64_t done = 0; done < count; done += piece) {
    const int some = (int)(count - done < piece ? count - done : piece);
    char *const own = (char *)place + done * bytes;
    for (int step = most / 2; step > 0; step /= 2) {
      if (rank < step && rank + step < ranks) {
        TM_MPI_OWN(mpi, statement, MPI_Recv(other, some, type, rank + step, 0, line, MPI_STATUS_IGNORE));
        TM_MPI_OWN(mpi, statement, MPI_Reduce_local(own, other, some, type, operator)); /* other = own, other */
        memcpy(own, other, (size_t)(some * bytes));
      } else if (rank >= step && rank < 2 * step) {
        TM_MPI_OWN(mpi, statement, MPI_Send(own, some, type, rank - step, 0, line));
      }
    }
    TM_MPI_OWN(mpi, statement, MPI_Bcast(own, some, type, 0, line));
  }
  free(other);
}

/* The extents of the grid come last. */
#define TM_TREE_REDUCE(statement, T, place, count, type, operator, along, ...)                                   \
  tm_mpi_tree_reduce(&mpi, statement, place, count, sizeof(T), type, operator, along,                            \
                     sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
#define TM_ALL_REDUCE(statement, T, place, count, type, operator, along, ...)                                    \
  tm_mpi_all_reduce(&mpi, statement, place, count, sizeof(T), type, operator, along,                             \
                    sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

#endif
