/* Files that hold arrays during a call: two queues, each with a thread, on pread and pwrite; or a simulated disk.

   A row of the array begins at a block of the file if that wastes little, so that whole rows are copied past the page
   cache: from where they are if that is aligned, and else through an aligned buffer of the queue's thread. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tm_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

/* What only a library with a trace has: its copy of this file begins with tm_trace.h. */
#ifdef TM_TRACE_H
#define TRACED(...) __VA_ARGS__
#else
#define TRACED(...)
#endif

enum { BLOCK = 4096, WORTH_PADDING = 4 * BLOCK, CHUNK = TM_FILE_CHUNK, STACK = 1 << 18, SHORT = -1, UNSTAGED = -2,
       MOST_COPIES = 128, QUEUES = 2, TEXT = 600 };

struct tm_file {
  char array[100];
  int plain, direct; /* the same file, through the page cache and past it; -1: not possible */
  char *simulated;
  size_t row_bytes, pitch, bytes;
  bool offered; /* to the device that copies to it or from it */
  void *held;   /* what that has of it */
  void (*release)(void *held);
  tm_file *next;
};

/* One copy. */
typedef struct operation {
  const char *what;
  tm_file *file;
  size_t place;
  char *memory;
  tm_file_box box;
  tm_file_stage stage; /* where the memory is not the host's */
  struct operation *next;
} operation;

typedef struct queue {
  tm_file_call *call;
  int number;
  pthread_t thread;
  bool started;
  operation *first, **last;
  uint64_t issued, done;
  char *buffer; /* aligned, of CHUNK bytes */
  TRACED(tm_trace done_at;) /* the copies that are complete */
  double free_at; /* of a simulated disk: when all that was issued is complete */
} queue;

/* What a simulated disk is like. */
typedef struct disk {
  bool on;
  uint64_t seed;
  int timing;
  double write, read, latency;
  int64_t fails;
} disk;

typedef struct events {
  struct events *next;
  tm_file_event of[];
} events;

struct tm_file_call {
  pid_t process;
  char name[100], folder[PATH_MAX];
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool ending;
  int code; /* the first error that an operation met, and its words */
  char words[TEXT];
  queue queues[QUEUES];
  tm_file *files;
  events *events;
  disk disk;
  uint64_t random;
  int64_t begun; /* operations */
  TRACED(tm_trace *log;)
};

static _Thread_local char error_text[TEXT];
static _Thread_local disk simulated_disk;
static _Thread_local int copied_count;
static _Thread_local struct copied {
  const char *what;
  int64_t bytes[QUEUES];
} copied[MOST_COPIES];

const char *tm_file_error(void) { return error_text; }

