/* The ranks of a communicator that run on the same machine, and share its cpus and memory nodes. */
#ifndef TM_MPI_NEAR_H
#define TM_MPI_NEAR_H

#include "tm_mpi.h"
#include "tm_threads.h"

/* The number of this rank among those of its machine, and how many there are; one, where the launcher has given each of
 * them cpus of its own. */
typedef struct {
  int number, ranks;
} tm_mpi_near;

static _Atomic int tm_mpi_near_key = MPI_KEYVAL_INVALID;

static int tm_mpi_forget_near(MPI_Comm comm, int key, void *own, void *unused) {
  (void)comm, (void)key, (void)unused;
  free(own);
  return MPI_SUCCESS;
}

/* What this thread may run on; nothing where the system does not say. */
TM_INLINE tm_cpus tm_mpi_allowed(void) {
  tm_cpus cpus = {{0}};
#if defined(__linux__) && defined(SYS_sched_setaffinity)
  if (!tm_get_affinity(&cpus)) cpus = (tm_cpus){{0}};
#endif
  return cpus;
}

/* Found by all ranks together in the first call with a communicator, and kept with it. */
TM_INLINE tm_mpi_near tm_mpi_find_near(const tm_mpi *mpi) {
  const char *const what = "pinned threads";
  void *known = NULL;
  TM_MPI_OWN(mpi, what, tm_mpi_kept(mpi->comm, &tm_mpi_near_key, tm_mpi_forget_near, &known));
  if (known != NULL) return *(const tm_mpi_near *)known;
  tm_mpi_near *const kept = tm_mpi_memory(mpi, what, sizeof *kept);
  MPI_Comm machine;
  tm_cpus own = tm_mpi_allowed(), first = own;
  TM_MPI_OWN(mpi, what, MPI_Comm_split_type(mpi->comm, MPI_COMM_TYPE_SHARED, mpi->rank, MPI_INFO_NULL, &machine));
  TM_MPI_OWN(mpi, what, MPI_Comm_rank(machine, &kept->number));
  TM_MPI_OWN(mpi, what, MPI_Comm_size(machine, &kept->ranks));
  TM_MPI_OWN(mpi, what, MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, machine));
  int alike = memcmp(&own, &first, sizeof own) == 0;
  TM_MPI_OWN(mpi, what, MPI_Allreduce(MPI_IN_PLACE, &alike, 1, MPI_INT, MPI_MIN, machine));
  TM_MPI_OWN(mpi, what, MPI_Comm_free(&machine));
  if (!alike) kept->ranks = 1;
  TM_MPI_OWN(mpi, what, MPI_Comm_set_attr(mpi->comm, atomic_load(&tm_mpi_near_key), kept));
  return *kept;
}

#endif
