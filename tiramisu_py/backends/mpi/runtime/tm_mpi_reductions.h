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
/* The components of values: an array each, of elements of this type and size, and what comes from another rank. */
typedef struct tm_mpi_part {
  MPI_Datatype type;
  int64_t bytes;
  char *own, *other;
} tm_mpi_part;

typedef struct tm_mpi_tree {
  MPI_Comm line;
  int rank, ranks, most, step, some, parts;
  int64_t count, done;
  tm_mpi_part *part;
} tm_mpi_tree;

TM_INLINE tm_mpi_tree tm_mpi_tree_of(const tm_mpi *mpi, const char *statement, int parts, tm_mpi_part *part,
                                     int64_t count, uint64_t along, int axes, const int64_t *extents) {
  tm_mpi_tree tree = {.line = tm_mpi_line_of(mpi, statement, along, axes, extents), .most = 1, .parts = parts,
                      .count = count, .part = part};
  TM_MPI_OWN(mpi, statement, MPI_Comm_rank(tree.line, &tree.rank));
  TM_MPI_OWN(mpi, statement, MPI_Comm_size(tree.line, &tree.ranks));
  while (tree.most < tree.ranks) tree.most *= 2;
  const int64_t piece = count < TM_MPI_TREE_PIECE ? count : TM_MPI_TREE_PIECE;
  for (int p = 0; p < parts; p++) part[p].other = tm_mpi_memory(mpi, statement, (size_t)(piece * part[p].bytes) + 1);
  tree.step = tree.most;
  tree.some = (int)piece;
  return tree;
}

/* Whether there are `some` elements of another rank to be combined into this one's, own = own, other. */
TM_INLINE int tm_mpi_tree_takes(const tm_mpi *mpi, const char *statement, tm_mpi_tree *tree) {
  while (tree->done < tree->count) {
    for (tree->step /= 2; tree->step > 0; tree->step /= 2) {
      const int rank = tree->rank, step = tree->step;
      if (rank < step && rank + step < tree->ranks) {
        for (const tm_mpi_part *part = tree->part; part < tree->part + tree->parts; part++)
          TM_MPI_OWN(mpi, statement,
                     MPI_Recv(part->other, tree->some, part->type, rank + step, 0, tree->line, MPI_STATUS_IGNORE));
        return 1;
      }
      if (rank >= step && rank < 2 * step)
        for (const tm_mpi_part *part = tree->part; part < tree->part + tree->parts; part++)
          TM_MPI_OWN(mpi, statement, MPI_Send(part->own, tree->some, part->type, rank - step, 0, tree->line));
    }
    for (tm_mpi_part *part = tree->part; part < tree->part + tree->parts; part++) {
      TM_MPI_OWN(mpi, statement, MPI_Bcast(part->own, tree->some, part->type, 0, tree->line));
      part->own += tree->some * part->bytes;
    }
    tree->done += tree->some;
    if (tree->count - tree->done < tree->some) tree->some = (int)(tree->count - tree->done);
    tree->step = tree->most;
  }
  for (int p = 0; p < tree->parts; p++) free(tree->part[p].other);
  return 0;
}

TM_INLINE void tm_mpi_tree_reduce(const tm_mpi *mpi, const char *statement, void *place, int64_t count, int64_t bytes,
                                  MPI_Datatype type, MPI_Op operator, uint64_t along, int axes, const int64_t *extents) {
  tm_mpi_part part = {type, bytes, place, NULL};
  tm_mpi_tree tree = tm_mpi_tree_of(mpi, statement, 1, &part, count, along, axes, extents);
  while (tm_mpi_tree_takes(mpi, statement, &tree)) {
    TM_MPI_OWN(mpi, statement, MPI_Reduce_local(part.own, part.other, tree.some, type, operator));
    memcpy(part.own, part.other, (size_t)(tree.some * bytes)); /* other = own, other */
  }
}

/* The extents of the grid come last. */
#define TM_TREE_REDUCE(statement, T, place, count, type, operator, along, ...)                                   \
  tm_mpi_tree_reduce(&mpi, statement, place, count, sizeof(T), type, operator, along,                            \
                     sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
/* By an operator that MPI does not know: `combined` is what tm_own and tm_other give. */
#define TM_TREE_COMBINE(statement, T, place, count, type, combined, along, ...)                                  \
  do {                                                                                                           \
    const int64_t tm_grid[] = {__VA_ARGS__};                                                                     \
    tm_mpi_part tm_part = {type, sizeof(T), (char *)(place), NULL};                                              \
    tm_mpi_tree tm_tree = tm_mpi_tree_of(&mpi, statement, 1, &tm_part, count, along,                             \
                                         sizeof(tm_grid) / sizeof(int64_t), tm_grid);                            \
    while (tm_mpi_tree_takes(&mpi, statement, &tm_tree))                                                         \
      for (int tm_k = 0; tm_k < tm_tree.some; tm_k++) {                                                          \
        const T tm_own = ((const T *)tm_part.own)[tm_k], tm_other = ((const T *)tm_part.other)[tm_k];            \
        ((T *)tm_part.own)[tm_k] = combined;                                                                     \
      }                                                                                                          \
  } while (0)
/* Values of several components: the tree of these arrays of parts and extents of the grid. */
#define TM_TREE_OF(statement, parts, count, along, grid)                                                         \
  tm_mpi_tree_of(&mpi, statement, sizeof(parts) / sizeof(parts[0]), parts, count, along,                         \
                 sizeof(grid) / sizeof(int64_t), grid)
#define TM_ALL_REDUCE(statement, T, place, count, type, operator, along, ...)                                    \
  tm_mpi_all_reduce(&mpi, statement, place, count, sizeof(T), type, operator, along,                             \
                    sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

#endif
