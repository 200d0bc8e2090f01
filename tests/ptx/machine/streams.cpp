#include "streams.h"

#include <algorithm>
#include <ctime>

#include "findings.h"

namespace ptx {

double seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

Stream *Streams::make(int device) {
  streams.push_back(std::make_unique<Stream>(Stream{device, {}}));
  return streams.back().get();
}

void Streams::destroy(Stream *stream) {
  finish(stream);
  streams.erase(std::find_if(streams.begin(), streams.end(), [stream](const auto &one) { return one.get() == stream; }));
}

Stream *Streams::of_device(int device) {
  for (Stream *one : unnamed)
    if (one->device == device) return one;
  unnamed.push_back(make(device));
  return unnamed.back();
}

/* Whether it was kept for a graph. */
bool Streams::capture(Stream *stream, Operation operation) {
  if (stream->graph == nullptr) return false;
  stream->graph->nodes.push_back({stream->place, std::move(operation)});
  return true;
}

void Streams::begin_capture(Stream *stream) {
  if (stream->graph != nullptr) throw Finding("a stream is captured twice");
  stream->graph = std::make_shared<Graph>();
  stream->graph->streams.push_back(stream);
  stream->place = 0;
}

/* All streams must have ended in an event that the first has waited for. */
std::shared_ptr<Graph> Streams::end_capture(Stream *stream) {
  const std::shared_ptr<Graph> graph = stream->graph;
  if (graph == nullptr || graph->streams[0] != stream) throw Finding("no capture began on the stream");
  for (Stream *one : graph->streams) one->graph = nullptr;
  graph->open = false;
  for (size_t place = 1; place < graph->streams.size(); place++) {
    const Event *last = nullptr;
    for (const auto &node : graph->nodes)
      if (node.place == place) last = node.operation.records ? node.operation.event.get() : nullptr;
    const auto waits = [=](const Graph::Node &node) { return node.place == 0 && !node.operation.records && node.operation.event.get() == last; };
    if (last == nullptr || std::none_of(graph->nodes.begin(), graph->nodes.end(), waits)) throw Finding("a graph ends before all of its streams are waited for");
  }
  return graph;
}

void Streams::launch(const Graph &graph, Stream *stream) {
  std::vector<Stream *> own{stream};
  std::vector<std::pair<const Event *, std::shared_ptr<Event>>> events;
  for (size_t place = 1; place < graph.streams.size(); place++) own.push_back(make(stream->device));
  for (const auto &node : graph.nodes) {
    const Operation &one = node.operation;
    if (one.event == nullptr) {
      put(own[node.place], one);
    } else if (one.records) {
      events.emplace_back(one.event.get(), std::make_shared<Event>());
      record(own[node.place], events.back().second);
    } else {
      const auto same = [&](const auto &each) { return each.first == one.event.get(); };
      wait(own[node.place], std::find_if(events.rbegin(), events.rend(), same)->second);
    }
  }
}

void Streams::put(Stream *stream, Operation operation) {
  if (capture(stream, operation)) return;
  stream->waiting.push_back(std::move(operation));
  if (order == Order::eager)
    finish(stream);
  else
    pass();
}

void Streams::put(Stream *stream, std::function<void()> act) {
  Operation made;
  made.act = std::move(act);
  put(stream, std::move(made));
}

void Streams::record(Stream *stream, const std::shared_ptr<Event> &event) {
  event->graph = stream->graph;
  if (capture(stream, Operation{nullptr, event, 0, true})) return;
  put(stream, Operation{nullptr, event, ++event->recorded, true});
}

/* For an event that was never recorded there is nothing to wait for. */
void Streams::wait(Stream *stream, const std::shared_ptr<Event> &event) {
  if (event->graph != nullptr) {
    if (!event->graph->open || (stream->graph != nullptr && stream->graph != event->graph)) throw Finding("a stream waits for an event of another graph");
    if (stream->graph == nullptr) {
      stream->graph = event->graph;
      stream->place = event->graph->streams.size();
      event->graph->streams.push_back(stream);
    }
    capture(stream, Operation{nullptr, event, 0, false});
    return;
  }
  if (stream->graph != nullptr) throw Finding("a stream that is captured waits for an event from before");
  if (event->recorded > 0) put(stream, Operation{nullptr, event, event->recorded, false});
}

bool Streams::is_ready(const Stream &stream) const {
  if (stream.waiting.empty()) return false;
  const Operation &first = stream.waiting.front();
  return first.event == nullptr || first.records || first.event->happened >= first.count;
}

void Streams::do_next(Stream &stream) {
  const Operation first = std::move(stream.waiting.front());
  stream.waiting.pop_front();
  if (first.act) first.act();
  if (first.records) {
    first.event->happened = std::max(first.event->happened, first.count);
    first.event->time = seconds();
  }
}

void Streams::do_any() {
  std::vector<Stream *> ready;
  for (const auto &one : streams)
    if (is_ready(*one)) ready.push_back(one.get());
  if (!ready.empty()) do_next(*ready[chance() % ready.size()]);
}

Stream &Streams::recording(const Event &event, u64 count) {
  for (const auto &stream : streams)
    for (const Operation &one : stream->waiting)
      if (one.records && one.event.get() == &event && one.count >= count) return *stream;
  throw Finding("a stream waits for an event that will never be recorded");
}

/* Something that a stream needs next is done, on it or on another. */
void Streams::advance(Stream &stream) {
  Stream *needed = &stream;
  for (size_t hops = 0; !is_ready(*needed); hops++) {
    if (hops > streams.size()) throw Finding("streams wait for each other");
    const Operation &first = needed->waiting.front();
    needed = &recording(*first.event, first.count);
  }
  do_next(*needed);
}

void Streams::finish(Stream *stream) {
  if (stream->graph != nullptr) throw Finding("the host waits for a stream that is captured");
  while (!stream->waiting.empty()) {
    if (order == Order::shuffled && chance() % 2 == 0) do_any();
    if (!stream->waiting.empty()) advance(*stream);
  }
}

void Streams::finish(const Event &event) {
  if (event.graph != nullptr) throw Finding("the host waits for an event of a graph");
  const u64 count = event.recorded;
  while (event.happened < count) {
    if (order == Order::shuffled && chance() % 2 == 0) do_any();
    if (event.happened < count) advance(recording(event, count));
  }
}

void Streams::pass() {
  if (order == Order::shuffled && chance() % 4 == 0) do_any();
}

void Streams::abandon() {
  for (const auto &stream : streams) {
    for (const Operation &one : stream->waiting)
      if (one.records) one.event->happened = std::max(one.event->happened, one.count);
    stream->waiting.clear();
  }
}

}  // namespace ptx
