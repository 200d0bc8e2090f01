/* The trace of a call: when each of its operations began and ended on its stream. Part of tm_gpu.c, where it is compiled
   into a library with a trace (tm_trace.h); nothing of it is anywhere else.

   Events with times stand around every operation. At the end of the call they are read as times since an event that was
   waited for when the device was opened, so that the host knows when that happened on its own clock. */

/* An operation on a stream, of the device as the program counts. */
typedef struct timed {
  tm_trace_event event;
  call_device *on;
  CUevent begin, end;
} timed;

struct call_trace {
  tm_trace *log;
  timed *operations;
  size_t count, room;
};

enum { TRACE_TRIES = 4 };

void tm_gpu_trace(tm_gpu_call *call, tm_trace *log) {
  if (call == NULL) return;
  call->trace = calloc(1, sizeof *call->trace);
  if (call->trace != NULL)
    call->trace->log = log;
  else
    log->no_memory = 1;
}

static int timed_event(device *on, CUevent *result) {
  pthread_mutex_lock(&on->driver->lock);
  *result = take(&on->timed, 0);
  pthread_mutex_unlock(&on->driver->lock);
  if (*result != NULL) return 0;
  const char *doing = "an event with a time cannot be made";
  const int code = enter(on, doing);
  return code != 0 ? code : leave(on, on->driver->EventCreate(result, 0), doing);
}

static int timed_record(device *on, CUevent event, CUstream stream) {
  const char *doing = "an event with a time cannot be recorded";
  const int code = enter(on, doing);
  return code != 0 ? code : leave(on, on->driver->EventRecord(event, stream), doing);
}

/* Records the device's first event, and between which times of the host's clock that happened. */
static int zero_once(call_device *of, CUevent event, CUstream idle, int64_t *before, int64_t *after) {
  const char *doing = "the clock of a device cannot be read";
  device *on = of->device;
  *before = tm_trace_now();
  int code = timed_record(on, event, idle);
  if (code == 0) code = enter(on, doing);
  if (code == 0) code = leave(on, on->driver->EventSynchronize(event), doing);
  *after = tm_trace_now();
  return code;
}

/* The best of some tries: the middle of the shortest time in which it happened. The simulator knows when it was. */
static int trace_device(tm_gpu_call *call, call_device *of) {
  device *on = of->device;
  CUstream idle;
  int64_t least = INT64_MAX;
  if (call->trace == NULL || of->zero != NULL) return 0;
  int code = stream_of(call, of, TM_GPU_WAIT, BY_HOST, &idle);
  for (int n = 0; n < TRACE_TRIES && code == 0; n++) {
    int64_t before, after;
    CUevent event = NULL;
    code = timed_event(on, &event);
    if (code == 0) code = zero_once(of, event, idle, &before, &after);
    const bool better = code == 0 && after - before < least;
    CUevent worse = better ? of->zero : event;
    if (better) {
      least = after - before;
      of->zero = event;
      of->zero_time = before + least / 2;
      if (on->driver->event_time != NULL) of->zero_time = on->driver->event_time(event);
    }
    if (worse != NULL) release_item(on, &on->timed, worse, false, code == 0);
  }
  return code;
}

static timed *timed_room(struct call_trace *trace) {
  if (trace->count == trace->room) {
    const size_t room = trace->room == 0 ? 64 : 2 * trace->room;
    const bool full = trace->log->count + (int64_t)trace->count >= TM_TRACE_MOST;
    timed *more = full ? NULL : realloc(trace->operations, room * sizeof *more);
    if (more == NULL) {
      trace->log->dropped++;
      return NULL;
    }
    trace->operations = more;
    trace->room = room;
  }
  return &trace->operations[trace->count];
}

/* An operation begins on a stream: what the host is doing gives it its name. */
static int trace_begin(tm_gpu_call *call, call_device *on, int device, int number, CUstream stream, tm_trace_kind kind,
                       int64_t bytes) {
  struct call_trace *trace = call->trace;
  timed *made = trace != NULL ? timed_room(trace) : NULL;
  if (made == NULL) return 0;
  trace->log->open.bytes = bytes;
  *made = (timed){.event = trace->log->open, .on = on};
  made->event.kind = (int32_t)kind;
  made->event.device = device;
  made->event.stream = number;
  int code = timed_event(on->device, &made->begin);
  if (code == 0) code = timed_event(on->device, &made->end);
  trace->count++;
  return code != 0 ? code : timed_record(on->device, made->begin, stream);
}

static int trace_begin_copy(tm_gpu_call *call, call_device *on, int target, int source, int number, CUstream stream,
                            const tm_gpu_box *box) {
  const tm_trace_kind kind = source < 0 ? TM_TRACE_UPLOAD : target < 0 ? TM_TRACE_DOWNLOAD : TM_TRACE_TRANSFER;
  const int64_t bytes = (int64_t)(box->run * box->lines * box->planes);
  return trace_begin(call, on, source < 0 ? target : source, number, stream, kind, bytes);
}

/* The operation that began last is all on its stream. */
static int trace_end(tm_gpu_call *call, CUstream stream) {
  const struct call_trace *trace = call->trace;
  if (trace == NULL || trace->count == 0 || trace->operations[trace->count - 1].event.end != 0) return 0;
  timed *last = &trace->operations[trace->count - 1];
  last->event.end = 1;
  return timed_record(last->on->device, last->end, stream);
}

/* The time on the host's clock at which an event happened. */
static bool host_time(const call_device *of, CUevent event, int64_t *result) {
  float milliseconds = 0;
  if (of->device->driver->event_time != NULL) {
    *result = of->device->driver->event_time(event);
    return *result != 0;
  }
  if (of->zero == NULL || enter(of->device, "a trace") != 0) return false;
  const CUresult got = of->device->driver->EventElapsedTime(&milliseconds, of->zero, event);
  *result = of->zero_time + (int64_t)((double)milliseconds * 1e6);
  return leave(of->device, got, "a trace") == 0;
}

/* All work has ended: its times go to the log of a call that succeeded. */
static void trace_finish(tm_gpu_call *call, bool healthy) {
  struct call_trace *trace = call->trace;
  for (size_t i = 0; trace != NULL && i < trace->count; i++) {
    timed *one = &trace->operations[i];
    device *on = one->on->device;
    if (healthy && host_time(one->on, one->begin, &one->event.begin) && host_time(one->on, one->end, &one->event.end))
      tm_trace_add(trace->log, one->event);
    else
      trace->log->dropped++;
    if (one->begin != NULL) release_item(on, &on->timed, one->begin, false, healthy);
    if (one->end != NULL) release_item(on, &on->timed, one->end, false, healthy);
  }
  if (trace != NULL) free(trace->operations);
  free(trace);
  for (int d = 0; d < MAX_DEVICES; d++) {
    call_device *of = &call->devices[d];
    if (of->zero != NULL) release_item(of->device, &of->device->timed, of->zero, false, healthy);
  }
}