__attribute__((format(printf, 2, 3))) static int fail(int code, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(error_text, sizeof error_text, format, values);
  va_end(values);
  return code;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* -- folders -- */

static bool is_in_memory(const char *folder) {
#ifdef __linux__
  enum { TMPFS = 0x01021994 };
  const unsigned long ramfs = 0x858458f6UL, huge = 0x958458f6UL;
  struct statfs found;
  if (statfs(folder, &found) != 0) return false;
  const unsigned long type = (unsigned long)found.f_type & 0xffffffffUL;
  return type == TMPFS || type == ramfs || type == huge;
#else
  (void)folder;
  return false;
#endif
}

/* A new file without a name; -1 if there can be none. */
static int nameless(const char *folder) {
#ifdef O_TMPFILE
  const int made = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (made >= 0) return made;
#endif
  char name[PATH_MAX + 20];
  snprintf(name, sizeof name, "%s/.tiramisu-XXXXXX", folder);
  const int named = mkstemp(name);
  if (named < 0) return -1;
  unlink(name);
  fcntl(named, F_SETFD, FD_CLOEXEC);
  return named;
}

int tm_file_check(const char *folder) {
  const char *const repair = "give the name of a folder on a disk that this process may write to";
  struct stat found;
  if (folder == NULL || folder[0] == '\0')
    return fail(TM_FILE_FOLDER, "no folder was given in which files can be: %s", repair);
  if (stat(folder, &found) != 0)
    return fail(TM_FILE_FOLDER, "the folder %s cannot be used for files: %s; %s", folder, strerror(errno), repair);
  if (!S_ISDIR(found.st_mode))
    return fail(TM_FILE_FOLDER, "%s is no folder: %s", folder, repair);
  if (is_in_memory(folder))
    return fail(TM_FILE_FOLDER, "the folder %s is itself in memory (tmpfs), so that files there save none: %s", folder,
                repair);
  const int made = nameless(folder);
  if (made < 0)
    return fail(TM_FILE_FOLDER, "no file can be made in the folder %s: %s; %s", folder, strerror(errno), repair);
  close(made);
  return 0;
}

/* The same file past the page cache; -1 if its disk does not have that. */
static int past_the_cache(int plain) {
#if defined(O_DIRECT) && defined(__linux__)
  char name[40];
  snprintf(name, sizeof name, "/proc/self/fd/%d", plain);
  return open(name, O_RDWR | O_DIRECT | O_CLOEXEC);
#else
  (void)plain;
  return -1;
#endif
}

/* -- one operation -- */

__attribute__((format(printf, 3, 4))) static void break_call(tm_file_call *call, int code, const char *format, ...) {
  va_list values;
  va_start(values, format);
  pthread_mutex_lock(&call->lock);
  if (call->code == 0) {
    call->code = code;
    vsnprintf(call->words, sizeof call->words, format, values);
  }
  pthread_mutex_unlock(&call->lock);
  va_end(values);
}

/* Moves bytes at `place` of a file until all are, or the system refuses; an error number, 0, or SHORT. */
static int moved(int to, bool stores, char *memory, size_t bytes, size_t place, size_t *left) {
  while (bytes > 0) {
    const ssize_t some = stores ? pwrite(to, memory, bytes, (off_t)place) : pread(to, memory, bytes, (off_t)place);
    if (some < 0 && errno == EINTR) continue;
    *left = bytes;
    if (some < 0) return errno;
    if (some == 0) return stores ? ENOSPC : SHORT;
    memory += some, place += (size_t)some, bytes -= (size_t)some;
  }
  *left = 0;
  return 0;
}

/* Copies bytes between the memory of an operation and the host's; 0, or UNSTAGED. */
static int fetch(const operation *o, char *here, const char *memory, size_t bytes) {
  if (o->stage.copy == NULL) return memcpy(here, memory, bytes), 0;
  return o->stage.copy(o->stage.of, here, memory, bytes, false) == 0 ? 0 : UNSTAGED;
}

static int deliver(const operation *o, char *memory, const char *here, size_t bytes) {
  if (o->stage.copy == NULL) return memcpy(memory, here, bytes), 0;
  return o->stage.copy(o->stage.of, memory, here, bytes, true) == 0 ? 0 : UNSTAGED;
}

/* Moves a run that is contiguous in the file; an error number, 0, SHORT or UNSTAGED. */
static int move_run(queue *q, const operation *o, size_t place, char *memory, size_t bytes, bool whole) {
  const tm_file *const file = o->file;
  const bool stores = q->number == TM_FILE_STORES, staged = o->stage.copy != NULL;
  const size_t padded = (bytes + BLOCK - 1) / BLOCK * BLOCK;
  const bool blocks = file->direct >= 0 && place % BLOCK == 0 && (padded == bytes || whole);
  size_t left = 0;
  if (staged && file->held != NULL && o->stage.move(o->stage.of, file->held, memory, bytes, place, stores)) return 0;
  if (!blocks && !staged) return moved(file->plain, stores, memory, bytes, place, &left);
  if (padded == bytes && (uintptr_t)memory % BLOCK == 0 && !staged) {
    const int code = moved(file->direct, stores, memory, bytes, place, &left);
    return code == EINVAL ? moved(file->plain, stores, memory + (bytes - left), left, place + (bytes - left), &left) : code;
  }
  if (!staged && q->buffer == NULL && posix_memalign((void **)&q->buffer, BLOCK, CHUNK) != 0) {
    q->buffer = NULL;
    return moved(file->plain, stores, memory, bytes, place, &left);
  }
  char *const buffer = staged ? o->stage.memory : q->buffer;
  const size_t all = blocks ? padded : bytes;
  for (size_t at = 0; at < all; at += CHUNK) {
    const size_t part = all - at < CHUNK ? all - at : CHUNK, own = bytes - at < part ? bytes - at : part;
    int code = stores ? fetch(o, buffer, memory + at, own) : 0;
    if (code != 0) return code;
    if (stores) memset(buffer + own, 0, part - own);
    code = moved(blocks ? file->direct : file->plain, stores, buffer, part, place + at, &left);
    if (code == EINVAL && blocks)
      code = moved(file->plain, stores, buffer + (part - left), left, place + at + (part - left), &left);
    if (code == 0 && !stores) code = deliver(o, memory + at, buffer, own);
    if (code != 0) return code;
  }
  return 0;
}

/* Moves bytes of a simulated file. */
static int move_simulated(const queue *q, const operation *o, size_t place, char *memory, size_t bytes) {
  char *const there = o->file->simulated + place;
  for (size_t at = 0; at < bytes; at += CHUNK) {
    const size_t part = bytes - at < CHUNK ? bytes - at : CHUNK;
    char *const here = o->stage.copy != NULL ? o->stage.memory : there + at;
    const bool stores = q->number == TM_FILE_STORES;
    if (here != there + at && !stores) memcpy(here, there + at, part);
    const int code = stores ? fetch(o, here, memory + at, part) : deliver(o, memory + at, here, part);
    if (code != 0) return code;
    if (here != there + at && stores) memcpy(there + at, here, part);
  }
  return 0;
}

/* Moves bytes that are contiguous in the array: row by row where rows begin at blocks. */
static int move_bytes(queue *q, const operation *o, size_t place, char *memory, size_t bytes) {
  const tm_file *const file = o->file;
  if (file->simulated != NULL) return move_simulated(q, o, place, memory, bytes);
  if (file->pitch == file->row_bytes) return move_run(q, o, place, memory, bytes, false);
  while (bytes > 0) {
    const size_t row = place / file->row_bytes, inside = place % file->row_bytes;
    const size_t rest = file->row_bytes - inside, part = bytes < rest ? bytes : rest;
    const int code = move_run(q, o, row * file->pitch + inside, memory, part, part == file->row_bytes);
    if (code != 0) return code;
    memory += part, place += part, bytes -= part;
  }
  return 0;
}

/* Lets devices have the file that a copy is about, with the lock held. */
static void offer(const operation *o) {
  tm_file *const file = o->file;
  if (file->offered || o->stage.file == NULL || file->direct < 0) return;
  file->offered = true;
  file->release = o->stage.release;
  o->stage.file(o->stage.of, file->direct, &file->held);
}

static void copy_all(queue *q, const operation *o) {
  tm_file_call *const call = q->call;
  const tm_file_box *const box = &o->box;
  const bool stores = q->number == TM_FILE_STORES;
  pthread_mutex_lock(&call->lock);
  offer(o);
  const bool broken = call->code != 0, dies = ++call->begun == call->disk.fails && call->disk.on;
  pthread_mutex_unlock(&call->lock);
  if (broken) return;
  int code = dies ? EIO : 0;
  for (size_t plane = 0; plane < box->planes && code == 0; plane++)
    for (size_t line = 0; line < box->lines && code == 0; line++) {
      const size_t source = plane * box->source_plane + line * box->source_pitch;
      const size_t target = plane * box->target_plane + line * box->target_pitch;
      code = move_bytes(q, o, o->place + (stores ? target : source), o->memory + (stores ? source : target), box->run);
    }
  if (code == 0) return;
  break_call(call, TM_FILE_FAULT, "%s: %s cannot %s %zu bytes of %s %s a file in %s: %s", call->name, o->what,
             stores ? "store" : "load", box->run * box->lines * box->planes, o->file->array, stores ? "to" : "from",
             call->disk.on ? "the simulator" : call->folder,
             code == SHORT ? "the file ends before them" : code == UNSTAGED ? o->stage.error() : strerror(code));
}

static void carry_out(queue *q, const operation *o) {
  TRACED(const int64_t begin = tm_trace_now();)
  copy_all(q, o);
  TRACED(if (q->call->log != NULL)
           tm_trace_add(&q->done_at, (tm_trace_event){.name = o->what, .begin = begin, .end = tm_trace_now(),
                                                      .bytes = (int64_t)(o->box.run * o->box.lines * o->box.planes),
                                                      .kind = q->number == TM_FILE_STORES ? TM_TRACE_STORE : TM_TRACE_LOAD,
                                                      .device = -1, .stream = -1, .peer = -1, .tag = -1});)
}

#ifdef TM_TRACE_H
void tm_file_trace(tm_file_call *call, tm_trace *log) { call->log = log; }

static void finish_trace(tm_file_call *call) {
  for (int number = 0; number < QUEUES; number++) {
    tm_trace *const own = &call->queues[number].done_at;
    for (int64_t n = 0; n < own->count && call->log != NULL; n++) tm_trace_add(call->log, own->events[n]);
    tm_trace_free(own);
  }
}
#endif

/* -- queues -- */

static void *carry_out_all(void *given) {
  queue *const q = given;
  tm_file_call *const call = q->call;
  pthread_mutex_lock(&call->lock);
  for (;;) {
    while (q->first == NULL && !call->ending) pthread_cond_wait(&call->changed, &call->lock);
    operation *const o = q->first;
    if (o == NULL) break;
    pthread_mutex_unlock(&call->lock);
    carry_out(q, o);
    pthread_mutex_lock(&call->lock);
    q->first = o->next;
    if (q->first == NULL) q->last = &q->first;
    q->done++;
    pthread_cond_broadcast(&call->changed);
    free(o);
  }
  pthread_mutex_unlock(&call->lock);
  return NULL;
}

#include "tm_file_disk.h"

static int forked(const tm_file_call *call) {
  if (getpid() == call->process) return 0;
  return fail(TM_FILE_FORK, "%s: the process was forked while the queues of its files were open: call %s in the new "
              "process instead", call->name, call->name);
}

static int told(tm_file_call *call) {
  pthread_mutex_lock(&call->lock);
  const int code = call->code;
  if (code != 0) snprintf(error_text, sizeof error_text, "%s", call->words);
  pthread_mutex_unlock(&call->lock);
  return code;
}

/* The host waits until so many operations of a queue are complete; of a simulated one that is not before `due`. */
static int wait_for(tm_file_call *call, queue *q, uint64_t count, double due) {
  if (call->disk.on) {
    while (q->done < count) simulate_next(q);
    const double rest = due > 0 ? due - now() : 0;
    if (rest > 0) {
      const struct timespec t = {(time_t)rest, (long)((rest - (double)(time_t)rest) * 1e9)};
      nanosleep(&t, NULL);
    }
    return told(call);
  }
  pthread_mutex_lock(&call->lock);
  while (q->done < count) pthread_cond_wait(&call->changed, &call->lock);
  pthread_mutex_unlock(&call->lock);
  return told(call);
}

static void note_copy(const char *what, int number, size_t bytes) {
  int at = 0;
  while (at < copied_count && at < MOST_COPIES && strcmp(copied[at].what, what) != 0) at++;
  if (at == copied_count) {
    copied_count++;
    if (at < MOST_COPIES) copied[at] = (struct copied){what, {0, 0}};
  }
  if (at < MOST_COPIES) copied[at].bytes[number] += (int64_t)bytes;
}

static int put(tm_file_call *call, int number, const char *what, tm_file *file, size_t place, char *memory,
               const tm_file_box *box, const tm_file_stage *stage, bool wait) {
  if (forked(call)) return TM_FILE_FORK;
  queue *const q = &call->queues[number];
  const size_t bytes = box->run * box->lines * box->planes;
  if (bytes == 0) return told(call);
  operation *const o = malloc(sizeof *o);
  if (o == NULL) return fail(TM_FILE_MEMORY, "%s: there is no memory for a copy", call->name);
  *o = (operation){what, file, place, memory, *box, stage ? *stage : (tm_file_stage){0}, NULL};
  note_copy(what, number, bytes);
  if (call->disk.on) {
    keep_busy(q, bytes);
    if (number == TM_FILE_LOADS) spoil(o);
  } else if (!q->started) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    const int code = pthread_create(&q->thread, &small, carry_out_all, q);
    pthread_attr_destroy(&small);
    if (code != 0) {
      free(o);
      return fail(TM_FILE_MEMORY, "%s: a thread for files cannot be made: %s", call->name, strerror(code));
    }
    q->started = true;
  }
  pthread_mutex_lock(&call->lock);
  *q->last = o;
  q->last = &o->next;
  const uint64_t count = ++q->issued;
  pthread_cond_broadcast(&call->changed);
  pthread_mutex_unlock(&call->lock);
  if (call->disk.on) simulate_some(call);
  return wait ? wait_for(call, q, count, q->free_at) : told(call);
}

