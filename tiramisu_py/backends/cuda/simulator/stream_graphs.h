/* Graphs: operations that were kept while streams were captured, and are put on streams again by each launch. A part of
   streams.c.

   The stream on which a capture began has number 0 in the graph, and is the one that a launch names; for each other one a
   launch makes a stream, so that nothing but the events of the graph orders them. */
#ifndef TM_STREAM_GRAPHS_H
#define TM_STREAM_GRAPHS_H

int tm_capture_begin(tm_stream *stream) {
  static uint64_t count;
  if (stream == NULL || stream->capture != NULL) return tm_fail(NOT_CAPTURABLE, "a stream that cannot be captured");
  tm_graph *graph = calloc(1, sizeof *graph);
  if (graph == NULL) return tm_fail(OUT_OF_MEMORY, "the host is out of memory");
  pthread_mutex_lock(&lock);
  *graph = (tm_graph){.number = ++count, .first = stream, .streams = 1};
  stream->capture = graph;
  stream->place = 0;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

/* Whether the first stream waits for the last operation of another one. */
static bool is_joined(const tm_graph *graph, int place) {
  const operation *last = NULL;
  for (size_t i = 0; i < graph->count; i++)
    if (graph->operations[i]->on == place) last = graph->operations[i];
  for (size_t i = 0; i < graph->count && last != NULL; i++)
    if (graph->operations[i]->on == 0 && graph->operations[i]->awaited == last) return true;
  return last == NULL;
}

static void drop_all(tm_graph *graph) {
  for (size_t i = 0; i < graph->count; i++) operation_drop(graph->operations[i]);
  free(graph->operations);
}

void tm_graph_end(tm_graph *graph) {
  pthread_mutex_lock(&lock);
  drop_all(graph);
  pthread_mutex_unlock(&lock);
  free(graph);
}

int tm_capture_end(tm_stream *stream, tm_graph **result) {
  *result = NULL;
  tm_graph *graph = stream != NULL ? stream->capture : NULL;
  if (graph == NULL || graph->first != stream) return tm_fail(NO_CAPTURE, "no capture began on the stream");
  pthread_mutex_lock(&lock);
  for (tm_stream *s = streams; s != NULL; s = s->next)
    if (s->capture == graph) s->capture = NULL;
  bool whole = true;
  for (int place = 1; place < graph->streams; place++) whole = whole && is_joined(graph, place);
  pthread_mutex_unlock(&lock);
  if (whole) {
    *result = graph;
    return SUCCESS;
  }
  tm_graph_end(graph);
  return tm_fail(NOT_JOINED, "a graph ends before all of its streams are waited for");
}

/* Whether both have the same nodes in the same order, so that only arguments and sizes differ. */
static bool is_alike(const tm_graph *one, const tm_graph *other) {
  if (one->count != other->count || one->streams != other->streams) return false;
  for (size_t i = 0; i < one->count; i++) {
    const operation *a = one->operations[i], *b = other->operations[i];
    if (a->kind != b->kind || a->on != b->on) return false;
    if (a->awaited != NULL && a->awaited->index != b->awaited->index) return false;
  }
  return true;
}

static void take_over(tm_graph *own, const tm_graph *graph) {
  *own = *graph;
  own->operations = malloc((graph->count + 1) * sizeof *own->operations);
  if (own->operations == NULL) abort();
  for (size_t i = 0; i < graph->count; i++) {
    own->operations[i] = graph->operations[i];
    own->operations[i]->references++;
  }
}

int tm_executable_make(tm_executable **result, const tm_graph *graph) {
  tm_executable *made = calloc(1, sizeof *made);
  if (made == NULL) return tm_fail(OUT_OF_MEMORY, "the host is out of memory");
  pthread_mutex_lock(&lock);
  take_over(&made->graph, graph);
  pthread_mutex_unlock(&lock);
  *result = made;
  return SUCCESS;
}

/* Waits for the last launch. */
static void end_own(tm_executable *executable) {
  for (int place = 1; place < executable->graph.streams && executable->own != NULL; place++) tm_stream_end(executable->own[place]);
  free(executable->own);
  executable->own = NULL;
}

int tm_executable_update(tm_executable *executable, const tm_graph *graph) {
  end_own(executable);
  pthread_mutex_lock(&lock);
  const bool alike = is_alike(&executable->graph, graph);
  if (alike) {
    drop_all(&executable->graph);
    take_over(&executable->graph, graph);
  }
  pthread_mutex_unlock(&lock);
  return alike ? SUCCESS : tm_fail(OTHER_GRAPH, "a graph with other nodes");
}

void tm_executable_end(tm_executable *executable) {
  end_own(executable);
  pthread_mutex_lock(&lock);
  drop_all(&executable->graph);
  pthread_mutex_unlock(&lock);
  free(executable);
}

/* The operation again, for a launch: with the records that it has made so far, by number. */
static operation *repeated(const operation *captured, operation *const *records) {
  operation *made = operation_make(captured->kind);
  made->transfer = captured->transfer;
  made->place = captured->place;
  made->value = captured->value;
  made->bytes = captured->bytes;
  if (captured->kind == LAUNCH) made->launch = tm_launch_again(captured->launch);
  if (captured->kind == RECORD) made->references++;
  if (captured->kind == WAIT) {
    pthread_mutex_lock(&lock);
    made->awaited = records[captured->awaited->index];
    made->awaited->references++;
    pthread_mutex_unlock(&lock);
  }
  return made;
}

int tm_executable_launch(tm_executable *executable, tm_stream *stream) {
  const tm_graph *graph = &executable->graph;
  if (stream == NULL) return tm_fail(INVALID_HANDLE, "a graph on a default stream");
  end_own(executable);
  executable->own = calloc((size_t)graph->streams, sizeof(tm_stream *));
  operation **records = calloc(graph->count + 1, sizeof *records);
  if (executable->own == NULL || records == NULL) abort();
  for (int place = 1; place < graph->streams; place++)
    if (tm_stream_make(&executable->own[place]) != SUCCESS) abort();
  for (size_t i = 0; i < graph->count; i++) {
    const operation *captured = graph->operations[i];
    operation *made = repeated(captured, records);
    if (captured->kind == RECORD) records[i] = made;
    enqueue(captured->on == 0 ? stream : executable->own[captured->on], made);
  }
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < graph->count; i++) operation_drop(records[i]);
  pthread_mutex_unlock(&lock);
  free(records);
  return SUCCESS;
}

#endif
