/* The event log of a generated function: what its last call in a thread did, and when. Only functions compiled with a
 * trace have it. Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share; what GPUs did is in
 * times of that clock, too.
 *
 * The host does one thing after another: `tm_trace_nest` and the like say what it begins, `tm_trace_end` that it is done.
 */
#ifndef TM_TRACE_H
#define TM_TRACE_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A call has at most so many events; more are counted, and dropped. */
#ifndef TM_TRACE_MOST
#define TM_TRACE_MOST (1 << 20)
#endif
#define TM_TRACE_NAMED 256
#define TM_TRACED static inline __attribute__((unused))

/* What the host does; from TM_TRACE_KERNEL on, what devices do, and then the queues of files. */
typedef enum tm_trace_kind {
  TM_TRACE_NEST, TM_TRACE_LAUNCH, TM_TRACE_COPY, TM_TRACE_WAIT, TM_TRACE_SEND, TM_TRACE_RECEIVE, TM_TRACE_COLLECTIVE,
  TM_TRACE_KERNEL, TM_TRACE_UPLOAD, TM_TRACE_DOWNLOAD, TM_TRACE_TRANSFER, TM_TRACE_STORE, TM_TRACE_LOAD
} tm_trace_kind;

/* Where a member says nothing it is -1. */
typedef struct tm_trace_event {
  const char *name;
  int64_t begin, end, bytes;
  int32_t kind, device, stream, peer, tag, unused;
} tm_trace_event;

typedef struct tm_trace {
  tm_trace_event *events;
  int64_t count, room, dropped;
  /* When the call began; on ranks: when all of them had begun, which is nearly the same moment for all. */
  int64_t begun;
  int32_t rank;
  int32_t no_memory; /* whether that is why events were dropped */
  tm_trace_event open; /* what the host is doing */
} tm_trace;

TM_TRACED int64_t tm_trace_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A call begins. The memory of the call before is used again. */
TM_TRACED void tm_trace_start(tm_trace *log) {
  log->count = log->dropped = 0;
  log->rank = log->no_memory = 0;
  log->begun = tm_trace_now();
}

/* The memory of a log; NULL where there is none for one event more. */
TM_TRACED tm_trace_event *tm_trace_room(tm_trace *log) {
  if (log->count < log->room) return &log->events[log->count];
  const int64_t room = log->room == 0 ? 256 : 2 * log->room;
  tm_trace_event *const more = log->count >= TM_TRACE_MOST ? NULL : realloc(log->events, (size_t)room * sizeof *more);
  if (more == NULL) {
    log->dropped++;
    if (log->count < TM_TRACE_MOST) log->no_memory = 1;
    return NULL;
  }
  log->events = more;
  log->room = room;
  return &log->events[log->count];
}

TM_TRACED void tm_trace_add(tm_trace *log, tm_trace_event event) {
  tm_trace_event *const place = tm_trace_room(log);
  if (place == NULL) return;
  *place = event;
  log->count++;
}

TM_TRACED void tm_trace_free(tm_trace *log) {
  free(log->events);
  *log = (tm_trace){0};
}

/* -- what the host does */

TM_TRACED void tm_trace_open(tm_trace *log, tm_trace_kind kind, const char *name, int device, int stream, int64_t peer,
                             int tag, int64_t bytes) {
  log->open = (tm_trace_event){.name = name, .bytes = bytes, .kind = (int32_t)kind, .device = device, .stream = stream,
                               .peer = (int32_t)peer, .tag = tag};
  log->open.begin = tm_trace_now();
}

TM_TRACED void tm_trace_end(tm_trace *log) {
  log->open.end = tm_trace_now();
  tm_trace_add(log, log->open);
}

TM_TRACED void tm_trace_nest(tm_trace *log, const char *name) {
  tm_trace_open(log, TM_TRACE_NEST, name, -1, -1, -1, -1, -1);
}

TM_TRACED void tm_trace_launch(tm_trace *log, const char *name, int device, int stream) {
  tm_trace_open(log, TM_TRACE_LAUNCH, name, device, stream, -1, -1, -1);
}

TM_TRACED void tm_trace_copy(tm_trace *log, const char *name, int device, int stream) {
  tm_trace_open(log, TM_TRACE_COPY, name, device, stream, -1, -1, -1);
}

/* For a device, or (-1) for messages. */
TM_TRACED void tm_trace_wait(tm_trace *log, const char *name, int device) {
  tm_trace_open(log, TM_TRACE_WAIT, name, device, -1, -1, -1, -1);
}

