/* Launches as CUDA graphs, for a call that asks for them. A part of tm_gpu.c.

   Kernels, copies between devices, fills, and the events that order them are captured, from the first of them until the
   host takes part: it waits, or copies memory of its own. Then they become one graph, which is launched as a whole. A call
   whose host waits at its end alone launches one graph.

   The *phases* of a call, numbered from 1, are those that are captured and those that are not, in turns. Each phase
   follows all work of those before it: what is captured begins when the work on all streams is done, and a stream that
   goes on after a graph waits for its end. So an event of an earlier phase has nothing to order on streams.

   Each call captures anew, with its own addresses and sizes, and updates the executable graph that an earlier call has
   left; where that has other nodes, a new one is made. */
#ifndef TM_GPU_GRAPHS_H
#define TM_GPU_GRAPHS_H

/* The graph of a program that is captured as number `number` of a call; free for one call at a time. */
typedef struct executable {
  const tm_gpu_program *program;
  const device *on;
  unsigned number;
  CUgraphExec graph;
  struct executable *next;
} executable;

typedef struct capture {
  device *on;      /* NULL before the first capture of the call */
  CUstream stream; /* on which a capture begins, and its graph is launched */
  CUevent begun, ended;
  bool open;
  unsigned phase, graphs;
  executable *used;
} capture;

static int event_make(device *on, CUevent *result);

