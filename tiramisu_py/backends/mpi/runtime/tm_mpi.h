/* What generated functions that run on the ranks of an MPI communicator share: a communicator of their own, agreement
 * on errors, and messages of elements that lie anywhere in an array.
 *
 * Each library sends on a duplicate of the caller's communicator, so that its tags meet no others. The first call with
 * a communicator makes the duplicate, which all ranks do together; it is kept as an attribute, and freed with the
 * communicator. A call that fails after the ranks have agreed says so on stderr and ends the program with MPI_Abort.
 */
#ifndef TM_MPI_H
#define TM_MPI_H

#include <limits.h>
#include <mpi.h>
#include <stdatomic.h>

#include "tm_mpi_meet.h"
#include "tm_runtime.h"

/* What a function returns beside the codes of tm_runtime.h: too few ranks; MPI cannot be used as it is; sizes differ; a
 * rank does not come. */
enum { TM_RANKS = 6, TM_NO_MPI = 7, TM_DIFFERENT = 8, TM_ABSENT = 9 };

/* The largest count that is given to MPI; more elements are sent as fewer elements of a larger type. */
#ifndef TM_MPI_MOST
#define TM_MPI_MOST INT_MAX
#endif
/* So many requests are waited for at once. */
#define TM_MPI_TOGETHER 64
#define TM_MPI_WORDS 512
/* Every MPI has this tag; ranks send it to themselves only. */
#define TM_MPI_TAG_ASIDE 32765

/* The values of a buffered message on their way. */
typedef struct tm_mpi_aside {
  struct tm_mpi_aside *next;
  MPI_Request request;
  void *values;
} tm_mpi_aside;

/* The type of so many elements of another type, one after the other: more than can be counted. */
typedef struct tm_mpi_long {
  struct tm_mpi_long *next;
  int64_t count;
  MPI_Datatype element, type;
} tm_mpi_long;

/* One call of a function. */
typedef struct {
  const char *function;
  MPI_Comm comm;
  tm_mpi_own *own;
  int rank, size;
  /* What the function returns where it cannot go on to ask the others. */
  int code;
  tm_mpi_aside *aside;
  tm_mpi_long *longs;
  /* How many ranks have a block, where blocks have bounds of their own. */
  int64_t used;
  /* The first rank whose block is not as it must be (-1: none), and that block. */
  int odd;
  int64_t odd_lower, odd_upper;
} tm_mpi;

/* -- failures */

__attribute__((noreturn, cold, unused, format(printf, 2, 3)))
static void tm_mpi_give_up(const tm_mpi *mpi, const char *format, ...) {
  char words[TM_MPI_WORDS];
  va_list values;
  va_start(values, format);
  vsnprintf(words, sizeof words, format, values);
  va_end(values);
  fprintf(stderr, "%s failed on rank %d: %s\n", mpi->function, mpi->rank, words);
  fflush(stderr);
  MPI_Abort(mpi->comm, 1);
  abort();
}

/* `towards` is "to" or "from" rank `peer`, or empty. */
__attribute__((noreturn, cold, unused))
static void tm_mpi_failed(const tm_mpi *mpi, const char *statement, const char *towards, int64_t peer, const char *call,
                          int code) {
  char words[MPI_MAX_ERROR_STRING] = "", place[64] = "";
  int length = 0;
  if (MPI_Error_string(code, words, &length) != MPI_SUCCESS) snprintf(words, sizeof words, "error %d", code);
  if (towards[0] != 0) snprintf(place, sizeof place, " %s rank %" PRId64, towards, peer);
  tm_mpi_give_up(mpi, "%s%s: %.*s: %s", statement, place, (int)strcspn(call, "("), call, words);
}