TM_TRACED void tm_trace_send(tm_trace *log, const char *name, int64_t peer, int tag, int64_t bytes) {
  tm_trace_open(log, TM_TRACE_SEND, name, -1, -1, peer, tag, bytes);
}

TM_TRACED void tm_trace_receive(tm_trace *log, const char *name, int64_t peer, int tag, int64_t bytes) {
  tm_trace_open(log, TM_TRACE_RECEIVE, name, -1, -1, peer, tag, bytes);
}

TM_TRACED void tm_trace_collective(tm_trace *log, const char *name) {
  tm_trace_open(log, TM_TRACE_COLLECTIVE, name, -1, -1, -1, -1, -1);
}

/* How many bytes the open event moves, where that is known only now. */
TM_TRACED void tm_trace_bytes(tm_trace *log, int64_t bytes) { log->open.bytes = bytes; }

/* -- a file in the format of Chrome, which Perfetto shows: a process for the rank; its thread 0 is the host */

TM_TRACED int tm_trace_thread(const tm_trace_event *event) {
  if (event->kind >= TM_TRACE_STORE) return 1000000 + event->kind;
  return event->kind < TM_TRACE_KERNEL ? 0 : 1 + 1000 * event->device + event->stream + 1;
}

/* Whether a thread has no name yet; it has one then. One that there is no room to remember is named again. */
TM_TRACED bool tm_trace_is_new(int *named, int room, int thread) {
  int n = 0;
  while (n < room && named[n] >= 0 && named[n] != thread) n++;
  if (n < room && named[n] == thread) return false;
  if (n < room) named[n] = thread;
  return true;
}

TM_TRACED void tm_trace_put_name(FILE *file, const tm_trace *log, const tm_trace_event *event) {
  fprintf(file, ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": ",
          (int)log->rank, tm_trace_thread(event));
  if (event->kind < TM_TRACE_KERNEL)
    fprintf(file, "\"host\"}}");
  else if (event->kind >= TM_TRACE_STORE)
    fprintf(file, "\"files, %s\"}}", event->kind == TM_TRACE_STORE ? "store" : "load");
  else
    fprintf(file, "\"GPU %d, stream %d\"}}", (int)event->device, (int)event->stream);
}

TM_TRACED void tm_trace_put_event(FILE *file, const tm_trace *log, const tm_trace_event *event) {
  static const char *const kinds[] = {"nest", "launch", "copy", "wait", "send", "receive", "collective",
                                      "kernel", "upload", "download", "transfer", "store", "load"};
  fprintf(file, ",\n{\"ph\": \"X\", \"name\": \"");
  for (const char *letter = event->name; *letter != 0; letter++) {
    if (*letter == '"' || *letter == '\\') fputc('\\', file);
    if ((unsigned char)*letter >= ' ') fputc(*letter, file);
  }
  fprintf(file, "\", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"kind\": \"%s\"",
          kinds[event->kind], (int)log->rank, tm_trace_thread(event), (double)(event->begin - log->begun) / 1e3,
          (double)(event->end - event->begin) / 1e3, kinds[event->kind]);
  if (event->bytes >= 0) fprintf(file, ", \"bytes\": %" PRId64, event->bytes);
  if (event->peer >= 0) fprintf(file, ", \"peer\": %d, \"tag\": %d", (int)event->peer, (int)event->tag);
  fprintf(file, "}}");
}

/* Writes what the last call did; 0, or what errno says. */
TM_TRACED int tm_trace_write(const tm_trace *log, const char *function, const char *path) {
  FILE *const file = fopen(path, "w");
  if (file == NULL) return errno;
  fprintf(file, "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"dropped\": %" PRId64 "}, \"traceEvents\": [\n", log->dropped);
  fprintf(file, "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": \"%s, rank %d\"}}",
          (int)log->rank, function, (int)log->rank);
  int named[TM_TRACE_NAMED];
  for (int n = 0; n < TM_TRACE_NAMED; n++) named[n] = -1;
  for (int64_t n = 0; n < log->count; n++) {
    const tm_trace_event *const event = &log->events[n];
    if (tm_trace_is_new(named, TM_TRACE_NAMED, tm_trace_thread(event))) tm_trace_put_name(file, log, event);
    tm_trace_put_event(file, log, event);
  }
  fprintf(file, "\n]}\n");
  const bool failed = ferror(file) != 0;
  return fclose(file) != 0 || failed ? errno != 0 ? errno : EIO : 0;
}

#endif