int tm_file_store(tm_file_call *call, const char *what, tm_file *target, size_t place, const void *source,
                  const tm_file_box *box, const tm_file_stage *stage, bool wait) {
  return put(call, TM_FILE_STORES, what, target, place, (char *)(uintptr_t)source, box, stage, wait);
}

int tm_file_load(tm_file_call *call, const char *what, void *target, tm_file *source, size_t place,
                 const tm_file_box *box, const tm_file_stage *stage, bool wait) {
  return put(call, TM_FILE_LOADS, what, source, place, target, box, stage, wait);
}

int tm_file_events(tm_file_call *call, size_t count, tm_file_event **made) {
  events *const some = calloc(1, sizeof *some + count * sizeof some->of[0]);
  if (some == NULL) return fail(TM_FILE_MEMORY, "%s: there is no memory for events", call->name);
  some->next = call->events;
  call->events = some;
  *made = some->of;
  return 0;
}

int tm_file_record(tm_file_call *call, int number, tm_file_event *event) {
  const queue *const q = &call->queues[number];
  *event = (tm_file_event){number, q->issued, q->free_at};
  return 0;
}

int tm_file_wait(tm_file_call *call, const tm_file_event *event) {
  return forked(call) ? TM_FILE_FORK : wait_for(call, &call->queues[event->queue], event->count, event->due);
}