/* A call of MPI for a statement, checked. */
#define TM_MPI_TRY(mpi, statement, towards, peer, ...)                                                           \
  do {                                                                                                           \
    const int tm_mpi_code = (__VA_ARGS__);                                                                       \
    if (__builtin_expect(tm_mpi_code != MPI_SUCCESS, 0))                                                         \
      tm_mpi_failed(mpi, statement, towards, peer, #__VA_ARGS__, tm_mpi_code);                                   \
  } while (0)
/* One that concerns no other rank in particular. */
#define TM_MPI_OWN(mpi, statement, ...) TM_MPI_TRY(mpi, statement, "", 0, __VA_ARGS__)

TM_INLINE void *tm_mpi_memory(const tm_mpi *mpi, const char *statement, size_t bytes) {
  void *memory = malloc(bytes == 0 ? 1 : bytes);
  if (memory == NULL) tm_mpi_give_up(mpi, "%s: there is no memory for %zu bytes", statement, bytes);
  return memory;
}

/* -- the communicator */

/* What is kept with a communicator under a key, which the first that asks makes; NULL: nothing yet. An MPI error code. */
static int tm_mpi_kept(MPI_Comm comm, _Atomic int *key, MPI_Comm_delete_attr_function *forget, void **kept) {
  int known = atomic_load(key), expected = MPI_KEYVAL_INVALID, made, found = 0;
  if (known == MPI_KEYVAL_INVALID) {
    const int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &made, NULL);
    if (code != MPI_SUCCESS) return code;
    known = made;
    if (!atomic_compare_exchange_strong(key, &expected, made)) {
      known = expected;
      MPI_Comm_free_keyval(&made);
    }
  }
  const int code = MPI_Comm_get_attr(comm, known, kept, &found);
  if (!found) *kept = NULL;
  return code;
}

static _Atomic int tm_mpi_key = MPI_KEYVAL_INVALID;

/* Whether a message has come that nobody has received: another rank has waited for this one in vain. */
static bool tm_mpi_is_behind(MPI_Comm comm) {
  int said = 0;
  for (int n = 0; n < TM_MPI_TRIES && !said; n++) /* one alone may not take in what has come */
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &said, MPI_STATUS_IGNORE) != MPI_SUCCESS) return true;
  return said != 0;
}

/* A duplicate that is lost stays: other ranks do not free it, and MPI may still send what is here. One that has messages
 * stays too, as MPICH aborts where it is freed; such a message may come at any time after MPI_COMM_WORLD's last call, and
 * what is made of that one is MPI_Finalize's to free. */
static int tm_mpi_forget(MPI_Comm comm, int key, void *kept, void *unused) {
  (void)key, (void)unused;
  tm_mpi_own *const own = kept;
  if (own->lost) return MPI_SUCCESS;
  int code = MPI_SUCCESS;
  if (own->comm != MPI_COMM_NULL && comm != MPI_COMM_WORLD && !tm_mpi_is_behind(own->comm)) code = MPI_Comm_free(&own->comm);
  free(own->mine);
  free(own->theirs);
  free(own);
  return code;
}

/* Makes the duplicate of `comm` as soon as all ranks have come, and are there still; false where that takes too long. */
static bool tm_mpi_fill_own(MPI_Comm comm, tm_mpi_own *own, int *code) {
  *code = MPI_SUCCESS;
  for (int time = 0; time < 2 && *code == MPI_SUCCESS; time++) {
    MPI_Request request = MPI_REQUEST_NULL;
    *code = MPI_Ibarrier(comm, &request);
    if (*code == MPI_SUCCESS && !tm_mpi_completed(1, &request, comm, code)) return false;
  }
  if (*code == MPI_SUCCESS) *code = MPI_Comm_dup(comm, &own->comm);
  if (*code == MPI_SUCCESS) *code = MPI_Comm_set_errhandler(own->comm, MPI_ERRORS_RETURN);
  return true;
}

/* The duplicate of `comm`, which lasts as long; false where it is lost already, as not all ranks come to make it. */
static bool tm_mpi_make_own(MPI_Comm comm, tm_mpi_own **made, int *code) {
  tm_mpi_own *const own = calloc(1, sizeof *own);
  *code = MPI_ERR_NO_MEM;
  if (own == NULL) return true;
  own->comm = MPI_COMM_NULL;
  *code = MPI_Comm_set_attr(comm, atomic_load(&tm_mpi_key), own);
  if (*code != MPI_SUCCESS) {
    free(own);
    return true;
  }
  *made = own;
  own->lost = !tm_mpi_fill_own(comm, own, code);
  if (!own->lost && *code != MPI_SUCCESS) MPI_Comm_delete_attr(comm, atomic_load(&tm_mpi_key));
  return !own->lost;
}

/* The duplicate of `comm` in `own`; false where the other ranks do not come to make it. `code` is that of MPI. */
static bool tm_mpi_duplicate(MPI_Comm comm, tm_mpi_own **own, int *code) {
  void *kept = NULL;
  *code = tm_mpi_kept(comm, &tm_mpi_key, tm_mpi_forget, &kept);
  if (*code != MPI_SUCCESS) return true;
  *own = kept;
  return kept != NULL || tm_mpi_make_own(comm, own, code);
}

