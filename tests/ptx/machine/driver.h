/* The state of the driver: devices, memory, streams; and how its entry points answer. */
#pragma once
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "allocations.h"
#include "findings.h"
#include "options.h"
#include "streams.h"
#include "tm_cuda.h"

/* What is declared here, is what the runtime opens: an entry point with other parameters does not compile. */
#define PTX_DECLARE(name, symbol, parameters) __attribute__((visibility("default"))) CUresult symbol parameters;
extern "C" {
TM_CUDA_ENTRIES(PTX_DECLARE)
TM_CUDA_TRACE_ENTRIES(PTX_DECLARE)
TM_CUDA_GRAPH_ENTRIES(PTX_DECLARE)
}

struct CUctx_st {
  int device;
};
struct CUmod_st {
  ptx::Module module;
};
struct CUfunc_st {
  const ptx::Module *module;
  const ptx::Function *function;
  unsigned most_shared; /* bytes that a launch may ask for */
};
struct CUevent_st {
  std::shared_ptr<ptx::Event> event;
};
struct CUgraph_st {
  std::shared_ptr<ptx::Graph> graph;
};
struct CUgraphExec_st {
  std::shared_ptr<ptx::Graph> graph;
};

namespace ptx {

constexpr unsigned STATIC_SHARED = 48 << 10, MOST_SHARED = 227 << 10; /* bytes; more than the first must be asked for */

enum Code {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, NO_CONTEXT = 201, NO_BINARY = 209,
  INVALID_PTX = 218, NOT_FOUND = 500, NOT_READY = 600, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713, LAUNCH_FAILED = 719
};

constexpr int MOST_DEVICES = 8;

/* An answer other than OK, with words for it. */
struct Refusal : Finding {
  Refusal(Code code, const std::string &words) : Finding(words), code(code) {}
  Code code;
};

struct Driver {
  std::recursive_mutex lock;
  Options options;
  bool is_configured = false;
  Allocations memory;
  Streams streams;
  std::string words; /* of the last answer other than OK */
  u64 launches = 0;
};

Driver &driver();

/* The device whose context is current. */
int current_device();

/* The stream of a handle: NULL, and small numbers, are that of the device that has no name. */
Stream *stream_of(CUstream stream);

/* Does what an entry point is for, one at a time; what is refused becomes an answer, and ends all that was to be done: a
   device that has met an error does nothing more. That of a real one could not be used any more. */
template <class Do>
CUresult answered(Do &&doing) {
  Driver &of = driver();
  std::lock_guard<std::recursive_mutex> guard(of.lock);
  Code code = LAUNCH_FAILED;
  try {
    doing(of);
    return OK;
  } catch (const Refusal &refusal) {
    code = refusal.code;
    of.words = refusal.what();
  } catch (const Finding &finding) {
    of.words = finding.what();
    of.streams.abandon();
  }
  return code;
}

}  // namespace ptx