/* -- arrays in files -- */

static void describe_bytes(char *text, size_t room, double bytes) {
  const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) bytes /= 1000, unit++;
  snprintf(text, room, "%.3g %s", bytes, units[unit]);
}

static void close_file(tm_file *file) {
  if (file->held != NULL) file->release(file->held);
  if (file->plain >= 0) close(file->plain);
  if (file->direct >= 0) close(file->direct);
  free(file->simulated);
  free(file);
}

/* Makes the file of an array, and reserves its room. */
static int make_room(const tm_file_call *call, tm_file *file) {
  if (call->disk.on) {
    file->simulated = calloc(file->bytes ? file->bytes : 1, 1);
    return file->simulated ? 0 : fail(TM_FILE_MEMORY, "%s: there is no memory to simulate the file of %s", call->name,
                                      file->array);
  }
  file->plain = nameless(call->folder);
  if (file->plain < 0)
    return fail(TM_FILE_FOLDER, "%s: no file for %s can be made in %s: %s; give another folder", call->name, file->array,
                call->folder, strerror(errno));
  const int code = file->bytes ? posix_fallocate(file->plain, 0, (off_t)file->bytes) : 0;
  if (code != 0) {
    char wanted[32];
    describe_bytes(wanted, sizeof wanted, (double)file->bytes);
    return fail(TM_FILE_ROOM, "%s: the folder %s has no room for %s, %s: %s; give a folder on a larger disk, or smaller sizes",
                call->name, call->folder, file->array, wanted, strerror(code));
  }
  file->direct = past_the_cache(file->plain);
  return 0;
}