static int find_graph_entries(driver *of) {
  int code = 0;
  pthread_mutex_lock(&of->lock);
  if (!of->has_graphs) {
#define FIND(name, symbol, parameters)                         \
  if (code == 0 && !find_function(of->library, #symbol, &of->name)) \
    code = fail(TM_GPU_NO_DRIVER, "the driver %s has no %s: it is too old for graph=True", of->path, #symbol);
    TM_CUDA_GRAPH_ENTRIES(FIND)
#undef FIND
    of->has_graphs = code == 0;
  }
  pthread_mutex_unlock(&of->lock);
  return code;
}

int tm_gpu_graphs(tm_gpu_call *call) {
  if (call == NULL) return 0;
  const int code = find_graph_entries(call->driver);
  if (code != 0) return code;
  call->capture = calloc(1, sizeof *call->capture);
  if (call->capture == NULL) return no_host_memory();
  call->capture->phase = 1;
  return 0;
}

/* An event now on `from`, for which `to` waits; both may be of any device. */
static int order_after(device *on, CUstream from, CUevent event, device *waiting, CUstream to) {
  const char *doing = "streams cannot be ordered for a graph";
  int code = enter(on, doing);
  if (code == 0) code = leave(on, on->driver->EventRecord(event, from), doing);
  if (code == 0) code = enter(waiting, doing);
  return code != 0 ? code : leave(waiting, on->driver->StreamWaitEvent(to, event, 0), doing);
}

/* The stream of the capture waits for all that the streams of the call have in this phase. */
static int join_streams(tm_gpu_call *call) {
  const capture *of = call->capture;
  int code = 0;
  for (int d = 0; d < MAX_DEVICES && code == 0; d++) {
    call_device *on = &call->devices[d];
    for (int s = 0; s < on->stream_count && code == 0; s++) {
      call_stream *stream = &on->streams[s];
      if (stream->stream == NULL || stream->phase != of->phase) continue;
      if (stream->mark == NULL) code = event_make(on->device, &stream->mark);
      if (code == 0) code = order_after(on->device, stream->stream, stream->mark, of->on, of->stream);
    }
  }
  return code;
}

static int prepare_capture(capture *of, device *on) {
  if (of->on != NULL) return 0;
  of->on = on;
  int code = stream_make(on, &of->stream, "a stream for graphs cannot be made");
  if (code == 0) code = event_make(on, &of->begun);
  return code != 0 ? code : event_make(on, &of->ended);
}

static int open_capture(tm_gpu_call *call, device *on) {
  const char *doing = "the launches of a call cannot be captured as a graph";
  capture *of = call->capture;
  if (of->open) return 0;
  int code = prepare_capture(of, on);
  if (code == 0) code = join_streams(call);
  if (code == 0) code = enter(of->on, doing);
  if (code != 0) return code;
  CUresult result = call->driver->StreamBeginCapture(of->stream, TM_CU_CAPTURE_RELAXED);
  of->open = result == 0;
  if (result == 0) result = call->driver->EventRecord(of->begun, of->stream);
  of->phase++;
  return leave(of->on, result, doing);
}

static executable *take_executable(driver *of, const tm_gpu_program *program, const device *on, unsigned number) {
  executable *found = NULL;
  pthread_mutex_lock(&of->lock);
  for (executable **link = &of->executables; *link != NULL; link = &(*link)->next) {
    if ((*link)->program != program || (*link)->on != on || (*link)->number != number) continue;
    found = *link;
    *link = found->next;
    break;
  }
  pthread_mutex_unlock(&of->lock);
  if (found != NULL) return found;
  found = calloc(1, sizeof *found);
  if (found != NULL) *found = (executable){program, on, number, NULL, NULL};
  return found;
}

/* Launches a graph as what an earlier call has made executable, or as a new one; with its device's context current. */
static CUresult launch_graph(const driver *of, executable *as, CUgraph graph, CUstream stream) {
  tm_cu_update why = {0};
  CUresult result = 0;
  if (as->graph != NULL && of->GraphExecUpdate(as->graph, graph, &why) != 0) {
    of->GraphExecDestroy(as->graph);
    as->graph = NULL;
  }
  if (as->graph == NULL) result = of->GraphInstantiate(&as->graph, graph, 0);
  return result == 0 ? of->GraphLaunch(as->graph, stream) : result;
}

/* Launches what has been captured; nothing is captured then. */
static int close_capture(tm_gpu_call *call) {
  char doing[900];
  capture *of = call->capture;
  if (of == NULL || !of->open) return 0;
  int code = join_streams(call);
  of->open = false;
  of->phase++;
  executable *as = code == 0 ? take_executable(call->driver, call->program, of->on, of->graphs++) : NULL;
  if (code == 0 && as == NULL) code = no_host_memory();
  if (as != NULL) {
    as->next = of->used;
    of->used = as;
  }
  describe_wait(doing, sizeof doing, call, "launching a graph");
  CUgraph graph = NULL;
  const int entered = enter(of->on, doing);
  if (entered != 0) return code != 0 ? code : entered;
  CUresult result = call->driver->StreamEndCapture(of->stream, &graph);
  if (result == 0 && code == 0) result = launch_graph(call->driver, as, graph, of->stream);
  if (result == 0 && code == 0) result = call->driver->EventRecord(of->ended, of->stream);
  if (graph != NULL) call->driver->GraphDestroy(graph);
  if (code != 0) result = 0; /* the first error counts */
  const int left = leave(of->on, result, doing);
  if (code == 0 && left == 0) launched.graphs++;
  return code != 0 ? code : left;
}

/* Phases take turns, and the first is not captured. */
static bool is_captured(const capture *of, const tm_gpu_event *event) {
  return event->phase != 0 && event->phase % 2 == 0 && event->phase <= of->phase;
}

/* Waits for all graphs of a call. */
static int wait_for_graphs(tm_gpu_call *call, const char *doing) {
  const capture *of = call->capture;
  int code = close_capture(call);
  if (code != 0 || of->graphs == 0) return code;
  code = enter(of->on, doing);
  return code != 0 ? code : leave(of->on, call->driver->StreamSynchronize(of->stream), doing);
}

/* Gives up what has been captured: the call has failed. */
static void drop_capture(tm_gpu_call *call) {
  capture *of = call->capture;
  CUgraph graph = NULL;
  if (of == NULL || !of->open) return;
  of->open = false;
  if (enter(of->on, "the end of a call") != 0) return;
  call->driver->StreamEndCapture(of->stream, &graph);
  if (graph != NULL) call->driver->GraphDestroy(graph);
  leave(of->on, 0, "the end of a call");
}

static int enter_phase(tm_gpu_call *call, const call_device *on, call_stream *stream, party who) {
  const char *doing = "a stream cannot take part in a graph";
  capture *of = call->capture;
  int code = 0;
  if (of == NULL) return 0;
  if (who == BY_DEVICE) code = open_capture(call, on->device);
  if (who == BY_HOST) code = close_capture(call);
  if (code != 0 || stream->phase == of->phase) return code;
  stream->phase = of->phase;
  if (!of->open && of->graphs == 0) return 0;
  code = enter(on->device, doing);
  return code != 0 ? code : leave(on->device, call->driver->StreamWaitEvent(stream->stream, of->open ? of->begun : of->ended, 0), doing);
}

/* Gives back the graphs that are kept for a device, with its context current and the lock held. */
static void forget_graphs(device *on) {
  driver *of = on->driver;
  for (executable **link = &of->executables; *link != NULL;) {
    executable *one = *link;
    if (one->on != on) {
      link = &one->next;
      continue;
    }
    *link = one->next;
    if (one->graph != NULL) of->GraphExecDestroy(one->graph);
    free(one);
  }
}

/* Gives back what the graphs of a call had; after all work. */
static void release_capture(tm_gpu_call *call, bool healthy) {
  capture *of = call->capture;
  if (of == NULL) return;
  driver *from = call->driver;
  while (of->used != NULL) {
    executable *one = of->used;
    of->used = one->next;
    if (healthy && keeps(from)) {
      pthread_mutex_lock(&from->lock);
      one->next = from->executables;
      from->executables = one;
      pthread_mutex_unlock(&from->lock);
      continue;
    }
    if (one->graph != NULL && enter(of->on, "the end of a call") == 0) {
      from->GraphExecDestroy(one->graph);
      leave(of->on, 0, "the end of a call");
    }
    free(one);
  }
  if (of->begun != NULL) release_item(of->on, &of->on->events, of->begun, false, healthy);
  if (of->ended != NULL) release_item(of->on, &of->on->events, of->ended, false, healthy);
  if (of->stream != NULL) release_item(of->on, &of->on->streams, of->stream, true, healthy);
  free(of);
  call->capture = NULL;
}

#endif