/* No rank waits any longer for those that do not come: neither in this call nor in the next. */
__attribute__((cold, noinline, unused))
static int tm_mpi_leave(tm_mpi *mpi, char *said, size_t room) {
  mpi->own->lost = true;
  tm_mpi_stop_waiting(mpi->function, mpi->comm, said, room);
  return TM_ABSENT;
}

/* The number of this rank among those of its machine; all ranks ask, which is one more split in the first call. */
static __attribute__((unused)) int tm_mpi_local(const tm_mpi *mpi) {
  static _Atomic int key = MPI_KEYVAL_INVALID;
  const char *const what = "the ranks of this machine";
  void *kept = NULL; /* one more than the number */
  TM_MPI_OWN(mpi, what, tm_mpi_kept(mpi->comm, &key, MPI_COMM_NULL_DELETE_FN, &kept));
  if (kept != NULL) return (int)((intptr_t)kept - 1);
  MPI_Comm near;
  int local = 0;
  TM_MPI_OWN(mpi, what, MPI_Comm_split_type(mpi->comm, MPI_COMM_TYPE_SHARED, mpi->rank, MPI_INFO_NULL, &near));
  MPI_Comm_rank(near, &local);
  MPI_Comm_free(&near);
  kept = (void *)((intptr_t)local + 1);
  TM_MPI_OWN(mpi, what, MPI_Comm_set_attr(mpi->comm, atomic_load(&key), kept));
  return local;
}

/* Begins a call of `function`; false where it cannot even ask the other ranks, with the reason in `said`. */
TM_INLINE bool tm_mpi_begin(tm_mpi *mpi, const char *function, MPI_Comm comm, char *said, size_t room) {
  int begun = 0, ended = 0, between = 0, code = MPI_SUCCESS;
  *mpi = (tm_mpi){.function = function, .comm = MPI_COMM_NULL, .code = TM_NO_MPI};
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  const char *fault = NULL;
  if (!begun || ended) fault = "MPI is not running: call it after MPI_Init and before MPI_Finalize";
  else if (comm == MPI_COMM_NULL) fault = "the communicator is MPI_COMM_NULL";
  else if (MPI_Comm_test_inter(comm, &between) != MPI_SUCCESS) fault = "the communicator cannot be used";
  else if (between) fault = "the communicator is one between two groups; give one of a single group";
  else if (!tm_mpi_duplicate(comm, &mpi->own, &code)) {
    mpi->code = TM_ABSENT;
    tm_mpi_stop_waiting(function, comm, said, room);
    return false;
  }
  if (fault == NULL && code != MPI_SUCCESS) fault = "the communicator cannot be duplicated";
  if (fault != NULL) {
    snprintf(said, room, "%s: %s", function, fault);
    return false;
  }
  if (mpi->own->lost) {
    mpi->code = TM_ABSENT;
    snprintf(said, room,
             "%s: in an earlier call with this communicator some rank did not come; ranks that go on without it cannot "
             "use it any more", function);
    return false;
  }
  mpi->comm = mpi->own->comm;
  MPI_Comm_rank(mpi->comm, &mpi->rank);
  MPI_Comm_size(mpi->comm, &mpi->size);
  return true;
}

/* The ranks meet before they tell each other their blocks; false where one does not come. */
static __attribute__((unused)) bool tm_mpi_come(tm_mpi *mpi, char *said, size_t room) {
  int code = MPI_SUCCESS;
  if (!tm_mpi_room(mpi->own, 1)) tm_mpi_give_up(mpi, "agreement: there is no memory");
  if (!tm_mpi_meet(mpi->own, mpi->rank, mpi->size, 0, &code)) {
    mpi->code = tm_mpi_leave(mpi, said, room);
    return false;
  }
  TM_MPI_OWN(mpi, "agreement", code);
  return true;
}

/* What keeps this thread from sending messages (NULL: nothing), if the function runs on `threads`. */
TM_INLINE const char *tm_mpi_unfit(bool threads) {
  int level = MPI_THREAD_SINGLE, first = 1;
  MPI_Query_thread(&level);
#ifdef _OPENMP
  if (threads && level < MPI_THREAD_FUNNELED)
    return "its loops run on threads: initialise MPI with MPI_Init_thread, for MPI_THREAD_FUNNELED or more";
#else
  (void)threads;
#endif
  if (level < MPI_THREAD_SERIALIZED) MPI_Is_thread_main(&first);
  return first ? NULL : "only the thread that initialised MPI may call it, unless that is for MPI_THREAD_SERIALIZED";
}

