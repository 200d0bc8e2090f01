/* The ranks of a communicator meet at the beginning of a call, for a bounded time: a rank that has failed, or that leaves
 * the call out, would be waited for for ever.
 *
 * What they meet with is a reduction of a few numbers (recursive doubling: log2 of the ranks rounds), of messages that
 * are polled. Each pair of ranks sends one message each way in a call, and MPI keeps their order, so calls are not
 * mistaken for each other. A rank that has waited for as long as TIRAMISU_PATIENCE says tells all others. They too give
 * up then, and from which rank no word comes, that one is missing. As long as no rank gives up, nothing is sent but the
 * numbers. A communicator on which a rank has given up is lost: each later call says so at once.
 *
 * A rank that comes late finds the numbers of those that have given up. So all meet a second time where one of them is
 * late: nobody goes on whom another has stopped waiting for, as for that each must be there still.
 */
#ifndef TM_MPI_MEET_H
#define TM_MPI_MEET_H

#include <mpi.h>
#include <sched.h>
#include <time.h>

#include "tm_runtime.h"

/* Seconds that a rank waits for another, if the environment's TIRAMISU_PATIENCE does not say: 0 is for ever. */
#ifndef TM_MPI_PATIENCE
#define TM_MPI_PATIENCE 600.0
#endif
/* Those that wait answer within so many seconds, unless they are held up. */
#define TM_MPI_LEAST_ANSWER 2.0
#define TM_MPI_MOST_ANSWER 10.0
/* No rank gives up sooner, however little patience it has: one that came to the last call less than that ago is not late. */
#define TM_MPI_LEAST_PATIENCE 1
/* So often a rank asks before it looks at the clock, and lets other processes run: ranks may share a processor. */
#define TM_MPI_TRIES 500
/* Every MPI has these tags; messages of the program have smaller ones. A word that a rank gives up has its own size. */
#define TM_MPI_TAG_MEET 32766
#define TM_MPI_TAG_GIVE_UP 32767
#define TM_MPI_GIVE_UP_BYTES 13
#define TM_MPI_NAMED 8

/* A communicator on which ranks meet, and numbers that outlive a call: what MPI still sends when a rank gives up. From
 * then on it is `lost`. `came` is when this rank last came to a call, in seconds. */
typedef struct {
  MPI_Comm comm;
  int room;
  int64_t *mine, *theirs;
  int64_t came;
  bool lost;
} tm_mpi_own;

typedef struct {
  int64_t tries;
  double began, patience;
} tm_mpi_patience;

static double tm_mpi_seconds(void) {
  const char *const given = getenv("TIRAMISU_PATIENCE");
  char *end = NULL;
  const double seconds = given == NULL ? -1.0 : strtod(given, &end);
  if (given == NULL || end == given || *end != 0 || !(seconds >= 0)) return TM_MPI_PATIENCE;
  return seconds > 0 && seconds < TM_MPI_LEAST_PATIENCE ? TM_MPI_LEAST_PATIENCE : seconds;
}

/* Whether another rank has said that it gives up. */
static bool tm_mpi_given_up(MPI_Comm comm) {
  int said = 0, bytes = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, TM_MPI_TAG_GIVE_UP, comm, &said, &status) != MPI_SUCCESS || !said) return false;
  return MPI_Get_count(&status, MPI_CHAR, &bytes) == MPI_SUCCESS && bytes == TM_MPI_GIVE_UP_BYTES;
}

/* What a rank does that has not got yet what it waits for: false, if it has waited for too long. */
static bool tm_mpi_go_on_waiting(tm_mpi_patience *waiting, MPI_Comm comm) {
  if (++waiting->tries < TM_MPI_TRIES) return true;
  if (waiting->tries == TM_MPI_TRIES) {
    waiting->began = MPI_Wtime();
    waiting->patience = tm_mpi_seconds();
  }
  const double waited = MPI_Wtime() - waiting->began;
  if (waited < 0.01) {
    sched_yield();
    return true;
  }
  nanosleep(&(struct timespec){0, 100000}, NULL);
  return !(waiting->patience > 0 && waited > waiting->patience) && !tm_mpi_given_up(comm);
}

