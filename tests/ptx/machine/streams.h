/* Streams: what is put on one is done in its order, sooner or later; what is on several, in any order that events allow. */
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "held_stores.h"

namespace ptx {

/* An event: how often it was recorded, and how often that has happened; and when it last did, in seconds. */
struct Graph;
struct Event {
  u64 recorded = 0, happened = 0;
  double time = 0;
  std::shared_ptr<Graph> graph; /* for which it was captured last, if it was */
};

struct Operation {
  std::function<void()> act;
  std::shared_ptr<Event> event; /* is waited for, or recorded, so many times */
  u64 count = 0;
  bool records = false;
};

struct Stream {
  int device;
  std::deque<Operation> waiting;
  std::shared_ptr<Graph> graph; /* for which its operations are captured, and its number there */
  size_t place = 0;
};

/* What was captured; the capture began on the first of its streams. */
struct Graph {
  struct Node {
    size_t place;
    Operation operation;
  };
  std::vector<Node> nodes;
  std::vector<Stream *> streams;
  bool open = true;
};

enum class Order : u8 { eager, lazy, shuffled };

class Streams {
 public:
  Order order = Order::shuffled;
  Chance chance;

  Stream *make(int device);
  void destroy(Stream *stream);
  Stream *of_device(int device); /* the one that has no name */

  void put(Stream *stream, std::function<void()> act);
  void record(Stream *stream, const std::shared_ptr<Event> &event);
  void wait(Stream *stream, const std::shared_ptr<Event> &event);
  void begin_capture(Stream *stream);
  std::shared_ptr<Graph> end_capture(Stream *stream);
  /* On streams of its own, but for the first. */
  void launch(const Graph &graph, Stream *stream);
  /* The host waits. */
  void finish(Stream *stream);
  void finish(const Event &event);
  /* Time passes: something may be done. */
  void pass();
  /* All that was to be done is not: something was refused. */
  void abandon();

 private:
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<Stream *> unnamed;

  void put(Stream *stream, Operation operation);
  bool capture(Stream *stream, Operation operation);
  bool is_ready(const Stream &stream) const;
  void do_next(Stream &stream);
  void do_any();
  void advance(Stream &stream);
  Stream &recording(const Event &event, u64 count);
};

double seconds();

}  // namespace ptx
