/* Entry points of the driver: streams, events, launches. */
#include "driver.h"

#include <algorithm>

using namespace ptx;

namespace ptx {

Stream *stream_of(CUstream stream) {
  constexpr u64 NAMED = 16; /* below it: the streams of a device that the driver makes itself */
  return u64(stream) < NAMED ? driver().streams.of_device(current_device()) : reinterpret_cast<Stream *>(stream);
}

}  // namespace ptx

namespace {

/* How a launch runs, as far as the options leave it open. */
Plan drawn(const Options &options, Chance &chance) {
  const auto one = [&](s64 given, std::initializer_list<s64> among) {
    const s64 drawn = among.begin()[chance() % among.size()];
    return given >= 0 ? given : drawn;
  };
  Plan plan;
  plan.slice = u64(one(options.slice, {1, 5, 50, 1000, 10000}));
  plan.blocks = u64(std::max<s64>(1, one(options.blocks, {1, 2, 4})));
  plan.held = int(one(options.held, {0, 50, 100}));
  plan.released = int(one(options.released, {1, 30, 300}));
  plan.old = int(one(options.old, {0, 50}));
  plan.late = int(one(options.late, {0, 50, 100}));
  return plan;
}

void log_launch(const Options &options, const Launch &launch) {
  if (options.log.empty()) return;
  FILE *file = fopen(options.log.c_str(), "a");
  if (file == nullptr) return;
  fprintf(file, "%s grid %u %u %u block %u %u %u instructions %llu sectors %llu %llu\n", launch.function->name.c_str(), launch.grid[0], launch.grid[1],
          launch.grid[2], launch.block[0], launch.block[1], launch.block[2], (unsigned long long)launch.steps, (unsigned long long)launch.sectors_read,
          (unsigned long long)launch.sectors_written);
  fclose(file);
}

/* On its device, when its stream has come to it. */
void do_launch(Driver &of, Launch &launch, int device) {
  launch.regions = of.memory.regions(device);
  for (const Variable &one : launch.module->global_variables) launch.regions.push_back({one.start, one.bytes, true});
  std::sort(launch.regions.begin(), launch.regions.end(), [](const Region &a, const Region &b) { return a.start < b.start; });
  launch.marks.resize(launch.regions.size());
  run(launch);
  log_launch(of.options, launch);
}

void check_shape(const CUfunc_st &function, const Launch &launch) {
  const Function &kernel = *function.function;
  if (launch.threads == 0 || launch.threads > 1024) throw Refusal(INVALID_VALUE, text("%u threads in a block", launch.threads));
  if (kernel.most_threads != 0 && launch.threads > kernel.most_threads)
    throw Refusal(INVALID_VALUE, text("%s has blocks of at most %u threads, not %u", kernel.name.c_str(), kernel.most_threads, launch.threads));
  if (kernel.exact_threads != 0 && launch.threads != kernel.exact_threads)
    throw Refusal(INVALID_VALUE, text("%s has blocks of %u threads, not %u", kernel.name.c_str(), kernel.exact_threads, launch.threads));
  if (launch.dynamic_shared > function.most_shared || launch.dynamic_shared + function.module->shared_bytes > MOST_SHARED)
    throw Refusal(INVALID_VALUE, text("%s asks for more shared memory than it was allowed", kernel.name.c_str()));
}

}  // namespace

/* Streams wait for no other, unless told so. */
CUresult cuStreamCreate(CUstream *made, unsigned flags) {
  return answered([=](Driver &of) {
    if (flags != TM_CU_STREAM_NON_BLOCKING) throw Refusal(INVALID_VALUE, "a stream that waits for the unnamed one");
    *made = reinterpret_cast<CUstream>(of.streams.make(current_device()));
  });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return answered([=](Driver &of) { of.streams.destroy(reinterpret_cast<Stream *>(stream)); });
}

CUresult cuStreamSynchronize(CUstream stream) {
  return answered([=](Driver &of) { of.streams.finish(stream_of(stream)); });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return answered([=](Driver &of) { of.streams.wait(stream_of(stream), event->event); });
}

CUresult cuEventCreate(CUevent *made, unsigned) {
  *made = new CUevent_st{std::make_shared<Event>()};
  return OK;
}

CUresult cuEventDestroy_v2(CUevent event) {
  return answered([=](Driver &) { delete event; });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return answered([=](Driver &of) { of.streams.record(stream_of(stream), event->event); });
}

CUresult cuEventQuery(CUevent event) {
  bool happened = false;
  const CUresult code = answered([&](Driver &of) {
    of.streams.pass();
    happened = event->event->happened >= event->event->recorded;
  });
  return code != OK || happened ? code : CUresult(NOT_READY);
}

CUresult cuEventSynchronize(CUevent event) {
  return answered([=](Driver &of) { of.streams.finish(*event->event); });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  return answered([=](Driver &) {
    for (const CUevent one : {from, to})
      if (one->event->recorded == 0 || one->event->happened < one->event->recorded) throw Refusal(NOT_READY, "an event has not happened");
    *milliseconds = float(1e3 * (to->event->time - from->event->time));
  });
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        CUstream stream, void **arguments, void **) {
  return answered([=](Driver &of) {
    auto launch = std::make_shared<Launch>();
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    std::copy_n(grid, 3, launch->grid);
    std::copy_n(block, 3, launch->block);
    launch->module = function->module;
    launch->function = function->function;
    launch->threads = bx * by * bz;
    launch->dynamic_shared = shared;
    launch->parameters.resize(function->function->parameter_bytes);
    for (size_t k = 0; k < function->function->parameters.size(); k++) {
      const Parameter &one = function->function->parameters[k];
      memcpy(launch->parameters.data() + one.offset, arguments[k], one.bytes);
    }
    check_shape(*function, *launch);
    launch->chance.seed(of.options.seed * 1'000'003 + of.launches++);
    launch->plan = drawn(of.options, launch->chance);
    launch->most_steps = of.options.steps;
    launch->counts_sectors = !of.options.log.empty();
    if (u64(gx) * gy * gz == 1) launch->plan.old = 0; /* there is nobody else */
    const int device = current_device();
    of.streams.put(stream_of(stream), [&of, launch, device] { do_launch(of, *launch, device); });
  });
}
