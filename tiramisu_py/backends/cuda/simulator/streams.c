#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "simulator.h"

/* Streams are queues of operations. Lazy: only what a synchronisation needs is done. Shuffled: some of what could be done is
   done at every call. Eager: all of it. All three run on the calling thread, and the same seed gives the same order. With
   timing=threads every stream has a thread. */

typedef enum kind { COPY, SET, LAUNCH, RECORD, WAIT } kind;

typedef struct operation {
  kind kind;
  int references;
  bool done;
  int error;
  char *words;
  tm_stream *stream;
  struct operation *next;
  tm_transfer transfer;
  char *staging;
  char *place;
  int value;
  size_t bytes;
  tm_launch *launch;
  struct operation *awaited;
  int64_t time; /* at which it was done: of events */
  uint64_t graph; /* that it was captured for, and its number there; 0: none */
  size_t index;
  int on; /* the number of its stream in the graph */
} operation;

/* What was captured, in the order in which it was put on streams; those are numbered, the first is where the capture began. */
struct tm_graph {
  uint64_t number;
  tm_stream *first;
  int streams;
  operation **operations;
  size_t count, room;
};

struct tm_executable {
  tm_graph graph;
  tm_stream **own; /* of the last launch, for all streams but the first */
};

struct tm_stream {
  int number;
  tm_options options;
  const tm_options *owner; /* streams of other threads are left alone */
  operation *head, **tail;
  bool busy, quit, running;
  int error;
  char words[900];
  pthread_t thread;
  uint64_t random;
  tm_graph *capture; /* for which its operations are kept, and its number there */
  int place;
  tm_stream *next;
};