/* Goes on when all requests are complete; false where it gives up before, and they are pending. `code` is that of MPI. */
static bool tm_mpi_completed(int count, MPI_Request *requests, MPI_Comm comm, int *code) {
  tm_mpi_patience waiting = {0, 0, 0};
  for (int done = 0;;) {
    *code = MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
    if (*code != MPI_SUCCESS || done) return true;
    if (!tm_mpi_go_on_waiting(&waiting, comm)) return false;
  }
}

/* -- giving up */

/* Hears which ranks wait here, too: all have been told that this one gives up. */
static void tm_mpi_hear(MPI_Comm comm, int size, bool *heard) {
  const double patience = tm_mpi_seconds(), began = MPI_Wtime();
  double longest = patience / 10;
  if (longest < TM_MPI_LEAST_ANSWER) longest = TM_MPI_LEAST_ANSWER;
  if (longest > TM_MPI_MOST_ANSWER) longest = TM_MPI_MOST_ANSWER;
  for (int known = 1; known < size && MPI_Wtime() - began < longest;) {
    char word[TM_MPI_GIVE_UP_BYTES];
    MPI_Status status;
    int said = 0, bytes = 0;
    nanosleep(&(struct timespec){0, 100000}, NULL);
    if (MPI_Iprobe(MPI_ANY_SOURCE, TM_MPI_TAG_GIVE_UP, comm, &said, &status) != MPI_SUCCESS) return;
    if (!said) continue;
    if (MPI_Get_count(&status, MPI_CHAR, &bytes) != MPI_SUCCESS || bytes != TM_MPI_GIVE_UP_BYTES) return;
    if (MPI_Recv(word, TM_MPI_GIVE_UP_BYTES, MPI_CHAR, status.MPI_SOURCE, TM_MPI_TAG_GIVE_UP, comm, &status) != MPI_SUCCESS)
      return;
    if (!heard[status.MPI_SOURCE]) known++;
    heard[status.MPI_SOURCE] = true;
  }
}

/* "rank 2 has", "ranks 2, 5 have", "some rank has" */
static void tm_mpi_name_missing(int size, const bool *heard, char *words, size_t room) {
  int missing = 0;
  size_t used = 0;
  for (int rank = 0; heard != NULL && rank < size; rank++) missing += !heard[rank];
  if (missing == 0) {
    snprintf(words, room, "some rank has");
    return;
  }
  used += (size_t)snprintf(words, room, missing == 1 ? "rank" : "ranks");
  for (int rank = 0, named = 0; rank < size && used < room; rank++) {
    if (heard[rank]) continue;
    if (named == TM_MPI_NAMED) {
      used += (size_t)snprintf(words + used, room - used, ", ... (%d together)", missing);
      break;
    }
    used += (size_t)snprintf(words + used, room - used, "%s %d", named++ == 0 ? "" : ",", rank);
  }
  if (used < room) snprintf(words + used, room - used, missing == 1 ? " has" : " have");
}

/* Tells all ranks that this one gives up, and says in `said` which ranks have not come. */
__attribute__((cold, noinline, unused))
static void tm_mpi_stop_waiting(const char *function, MPI_Comm comm, char *said, size_t room) {
  static const char word[TM_MPI_GIVE_UP_BYTES] = "it gives up.";
  char missing[128];
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int other = 0; other < size; other++) {
    MPI_Request request;
    if (other == rank) continue;
    if (MPI_Isend(word, TM_MPI_GIVE_UP_BYTES, MPI_CHAR, other, TM_MPI_TAG_GIVE_UP, comm, &request) == MPI_SUCCESS)
      MPI_Request_free(&request);
  }
  bool *const heard = calloc((size_t)size, sizeof *heard);
  if (heard != NULL) {
    heard[rank] = true;
    tm_mpi_hear(comm, size, heard);
  }
  tm_mpi_name_missing(size, heard, missing, sizeof missing);
  free(heard);
  snprintf(said, room,
           "%s: %s not come to this call within %g s; such a rank has failed, has ended, or leaves the call out "
           "(TIRAMISU_PATIENCE says for how many seconds ranks wait for each other, 0 for ever)",
           function, missing, tm_mpi_seconds());
}

/* -- meeting */