int tm_file_open(tm_file_call *call, const char *array, size_t rows, size_t row_bytes, tm_file **made) {
  tm_file *const file = calloc(1, sizeof *file);
  if (file == NULL) return fail(TM_FILE_MEMORY, "%s: there is no memory for a file", call->name);
  const size_t padded = (row_bytes + BLOCK - 1) / BLOCK * BLOCK;
  snprintf(file->array, sizeof file->array, "%s", array);
  file->plain = file->direct = -1;
  file->row_bytes = row_bytes;
  file->pitch = row_bytes >= WORTH_PADDING && !call->disk.on ? padded : row_bytes;
  file->bytes = rows * file->pitch;
  const int code = make_room(call, file);
  if (code != 0) {
    close_file(file);
    return code;
  }
  file->next = call->files;
  call->files = file;
  *made = file;
  return 0;
}

int tm_file_close(tm_file_call *call, tm_file *file) {
  for (tm_file **at = &call->files; *at != NULL; at = &(*at)->next)
    if (*at == file) {
      *at = file->next;
      close_file(file);
      break;
    }
  return 0;
}

/* -- calls -- */

int tm_file_begin(tm_file_call **made, const char *name, const char *folder) {
  const bool simulated = folder == NULL && simulated_disk.on;
  copied_count = 0;
  if (!simulated) {
    if (folder == NULL)
      return fail(TM_FILE_FOLDER, "%s keeps values in files, and was given no folder: call %s_use_storage with one first "
                  "(from Python: compile(storage=folder))", name, name);
    const int code = tm_file_check(folder);
    if (code != 0) {
      char words[TEXT];
      snprintf(words, sizeof words, "%s", error_text);
      return fail(code, "%.100s: %.480s", name, words);
    }
  }
  tm_file_call *const call = calloc(1, sizeof *call);
  if (call == NULL) return fail(TM_FILE_MEMORY, "%s: there is no memory for its files", name);
  call->process = getpid();
  snprintf(call->name, sizeof call->name, "%s", name);
  snprintf(call->folder, sizeof call->folder, "%s", folder ? folder : "");
  call->disk = simulated ? simulated_disk : (disk){.on = false};
  call->random = 2 * call->disk.seed * 0x9e3779b97f4a7c15ULL + 1;
  pthread_mutex_init(&call->lock, NULL);
  pthread_cond_init(&call->changed, NULL);
  for (int number = 0; number < QUEUES; number++) {
    queue *const q = &call->queues[number];
    q->call = call, q->number = number, q->last = &q->first;
  }
  *made = call;
  return 0;
}