struct tm_event {
  operation *last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static tm_stream *streams;

static operation *operation_make(kind kind) {
  operation *made = calloc(1, sizeof *made);
  if (made == NULL) abort();
  made->kind = kind;
  made->references = 1;
  return made;
}

static void operation_drop(operation *operation) {
  if (operation == NULL || --operation->references > 0) return;
  operation_drop(operation->awaited);
  tm_launch_free(operation->launch);
  free(operation->staging);
  free(operation->words);
  free(operation);
}

/* -- what operations do; without the lock */

static void copy_written(const char *target, const char *source, size_t bytes) {
  if (!tm_is_place(target)) return;
  if (!tm_is_place(source) || tm_all_bits(tm_written, tm_offset(source), bytes)) {
    tm_note_written(target, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; i++)
    tm_set_bits(tm_written, tm_offset(target) + i, 1, tm_all_bits(tm_written, tm_offset(source) + i, 1));
}

static void copy(const tm_transfer *transfer) {
  for (size_t plane = 0; plane < transfer->planes; plane++)
    for (size_t line = 0; line < transfer->lines; line++) {
      char *target = transfer->target + plane * transfer->target_plane + line * transfer->target_pitch;
      const char *source = transfer->source + plane * transfer->source_plane + line * transfer->source_pitch;
      memmove(target, source, transfer->run);
      copy_written(target, source, transfer->run);
    }
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int perform(operation *operation, char *words, size_t size) {
  int error = SUCCESS;
  if (operation->kind == COPY)
    copy(&operation->transfer);
  else if (operation->kind == SET) {
    memset(operation->place, operation->value, operation->bytes);
    tm_note_written(operation->place, operation->bytes);
  } else if (operation->kind == LAUNCH) {
    tm_launch_run(operation->launch);
    error = operation->launch->failed;
    if (error != SUCCESS) snprintf(words, size, "%s", operation->launch->words);
  } else if (operation->kind == RECORD)
    operation->time = now();
  return error;
}

/* -- queues; with the lock */

static void fail_stream(tm_stream *stream, int error, const char *words) {
  if (stream->error != SUCCESS) return;
  stream->error = error;
  snprintf(stream->words, sizeof stream->words, "%s", words);
}

/* Does the first operation of a stream; nothing more is done in a stream that has failed. */
static void step(tm_stream *stream) {
  operation *first = stream->head;
  if (first->kind == WAIT && first->awaited->error != SUCCESS) fail_stream(stream, first->awaited->error, first->awaited->words);
  if (stream->error == SUCCESS) {
    char words[900] = "";
    stream->busy = true;
    pthread_mutex_unlock(&lock);
    const int error = perform(first, words, sizeof words);
    pthread_mutex_lock(&lock);
    stream->busy = false;
    if (error != SUCCESS) fail_stream(stream, error, words);
  }
  if (stream->error != SUCCESS) {
    first->error = stream->error;
    first->words = strdup(stream->words);
  }
  stream->head = first->next;
  if (stream->head == NULL) stream->tail = &stream->head;
  first->done = true;
  operation_drop(first);
  pthread_cond_broadcast(&changed);
}

static bool is_ready(const tm_stream *stream) {
  return stream->head != NULL && !stream->busy && (stream->head->kind != WAIT || stream->head->awaited->done);
}

static void force(operation *target);

static void advance(tm_stream *stream) {
  if (stream->busy || stream->options.timing == THREADS)
    pthread_cond_wait(&changed, &lock);
  else if (is_ready(stream))
    step(stream);
  else
    force(stream->head->awaited);
}

static void force(operation *target) {
  target->references++;
  while (!target->done) advance(target->stream);
  operation_drop(target);
}

/* One of the streams of this thread that could go on. */
static tm_stream *pick_ready(tm_options *options) {
  tm_stream *ready[64];
  unsigned count = 0;
  for (tm_stream *s = streams; s != NULL && count < 64; s = s->next)
    if (s->owner == options && is_ready(s)) ready[count++] = s;
  if (count == 0) return NULL;
  if (options->timing == EAGER) return ready[0];
  /* some streams are ahead of the others, by seed */
  return ready[tm_random(&options->random) % 4 != 0 ? options->seed % 5 % count : tm_random(&options->random) % count];
}

/* What is done without being asked for. */
static void go_on(tm_timing timing) {
  tm_options *options = tm_own_options();
  if (timing != EAGER && timing != SHUFFLED) return;
  for (;;) {
    if (timing == SHUFFLED && tm_random(&options->random) % 8 >= tm_mixed(options->seed) % 8) break;
    tm_stream *next = pick_ready(options);
    if (next == NULL) break;
    step(next);
  }
}

static void append(tm_graph *graph, operation *made) {
  if (graph->count == graph->room) {
    graph->room = 2 * graph->room + 16;
    graph->operations = realloc(graph->operations, graph->room * sizeof *graph->operations);
    if (graph->operations == NULL) abort();
  }
  made->graph = graph->number;
  made->index = graph->count;
  graph->operations[graph->count++] = made;
}

static void enqueue(tm_stream *stream, operation *made) {
  pthread_mutex_lock(&lock);
  made->stream = stream;
  if (stream->capture != NULL) {
    made->on = stream->place;
    append(stream->capture, made);
    pthread_mutex_unlock(&lock);
    return;
  }
  *stream->tail = made;
  stream->tail = &made->next;
  pthread_cond_broadcast(&changed);
  go_on(stream->options.timing);
  pthread_mutex_unlock(&lock);
}

static void *stream_main(void *argument) {
  tm_stream *stream = argument;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (stream->head == NULL && !stream->quit) pthread_cond_wait(&changed, &lock);
    if (stream->head == NULL) break;
    if (!is_ready(stream)) {
      pthread_cond_wait(&changed, &lock);
      continue;
    }
    if (stream->options.delay > 0) {
      const struct timespec pause = {0, (long)(tm_random(&stream->random) % (unsigned)stream->options.delay) * 1000};
      pthread_mutex_unlock(&lock);
      nanosleep(&pause, NULL);
      pthread_mutex_lock(&lock);
    }
    step(stream);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* -- streams and events */

int tm_stream_make(tm_stream **result) {
  static int count;
  tm_stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) return tm_fail(OUT_OF_MEMORY, "the host is out of memory");
  stream->tail = &stream->head;
  stream->owner = tm_own_options();
  stream->options = *stream->owner;
  pthread_mutex_lock(&lock);
  stream->number = ++count;
  stream->random = tm_mixed(stream->options.seed * 977 + (uint64_t)stream->number);
  stream->next = streams;
  streams = stream;
  pthread_mutex_unlock(&lock);
  if (stream->options.timing == THREADS)
    stream->running = pthread_create(&stream->thread, NULL, stream_main, stream) == 0;
  if (!stream->running && stream->options.timing == THREADS) stream->options.timing = EAGER;
  *result = stream;
  return SUCCESS;
}

int tm_stream_wait(tm_stream *stream) {
  if (stream == NULL) return SUCCESS;
  if (stream->capture != NULL) return tm_fail(NOT_CAPTURABLE, "the host waits for a stream that is being captured");
  pthread_mutex_lock(&lock);
  while (stream->head != NULL || stream->busy) advance(stream);
  pthread_mutex_unlock(&lock);
  return stream->error == SUCCESS ? SUCCESS : tm_fail(stream->error, "%s", stream->words);
}

int tm_stream_end(tm_stream *stream) {
  if (stream == NULL) return tm_fail(INVALID_HANDLE, "no stream");
  tm_stream_wait(stream);
  pthread_mutex_lock(&lock);
  stream->quit = true;
  pthread_cond_broadcast(&changed);
  tm_stream **link = &streams;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  pthread_mutex_unlock(&lock);
  if (stream->running) pthread_join(stream->thread, NULL);
  free(stream);
  return SUCCESS;
}

int tm_event_make(tm_event **event) {
  *event = calloc(1, sizeof **event);
  return *event != NULL ? SUCCESS : tm_fail(OUT_OF_MEMORY, "the host is out of memory");
}

int tm_event_end(tm_event *event) {
  pthread_mutex_lock(&lock);
  operation_drop(event->last);
  pthread_mutex_unlock(&lock);
  free(event);
  return SUCCESS;
}

int tm_event_record(tm_event *event, tm_stream *stream) {
  operation *made = operation_make(RECORD);
  made->references = 2;
  if (stream == NULL) {
    made->done = true;
    made->time = now();
  }
  pthread_mutex_lock(&lock);
  operation_drop(event->last);
  event->last = made;
  pthread_mutex_unlock(&lock);
  if (stream != NULL) enqueue(stream, made);
  return SUCCESS;
}

static bool is_captured(const tm_event *event) { return event->last != NULL && event->last->graph != 0; }

int tm_event_wait(tm_event *event) {
  if (is_captured(event)) return tm_fail(IS_CAPTURED, "the host waits for an event of a graph");
  int error = SUCCESS;
  char words[900] = "";
  pthread_mutex_lock(&lock);
  operation *last = event->last;
  if (last != NULL) {
    last->references++;
    force(last);
    error = last->error;
    if (error != SUCCESS) snprintf(words, sizeof words, "%s", last->words);
    operation_drop(last);
  }
  pthread_mutex_unlock(&lock);
  return error == SUCCESS ? SUCCESS : tm_fail(error, "%s", words);
}

/* Whether it has happened. With shuffled streams, some of what could be done is done first. */
int tm_event_query(tm_event *event) {
  if (is_captured(event)) return tm_fail(IS_CAPTURED, "the host asks for an event of a graph");
  int error = SUCCESS;
  char words[900] = "it has not happened";
  pthread_mutex_lock(&lock);
  operation *last = event->last;
  if (last != NULL) {
    last->references++;
    if (!last->done) go_on(last->stream->options.timing);
    error = last->done ? last->error : NOT_READY;
    if (last->error != SUCCESS) snprintf(words, sizeof words, "%s", last->words);
    operation_drop(last);
  }
  pthread_mutex_unlock(&lock);
  return error == SUCCESS ? SUCCESS : tm_fail(error, "%s", words);
}

/* When it happened, in nanoseconds of CLOCK_MONOTONIC; 0 where it has not. */
int64_t tm_event_time(tm_event *event) {
  pthread_mutex_lock(&lock);
  const int64_t time = event->last != NULL && event->last->done ? event->last->time : 0;
  pthread_mutex_unlock(&lock);
  return time;
}

/* The capture of a number, while it goes on. */
static tm_graph *open_capture(uint64_t number) {
  for (const tm_stream *s = streams; s != NULL; s = s->next)
    if (s->capture != NULL && s->capture->number == number) return s->capture;
  return NULL;
}

/* Whether a stream may wait for an event where one of them is captured; then both are of one graph, which the stream joins. */
static int join(tm_stream *stream, const tm_event *event) {
  const uint64_t graph = event->last->graph, own = stream->capture != NULL ? stream->capture->number : 0;
  if (graph == own) return SUCCESS;
  if (graph == 0) return tm_fail(NOT_CAPTURED, "a stream that is being captured waits for an event from before");
  if (own != 0) return tm_fail(CAPTURES_MERGED, "a stream of one graph waits for an event of another");
  tm_graph *open = open_capture(graph);
  if (open == NULL) return tm_fail(IS_CAPTURED, "a stream waits for an event of a graph that is complete");
  stream->capture = open;
  stream->place = open->streams++;
  return SUCCESS;
}

/* As CUDA has it: an event that was never recorded is not waited for. */
int tm_stream_wait_event(tm_stream *stream, tm_event *event) {
  if (stream == NULL) return tm_event_wait(event);
  if (event->last == NULL) return SUCCESS;
  pthread_mutex_lock(&lock);
  const int code = join(stream, event);
  pthread_mutex_unlock(&lock);
  if (code != SUCCESS) return code;
  operation *made = operation_make(WAIT);
  pthread_mutex_lock(&lock);
  made->awaited = event->last;
  event->last->references++;
  pthread_mutex_unlock(&lock);
  enqueue(stream, made);
  return SUCCESS;
}

static int start(tm_stream *stream, operation *made) {
  if (stream != NULL) {
    enqueue(stream, made);
    return SUCCESS;
  }
  char words[900] = "";
  const int error = perform(made, words, sizeof words);
  operation_drop(made);
  return error == SUCCESS ? SUCCESS : tm_fail(error, "%s", words);
}

/* Host memory that is not pinned may be read before the call returns: then a change after it is not seen. */
static void stage(operation *made) {
  tm_transfer *transfer = &made->transfer;
  const size_t plane = transfer->run * transfer->lines;
  made->staging = malloc(plane * transfer->planes);
  if (made->staging == NULL) return;
  tm_transfer packed = *transfer;
  packed.target = made->staging;
  packed.target_pitch = transfer->run;
  packed.target_plane = plane;
  copy(&packed);
  transfer->source = made->staging;
  transfer->source_pitch = transfer->run;
  transfer->source_plane = plane;
}

int tm_stream_copy(tm_stream *stream, const tm_transfer *transfer) {
  if (stream != NULL && stream->capture != NULL &&
      ((transfer->from_host && !tm_is_pinned(transfer->source, 1)) || (transfer->to_host && !tm_is_pinned(transfer->target, 1))))
    return tm_fail(NOT_CAPTURABLE, "a copy of ordinary host memory on a stream that is being captured");
  operation *made = operation_make(COPY);
  made->transfer = *transfer;
  const bool staged = stream != NULL && stream->options.staged;
  if (staged && transfer->from_host && !tm_is_pinned(transfer->source, 1)) stage(made);
  const int code = start(stream, made);
  if (code == SUCCESS && staged && transfer->to_host && !tm_is_pinned(transfer->target, 1)) return tm_stream_wait(stream);
  return code;
}

int tm_stream_set(tm_stream *stream, char *place, int value, size_t bytes) {
  operation *made = operation_make(SET);
  made->place = place;
  made->value = value;
  made->bytes = bytes;
  return start(stream, made);
}

int tm_stream_launch(tm_stream *stream, tm_launch *launch) {
  operation *made = operation_make(LAUNCH);
  made->launch = launch;
  return start(stream, made);
}

#include "stream_graphs.h"

/* -- who uses an allocation */

static bool is_in(const tm_allocation *allocation, const void *place) {
  return (const char *)place >= allocation->place && (const char *)place < allocation->place + allocation->bytes;
}

static bool uses(const operation *operation, const tm_allocation *allocation) {
  if (operation->kind == COPY)
    return is_in(allocation, operation->transfer.target) || is_in(allocation, operation->transfer.source);
  if (operation->kind == SET) return is_in(allocation, operation->place);
  if (operation->kind != LAUNCH) return false;
  for (int i = 0; i < operation->launch->kernel->parameter_count; i++)
    if (operation->launch->holders[i] == allocation) return true;
  return false;
}

static void name(const operation *operation, char *text, size_t size) {
  if (operation->kind == LAUNCH)
    snprintf(text, size, "kernel %s", operation->launch->kernel->name);
  else
    snprintf(text, size, operation->kind == COPY ? "a copy" : "a fill");
}

bool tm_is_pending(const tm_allocation *allocation, char *text, size_t size) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (const tm_stream *s = streams; s != NULL && !found; s = s->next)
    for (const operation *o = s->head; o != NULL && !found; o = o->next)
      if ((found = uses(o, allocation) && s->error == SUCCESS)) name(o, text, size);
  for (const tm_stream *s = streams; s != NULL && !found; s = s->next)
    for (size_t i = 0; s->capture != NULL && s->place == 0 && i < s->capture->count && !found; i++)
      if ((found = uses(s->capture->operations[i], allocation))) name(s->capture->operations[i], text, size);
  pthread_mutex_unlock(&lock);
  return found;
}