static bool tm_mpi_room(tm_mpi_own *own, int count) {
  if (own->room >= count) return true;
  int64_t *mine = realloc(own->mine, (size_t)count * sizeof *mine);
  if (mine != NULL) own->mine = mine;
  int64_t *theirs = realloc(own->theirs, (size_t)count * sizeof *theirs);
  if (theirs != NULL) own->theirs = theirs;
  if (mine == NULL || theirs == NULL) return false;
  own->room = count;
  return true;
}

/* Nothing is received any more, and what is sent stays where it is: MPI_Finalize does not wait for either. */
static void tm_mpi_drop(MPI_Request *received, MPI_Request *sent) {
  if (*received != MPI_REQUEST_NULL && MPI_Cancel(received) == MPI_SUCCESS) MPI_Wait(received, MPI_STATUS_IGNORE);
  if (*sent != MPI_REQUEST_NULL) MPI_Request_free(sent);
}

/* Sends this rank's numbers `to` one rank, and receives those `from` one (each -1: none). False where it gives up. */
static bool tm_mpi_trade(tm_mpi_own *own, int count, int64_t *into, int to, int from, int *code) {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  *code = MPI_SUCCESS;
  if (from >= 0) *code = MPI_Irecv(into, count, MPI_INT64_T, from, TM_MPI_TAG_MEET, own->comm, &requests[0]);
  if (*code == MPI_SUCCESS && to >= 0)
    *code = MPI_Isend(own->mine, count, MPI_INT64_T, to, TM_MPI_TAG_MEET, own->comm, &requests[1]);
  if (*code != MPI_SUCCESS || tm_mpi_completed(2, requests, own->comm, code)) return true;
  tm_mpi_drop(&requests[0], &requests[1]);
  return false;
}

static void tm_mpi_take_most(tm_mpi_own *own, int count) {
  for (int n = 0; n < count; n++)
    if (own->theirs[n] > own->mine[n]) own->mine[n] = own->theirs[n];
}

/* The most of each of `own->mine` over all ranks; false where this one gives up. Of the ranks beyond a power of two,
 * `beyond` of them, each hands its numbers to the next one, and is told the result by it. */
static bool tm_mpi_reduce(tm_mpi_own *own, int rank, int size, int count, int *code) {
  int power = 1;
  while (power <= size / 2) power *= 2;
  const int beyond = size - power;
  *code = MPI_SUCCESS;
  if (rank < 2 * beyond && rank % 2 == 0) {
    if (!tm_mpi_trade(own, count, NULL, rank + 1, -1, code)) return false;
    return *code != MPI_SUCCESS || tm_mpi_trade(own, count, own->mine, -1, rank + 1, code);
  }
  if (rank < 2 * beyond) {
    if (!tm_mpi_trade(own, count, own->theirs, -1, rank - 1, code)) return false;
    tm_mpi_take_most(own, count);
  }
  const int number = rank < 2 * beyond ? rank / 2 : rank - beyond;
  for (int distance = 1; distance < power && *code == MPI_SUCCESS; distance *= 2) {
    const int partner = number ^ distance, peer = partner < beyond ? 2 * partner + 1 : partner + beyond;
    if (!tm_mpi_trade(own, count, own->theirs, peer, peer, code)) return false;
    tm_mpi_take_most(own, count);
  }
  if (rank >= 2 * beyond || *code != MPI_SUCCESS) return true;
  return tm_mpi_trade(own, count, NULL, rank - 1, -1, code);
}

/* Whether others may have given up before this rank came. Nobody waits for a call before all have come to the last. */
static bool tm_mpi_is_late(tm_mpi_own *own) {
  struct timespec now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t before = own->came;
  own->came = (int64_t)now.tv_sec;
  return own->came - before >= TM_MPI_LEAST_PATIENCE;
}

/* All ranks come, and have the most of each of the first `count` numbers; there is room for one more. */
static __attribute__((unused)) bool tm_mpi_meet(tm_mpi_own *own, int rank, int size, int count, int *code) {
  own->mine[count] = tm_mpi_is_late(own);
  if (!tm_mpi_reduce(own, rank, size, count + 1, code)) return false;
  return *code != MPI_SUCCESS || own->mine[count] == 0 || tm_mpi_reduce(own, rank, size, 0, code);
}

#endif