/* The first operation that nobody has waited for at the end of a call, in words. */
static int left_over(const tm_file_call *call) {
  for (int number = 0; number < QUEUES; number++)
    if (call->queues[number].first != NULL)
      return fail(TM_FILE_FAULT, "%s: the call ends, and nothing has waited for %s", call->name,
                  call->queues[number].first->what);
  return 0;
}

int tm_file_end(tm_file_call *call, int code) {
  if (call == NULL) return code;
  const bool here = getpid() == call->process;
  if (here) {
    pthread_mutex_lock(&call->lock);
    if (code != 0 && call->code == 0) call->code = code; /* what is still on the queues is not begun any more */
    call->ending = true;
    pthread_cond_broadcast(&call->changed);
    pthread_mutex_unlock(&call->lock);
  }
  for (int number = 0; number < QUEUES && here; number++)
    if (call->queues[number].started) pthread_join(call->queues[number].thread, NULL);
  TRACED(finish_trace(call);)
  if (code == 0) code = told(call);
  if (code == 0 && call->disk.on) code = left_over(call);
  while (call->files != NULL) {
    tm_file *const file = call->files;
    call->files = file->next;
    close_file(file);
  }
  while (call->events != NULL) {
    events *const some = call->events;
    call->events = some->next;
    free(some);
  }
  for (int number = 0; number < QUEUES; number++) {
    queue *const q = &call->queues[number];
    while (q->first != NULL) {
      operation *const o = q->first;
      q->first = o->next;
      free(o);
    }
    free(q->buffer);
  }
  if (here) {
    pthread_mutex_destroy(&call->lock);
    pthread_cond_destroy(&call->changed);
  }
  free(call);
  return code;
}

void tm_file_simulate(bool on, uint64_t seed, int timing, double write, double read, double latency, int64_t fails) {
  simulated_disk = (disk){on, seed, timing, write, read, latency, fails};
}

int tm_file_copies(int most, const char **names, int64_t *stored, int64_t *loaded) {
  const int count = copied_count;
  for (int at = 0; at < most && at < count && at < MOST_COPIES; at++) {
    names[at] = copied[at].what;
    stored[at] = copied[at].bytes[TM_FILE_STORES];
    loaded[at] = copied[at].bytes[TM_FILE_LOADS];
  }
  return count;
}
