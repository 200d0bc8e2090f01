/* Entry points of the driver: errors, devices, contexts, modules and their kernels. */
#include <cstdlib>

#include "driver.h"
#include "parser.h"

namespace ptx {

namespace {

/* In the file that the environment names, for who looks at what was compiled. */
void keep_module(const char *image) {
  const char *path = getenv("TM_PTX_MODULES");
  FILE *file = path != nullptr ? fopen(path, "a") : nullptr;
  if (file == nullptr) return;
  fputs(image, file);
  fclose(file);
}

thread_local std::vector<CUctx_st *> contexts;
CUctx_st of_devices[MOST_DEVICES] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};

}  // namespace

/* Is never destroyed: other libraries may call it while the process ends. */
Driver &driver() {
  static Driver *const only = new Driver;
  return *only;
}

int current_device() {
  if (contexts.empty()) throw Refusal(NO_CONTEXT, "no context is current");
  return contexts.back()->device;
}

}  // namespace ptx

using namespace ptx;

/* Options are those of the environment when a process begins; a test may choose others. */
extern "C" __attribute__((visibility("default"))) CUresult ptx_configure(const char *words) {
  return answered([=](Driver &of) {
    try {
      of.options = options_of(words);
    } catch (const Finding &finding) {
      throw Refusal(NO_DEVICE, finding.what());
    }
    of.is_configured = true;
    constexpr Order orders[] = {Order::lazy, Order::shuffled, Order::eager};
    of.launches = 0;
    of.streams.chance.seed(of.options.seed);
    of.streams.order = of.options.streams == "eager"      ? Order::eager
                       : of.options.streams == "lazy"     ? Order::lazy
                       : of.options.streams == "shuffled" ? Order::shuffled
                                                          : orders[of.options.seed % 3];
  });
}

CUresult cuInit(unsigned) { return driver().is_configured ? CUresult(OK) : ptx_configure(getenv("TM_PTX")); }

/* NVRTC asks a driver that it finds for tables of its own, and compiles without them where it has none. */
extern "C" __attribute__((visibility("default"))) CUresult cuGetExportTable(const void **table, const void *) {
  *table = nullptr;
  return NOT_FOUND;
}

CUresult cuGetErrorName(CUresult code, const char **name) {
  static thread_local char text[40];
  snprintf(text, sizeof text, "PTX_MACHINE_%d", code);
  *name = text;
  return OK;
}

CUresult cuGetErrorString(CUresult, const char **words) {
  static thread_local std::string kept;
  kept = driver().words;
  *words = kept.c_str();
  return OK;
}

CUresult cuDeviceGetCount(int *count) {
  *count = driver().options.devices;
  return OK;
}

CUresult cuDeviceGet(CUdevice *device, int number) {
  *device = number;
  return number >= 0 && number < driver().options.devices && number < MOST_DEVICES ? OK : INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice) {
  snprintf(name, size_t(size), "machine for PTX");
  return OK;
}

CUresult cuDeviceGetAttribute(int *value, int key, CUdevice) {
  const int architecture = driver().options.architecture;
  if (key == TM_CU_MOST_SHARED) return *value = MOST_SHARED, OK;
  *value = key == TM_CU_CAPABILITY_MAJOR ? architecture / 10 : architecture % 10;
  return key == TM_CU_CAPABILITY_MAJOR || key == TM_CU_CAPABILITY_MINOR ? OK : INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  *context = &of_devices[device];
  return OK;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  contexts.push_back(context);
  return OK;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  if (contexts.empty()) return NO_CONTEXT;
  *context = contexts.back();
  contexts.pop_back();
  return OK;
}

CUresult cuModuleLoadDataEx(CUmodule *made, const void *image, unsigned count, int *keys, void **values) {
  return answered([=](Driver &) {
    current_device();
    if (memcmp(image, "\177ELF", 4) == 0) throw Refusal(NO_BINARY, "machine code: only PTX is executed here");
    auto loaded = std::make_unique<CUmod_st>();
    try {
      Parser(loaded->module, static_cast<const char *>(image)).parse();
    } catch (const Finding &finding) {
      char *log = nullptr;
      size_t bytes = 0;
      for (unsigned k = 0; k < count; k++) {
        if (keys[k] == TM_CU_JIT_ERROR_LOG) log = static_cast<char *>(values[k]);
        if (keys[k] == TM_CU_JIT_ERROR_LOG_BYTES) bytes = size_t(values[k]);
      }
      if (log != nullptr) snprintf(log, bytes, "%s", finding.what());
      throw Refusal(INVALID_PTX, text("the PTX is refused: %s", finding.what()));
    }
    keep_module(static_cast<const char *>(image));
    *made = loaded.release();
  });
}

CUresult cuModuleUnload(CUmodule module) {
  return answered([=](Driver &) { delete module; });
}

CUresult cuModuleGetFunction(CUfunction *made, CUmodule module, const char *name) {
  return answered([=](Driver &) {
    const auto found = module->module.functions.find(name);
    if (found == module->module.functions.end() || !found->second->is_entry) throw Refusal(NOT_FOUND, text("no kernel %s", name));
    if (module->module.shared_bytes > STATIC_SHARED) throw Refusal(INVALID_PTX, text("%s has too much shared memory", name));
    *made = new CUfunc_st{&module->module, found->second.get(), STATIC_SHARED - unsigned(module->module.shared_bytes)};
  });
}

CUresult cuFuncSetAttribute(CUfunction function, int key, int value) {
  if (key != TM_CU_DYNAMIC_SHARED || value < 0 || unsigned(value) > MOST_SHARED) return INVALID_VALUE;
  function->most_shared = unsigned(value);
  return OK;
}