/* The number of ranks of a process grid: at most INT64_MAX. */
TM_INLINE int64_t tm_mpi_ranks(int axes, const int64_t *extents) {
  int64_t ranks = 1;
  for (int axis = 0; axis < axes; axis++)
    if (__builtin_mul_overflow(ranks, extents[axis], &ranks)) return INT64_MAX;
  return ranks;
}
#define TM_MPI_RANKS(...) \
  tm_mpi_ranks(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

/* How many ranks have a block of the numbers from 0 up to `extent`: the first ones, at least one, each with `least`
 * numbers where there are several; those of the others are empty. All ranks where some block is not as it must be. */
TM_INLINE int64_t tm_mpi_blocks(tm_mpi *mpi, int64_t lower, int64_t upper, int64_t extent, int64_t least) {
  const int64_t mine[3] = {lower, upper, extent};
  int64_t(*const all)[3] = tm_mpi_memory(mpi, "agreement", sizeof(int64_t[3]) * (size_t)mpi->size);
  TM_MPI_OWN(mpi, "agreement", MPI_Allgather(mine, 3, MPI_INT64_T, all, 3, MPI_INT64_T, mpi->comm));
  int64_t used = 0, at = 0;
  const int64_t end = all[0][2];
  const bool several = all[0][1] != end;
  mpi->odd = -1;
  for (int rank = 0; rank < mpi->size && mpi->odd < 0; rank++) {
    const int64_t from = all[rank][0], to = all[rank][1];
    const bool needed = rank == 0 || at < end;
    const bool fits = needed ? from == at && to >= from && to <= end && (!several || to - from >= least) : from == to;
    if (!fits || (rank == mpi->size - 1 && needed && to != end)) {
      mpi->odd = rank;
      mpi->odd_lower = from;
      mpi->odd_upper = to;
    }
    if (needed) {
      at = to;
      used = rank + 1;
    }
  }
  free(all);
  return mpi->odd < 0 ? used : mpi->size;
}

/* -- agreement */

/* Memory that each rank needs before the ranks agree; where there is none, that is what they agree on. */
TM_INLINE void *tm_mpi_needed(const tm_mpi *mpi, void *memory, int *wrong, char *said, size_t room, const char *words) {
  if (memory != NULL) return memory;
  *wrong = TM_MEMORY;
  snprintf(said, room, "%s: there is no memory for the temporary array %s", mpi->function, words);
  return NULL;
}
#define TM_NEEDED(function, words, memory) \
  (wrong || idle ? NULL : tm_mpi_needed(&mpi, memory, &wrong, function##_error, sizeof function##_error, words))

/* Says which rank was given another size than rank 0. */
TM_INLINE int tm_mpi_differs(const tm_mpi *mpi, char *said, size_t room, const char *name, int64_t size) {
  int64_t first = size, other = size;
  TM_MPI_OWN(mpi, "agreement", MPI_Bcast(&first, 1, MPI_INT64_T, 0, mpi->comm));
  const int odd = size == first ? mpi->size : mpi->rank;
  int rank = odd;
  TM_MPI_OWN(mpi, "agreement", MPI_Allreduce(&odd, &rank, 1, MPI_INT, MPI_MIN, mpi->comm));
  TM_MPI_OWN(mpi, "agreement", MPI_Bcast(&other, 1, MPI_INT64_T, rank, mpi->comm));
  snprintf(said, room, "%s: %s is %" PRId64 " on rank 0 and %" PRId64 " on rank %d, but must be the same on all ranks",
           mpi->function, name, first, other, rank);
  return TM_DIFFERENT;
}

/* What all ranks return: 0 where each has no fault and all were given the same sizes; else the code of the first rank
 * that has one, and its words in everyone's `said`. One reduction where nothing is wrong. Where a rank does not come, the
 * others have its number in their words. */
TM_INLINE int tm_mpi_agree(tm_mpi *mpi, int code, char *said, size_t room, int count, const int64_t *sizes,
                           const char *const *names) {
  int met = MPI_SUCCESS;
  if (!tm_mpi_room(mpi->own, 2 * count + 2)) tm_mpi_give_up(mpi, "agreement: there is no memory for %d numbers", count);
  int64_t *const most = mpi->own->mine;
  most[0] = code == 0 ? 0 : mpi->size - mpi->rank;
  for (int n = 0; n < count; n++) {
    most[2 * n + 1] = sizes[n];
    most[2 * n + 2] = -sizes[n];
  }
  if (!tm_mpi_meet(mpi->own, mpi->rank, mpi->size, 2 * count + 1, &met)) {
    char absent[TM_MPI_WORDS];
    const int left = tm_mpi_leave(mpi, code == 0 ? said : absent, code == 0 ? room : sizeof absent);
    return code == 0 ? left : code;
  }
  TM_MPI_OWN(mpi, "agreement", met);
  for (int n = 0; n < count; n++)
    if (most[2 * n + 1] != -most[2 * n + 2]) return tm_mpi_differs(mpi, said, room, names[n], sizes[n]);
  if (most[0] == 0) return 0;
  const int first = mpi->size - (int)most[0];
  char words[TM_MPI_WORDS] = "";
  snprintf(words, sizeof words, "%.*s", TM_MPI_WORDS - 32, said);
  TM_MPI_OWN(mpi, "agreement", MPI_Bcast(&code, 1, MPI_INT, first, mpi->comm));
  TM_MPI_OWN(mpi, "agreement", MPI_Bcast(words, TM_MPI_WORDS, MPI_CHAR, first, mpi->comm));
  snprintf(said, room, "%s (on rank %d)", words, first);
  return code;
}

/* -- the elements of a message */

/* One side of a box: how many pieces there are along it, so many bytes apart. */
typedef struct {
  int64_t count, step;
} tm_mpi_side;

/* What MPI calls them: `count` elements of a type, which was `made` for them or is one of C. */
typedef struct {
  int count;
  MPI_Datatype type;
  bool made;
} tm_mpi_elements;

/* `count` parts, so many bytes apart. */
static __attribute__((unused)) MPI_Datatype tm_mpi_repeated(const tm_mpi *mpi, const char *statement, MPI_Datatype part,
                                                            int64_t count, int64_t step) {
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  if (count <= TM_MPI_MOST) {
    TM_MPI_OWN(mpi, statement, MPI_Type_create_hvector((int)count, 1, (MPI_Aint)step, part, &whole));
    return whole;
  }
  const int64_t rows = count / TM_MPI_MOST, rest = count % TM_MPI_MOST;
  MPI_Datatype row = tm_mpi_repeated(mpi, statement, part, TM_MPI_MOST, step);
  MPI_Datatype parts[2] = {tm_mpi_repeated(mpi, statement, row, rows, TM_MPI_MOST * step), MPI_DATATYPE_NULL};
  TM_MPI_OWN(mpi, statement, MPI_Type_free(&row));
  if (rest == 0) return parts[0];
  parts[1] = tm_mpi_repeated(mpi, statement, part, rest, step);
  const int once[2] = {1, 1};
  const MPI_Aint places[2] = {0, (MPI_Aint)(rows * TM_MPI_MOST * step)};
  TM_MPI_OWN(mpi, statement, MPI_Type_create_struct(2, once, places, parts, &whole));
  TM_MPI_OWN(mpi, statement, MPI_Type_free(&parts[0]));
  TM_MPI_OWN(mpi, statement, MPI_Type_free(&parts[1]));
  return whole;
}

/* The elements of a box, which begins where the message does. The last side runs fastest; `bytes` is an element's size.
 * Sides that continue each other become one, so that whole rows are contiguous. */
TM_INLINE tm_mpi_elements tm_mpi_box(const tm_mpi *mpi, const char *statement, MPI_Datatype type, int64_t bytes,
                                     int sides, const tm_mpi_side *side) {
  tm_mpi_side level[sides + 1];
  int levels = 0;
  level[0] = (tm_mpi_side){1, bytes};
  for (int n = sides - 1; n >= 0; n--) {
    if (side[n].count <= 0) return (tm_mpi_elements){0, type, false};
    if (side[n].count == 1) continue;
    if (side[n].step == level[levels].count * level[levels].step)
      level[levels].count *= side[n].count;
    else
      level[++levels] = side[n];
  }
  if (levels == 0 && level[0].count <= TM_MPI_MOST) return (tm_mpi_elements){(int)level[0].count, type, false};
  MPI_Datatype found = type;
  bool made = false;
  for (int n = 0; n <= levels; n++) {
    MPI_Datatype part = found;
    if (level[n].count == 1) continue;
    if (n == 0 && levels > 0 && level[0].count <= TM_MPI_MOST && level[1].count <= TM_MPI_MOST) {
      n = 1;
      TM_MPI_OWN(mpi, statement, MPI_Type_create_hvector((int)level[1].count, (int)level[0].count,
                                                         (MPI_Aint)level[1].step, type, &found));
    } else {
      found = tm_mpi_repeated(mpi, statement, part, level[n].count, level[n].step);
    }
    if (made) TM_MPI_OWN(mpi, statement, MPI_Type_free(&part));
    made = true;
  }
  TM_MPI_OWN(mpi, statement, MPI_Type_commit(&found));
  return (tm_mpi_elements){1, found, true};
}
#define TM_MPI_BOX(statement, T, type, ...)                                                                      \
  tm_mpi_box(&mpi, statement, type, sizeof(T), sizeof((const tm_mpi_side[]){__VA_ARGS__}) / sizeof(tm_mpi_side), \
             (const tm_mpi_side[]){__VA_ARGS__})
/* One side of it, in elements of type T. */
#define TM_MPI_SIDE(T, count, step) {count, (step) * (int64_t)sizeof(T)}

/* The type is no longer needed; messages under way keep what they need of it. TM_ELEMENTS free theirs on leaving the
 * scope. */
TM_INLINE void tm_mpi_forget_elements(tm_mpi_elements *elements) {
  if (elements->made) MPI_Type_free(&elements->type);
  elements->made = false;
}
#define TM_ELEMENTS __attribute__((cleanup(tm_mpi_forget_elements))) tm_mpi_elements

#ifdef TM_TRACE_H
TM_INLINE int64_t tm_mpi_bytes(const tm_mpi_elements *elements) {
  MPI_Count size = 0;
  return MPI_Type_size_x(elements->type, &size) == MPI_SUCCESS ? (int64_t)size * elements->count : -1;
}
#endif

/* -- messages of elements one after the other, or of a type made for them */

__attribute__((cold, noinline, unused))
static MPI_Datatype tm_mpi_long_type(tm_mpi *mpi, const char *statement, int64_t count, MPI_Datatype type) {
  tm_mpi_long *one = mpi->longs;
  while (one != NULL && (one->count != count || one->element != type)) one = one->next;
  if (one != NULL) return one->type;
  MPI_Aint least = 0, bytes = 0;
  TM_MPI_OWN(mpi, statement, MPI_Type_get_extent(type, &least, &bytes));
  one = tm_mpi_memory(mpi, statement, sizeof *one);
  const tm_mpi_elements made = tm_mpi_box(mpi, statement, type, bytes, 1, &(tm_mpi_side){count, bytes});
  *one = (tm_mpi_long){mpi->longs, count, type, made.type};
  mpi->longs = one;
  return made.type;
}

TM_INLINE int tm_mpi_count(int64_t count) {
  return __builtin_expect(count > TM_MPI_MOST, 0) ? 1 : count < 0 ? 0 : (int)count;
}

TM_INLINE MPI_Datatype tm_mpi_type(tm_mpi *mpi, const char *statement, int64_t count, MPI_Datatype type) {
  return __builtin_expect(count > TM_MPI_MOST, 0) ? tm_mpi_long_type(mpi, statement, count, type) : type;
}

/* ``call(place, count, type, peer, tag, communicator, ...)``, a call of MPI, for any number of elements; checked. */
#define TM_MPI_MESSAGE(statement, towards, call, place, count, type, peer, tag, ...)                             \
  do {                                                                                                           \
    const int64_t tm_count = count;                                                                              \
    const int tm_peer = (int)(peer);                                                                             \
    const int tm_code = call(place, tm_mpi_count(tm_count), tm_mpi_type(&mpi, statement, tm_count, type),        \
                             tm_peer, tag, mpi.comm, ##__VA_ARGS__);                                             \
    if (__builtin_expect(tm_code != MPI_SUCCESS, 0))                                                             \
      tm_mpi_failed(&mpi, statement, towards, tm_peer, #call, tm_code);                                          \
  } while (0)
#define TM_SEND(statement, ...) TM_MPI_MESSAGE(statement, "to", __VA_ARGS__)
#define TM_RECEIVE(statement, ...) TM_MPI_MESSAGE(statement, "from", __VA_ARGS__)

/* The elements of several boxes, in order: what MPI calls each, and how many bytes after the array's start it is. */
typedef struct {
  int used, room;
  int *counts;
  MPI_Aint *places;
  MPI_Datatype *types;
} tm_mpi_pieces;

TM_INLINE void tm_mpi_widen(const tm_mpi *mpi, const char *statement, tm_mpi_pieces *pieces) {
  if (pieces->room > INT_MAX / 2) tm_mpi_give_up(mpi, "%s: the message has too many pieces", statement);
  const int room = pieces->room == 0 ? 16 : 2 * pieces->room;
  int *counts = realloc(pieces->counts, (size_t)room * sizeof *counts);
  if (counts != NULL) pieces->counts = counts;
  MPI_Aint *places = realloc(pieces->places, (size_t)room * sizeof *places);
  if (places != NULL) pieces->places = places;
  MPI_Datatype *types = realloc(pieces->types, (size_t)room * sizeof *types);
  if (types != NULL) pieces->types = types;
  if (counts == NULL || places == NULL || types == NULL)
    tm_mpi_give_up(mpi, "%s: there is no memory for a message of %d pieces", statement, room);
  pieces->room = room;
}

TM_INLINE void tm_mpi_add(const tm_mpi *mpi, const char *statement, tm_mpi_pieces *pieces, const void *array,
                          const void *first, MPI_Datatype type, int64_t bytes, int sides, const tm_mpi_side *side) {
  const tm_mpi_elements box = tm_mpi_box(mpi, statement, type, bytes, sides, side);
  const MPI_Aint place = (const char *)first - (const char *)array;
  const int last = pieces->used - 1;
  if (box.count == 0) return;
  if (last >= 0 && !box.made && pieces->types[last] == type && pieces->counts[last] <= TM_MPI_MOST - box.count &&
      pieces->places[last] + (MPI_Aint)(pieces->counts[last] * bytes) == place) {
    pieces->counts[last] += box.count;
    return;
  }
  if (pieces->used == pieces->room) tm_mpi_widen(mpi, statement, pieces);
  pieces->counts[pieces->used] = box.count;
  pieces->places[pieces->used] = place;
  pieces->types[pieces->used++] = box.type;
}
#define TM_MPI_ADD(statement, array, first, T, type, ...)                                                        \
  tm_mpi_add(&mpi, statement, &tm_pieces, array, first, type, sizeof(T),                                         \
             sizeof((const tm_mpi_side[]){{1, 0}, ##__VA_ARGS__}) / sizeof(tm_mpi_side),                         \
             (const tm_mpi_side[]){{1, 0}, ##__VA_ARGS__})

/* The pieces as elements that begin where the array does; `pieces` is then empty. */
TM_INLINE tm_mpi_elements tm_mpi_joined(const tm_mpi *mpi, const char *statement, tm_mpi_pieces *pieces,
                                        MPI_Datatype type) {
  tm_mpi_elements found = {pieces->used == 0 ? 0 : 1, type, pieces->used > 0};
  bool plain = true;
  for (int n = 0; n < pieces->used; n++) plain = plain && pieces->types[n] == type;
  if (pieces->used > 0 && plain)
    TM_MPI_OWN(mpi, statement,
               MPI_Type_create_hindexed(pieces->used, pieces->counts, pieces->places, type, &found.type));
  else if (pieces->used > 0)
    TM_MPI_OWN(mpi, statement,
               MPI_Type_create_struct(pieces->used, pieces->counts, pieces->places, pieces->types, &found.type));
  if (found.made) TM_MPI_OWN(mpi, statement, MPI_Type_commit(&found.type));
  for (int n = 0; n < pieces->used; n++)
    if (pieces->types[n] != type) TM_MPI_OWN(mpi, statement, MPI_Type_free(&pieces->types[n]));
  free(pieces->counts);
  free(pieces->places);
  free(pieces->types);
  *pieces = (tm_mpi_pieces){0};
  return found;
}

/* -- requests */

/* An array of requests, none in use; NULL where there is no memory. */
TM_INLINE MPI_Request *tm_mpi_requests(int64_t count) {
  const int64_t bytes = TM_BYTES(MPI_Request, count);
  MPI_Request *requests = tm_allocate(bytes);
  for (int64_t n = 0; requests != NULL && n < count; n++) requests[n] = MPI_REQUEST_NULL;
  return requests;
}

__attribute__((noreturn, cold, unused))
static void tm_mpi_wait_failed(const tm_mpi *mpi, const char *statement, int count, const MPI_Status *statuses,
                               int code) {
  for (int n = 0; code == MPI_ERR_IN_STATUS && n < count; n++)
    if (statuses[n].MPI_ERROR != MPI_SUCCESS && statuses[n].MPI_ERROR != MPI_ERR_PENDING)
      tm_mpi_failed(mpi, statement, statuses[n].MPI_SOURCE >= 0 ? "from" : "", statuses[n].MPI_SOURCE, "MPI_Waitall",
                    statuses[n].MPI_ERROR);
  tm_mpi_failed(mpi, statement, "", 0, "MPI_Waitall", code);
}

/* Goes on when all are complete. */
TM_INLINE void tm_mpi_wait(const tm_mpi *mpi, const char *statement, MPI_Request *requests, int64_t count) {
  MPI_Status statuses[TM_MPI_TOGETHER];
  for (int64_t n = 0; n < count; n += TM_MPI_TOGETHER) {
    const int some = (int)(count - n < TM_MPI_TOGETHER ? count - n : TM_MPI_TOGETHER);
    const int code = MPI_Waitall(some, requests + n, statuses);
    if (__builtin_expect(code != MPI_SUCCESS, 0)) tm_mpi_wait_failed(mpi, statement, some, statuses, code);
  }
}

/* Goes on when single requests, wherever they are, are complete. */
TM_INLINE void tm_mpi_wait_each(const tm_mpi *mpi, const char *statement, int count, MPI_Request *const *requests) {
  MPI_Request together[count];
  for (int n = 0; n < count; n++) together[n] = *requests[n];
  tm_mpi_wait(mpi, statement, together, count);
  for (int n = 0; n < count; n++) *requests[n] = together[n];
}
#define TM_WAIT(statement, ...)                                                                                  \
  tm_mpi_wait_each(&mpi, statement, sizeof((MPI_Request *const[]){__VA_ARGS__}) / sizeof(MPI_Request *),         \
                   (MPI_Request *const[]){__VA_ARGS__})

/* Persistent requests are no longer needed. */
TM_INLINE void tm_mpi_forget_requests(const tm_mpi *mpi, const char *words, MPI_Request *requests, int64_t count) {
  for (int64_t n = 0; n < count; n++)
    if (requests[n] != MPI_REQUEST_NULL) TM_MPI_OWN(mpi, words, MPI_Request_free(&requests[n]));
}

/* -- buffered messages: the values are put aside, in as much memory as they need, until they are received. The buffer
 * that MPI has for this (MPI_Buffer_attach) is the caller's: there is one in a process, of a fixed size. */

/* Frees what was received; waits for all of it where `all`. */
TM_INLINE void tm_mpi_tidy(tm_mpi *mpi, const char *statement, bool all) {
  for (tm_mpi_aside **link = &mpi->aside; *link != NULL;) {
    tm_mpi_aside *const one = *link;
    int done = 1;
    if (all)
      TM_MPI_OWN(mpi, statement, MPI_Wait(&one->request, MPI_STATUS_IGNORE));
    else
      TM_MPI_OWN(mpi, statement, MPI_Test(&one->request, &done, MPI_STATUS_IGNORE));
    if (!done) {
      link = &one->next;
      continue;
    }
    *link = one->next;
    free(one->values);
    free(one);
  }
}

TM_INLINE void tm_mpi_send_buffered(tm_mpi *mpi, const char *statement, const void *place, int64_t many,
                                    MPI_Datatype of, MPI_Datatype element, int64_t bytes, int64_t to, int tag) {
  const int count = tm_mpi_count(many), peer = (int)to;
  const MPI_Datatype type = tm_mpi_type(mpi, statement, many, of);
  MPI_Count size = 0;
  tm_mpi_tidy(mpi, statement, false);
  TM_MPI_OWN(mpi, statement, MPI_Type_size_x(type, &size));
  const int64_t total = (int64_t)size * count;
  tm_mpi_aside *const one = tm_mpi_memory(mpi, statement, sizeof *one);
  *one = (tm_mpi_aside){mpi->aside, MPI_REQUEST_NULL, tm_mpi_memory(mpi, statement, (size_t)total)};
  mpi->aside = one;
  tm_mpi_elements whole = tm_mpi_box(mpi, statement, element, bytes, 1, &(tm_mpi_side){total / bytes, bytes});
  TM_MPI_OWN(mpi, statement,
             MPI_Sendrecv(place, count, type, mpi->rank, TM_MPI_TAG_ASIDE, one->values, whole.count, whole.type,
                          mpi->rank, TM_MPI_TAG_ASIDE, mpi->comm, MPI_STATUS_IGNORE));
  TM_MPI_TRY(mpi, statement, "to", peer,
             MPI_Isend(one->values, whole.count, whole.type, peer, tag, mpi->comm, &one->request));
  tm_mpi_forget_elements(&whole);
}

/* Ends the call: what was put aside is on its way. */
TM_INLINE void tm_mpi_end(tm_mpi *mpi) {
  tm_mpi_tidy(mpi, "the end of buffered messages", true);
  for (tm_mpi_long *one; (one = mpi->longs) != NULL; free(one)) {
    mpi->longs = one->next;
    TM_MPI_OWN(mpi, "the end of long messages", MPI_Type_free(&one->type));
  }
}

#endif
