/* Entry points of the driver: memory, and copies on streams.

   What is copied from memory that the driver does not know is taken when it is asked for, and may be changed then; a copy
   into such memory is complete when the entry point returns. All others are done in the order of their stream. */
#include "driver.h"

using namespace ptx;

namespace {

/* One end of a copy of `depth` planes of `height` lines of `width` bytes. */
struct End {
  char *start;
  bool on_host;
  size_t pitch, plane;
};

struct Box {
  End to, from;
  size_t width, height, depth;
};

size_t extent(const Box &box, const End &end) { return (box.depth - 1) * end.plane + (box.height - 1) * end.pitch + box.width; }

bool is_known(const Driver &of, const End &end) { return of.memory.find(u64(end.start)) != nullptr; }

/* The end on a device must lie in what was allocated; also when the copy is done. */
void check(const Driver &of, const Box &box, const End &end) {
  const Allocation *found = of.memory.find(u64(end.start));
  if (end.on_host && found == nullptr) return;
  if (!of.memory.holds(u64(end.start), extent(box, end)))
    throw Refusal(INVALID_VALUE, text("a copy of %zu bytes at %p goes beyond what was allocated", extent(box, end), (void *)end.start));
  if (!end.on_host && found->kind == Kind::registered)
    throw Refusal(INVALID_VALUE, text("a copy on a device at %p, which is memory of the host", (void *)end.start));
}

void move(const Box &box) {
  for (size_t plane = 0; plane < box.depth; plane++)
    for (size_t line = 0; line < box.height; line++)
      memmove(box.to.start + plane * box.to.plane + line * box.to.pitch, box.from.start + plane * box.from.plane + line * box.from.pitch, box.width);
}

void copy(Driver &of, Box box, Stream *stream) {
  if (box.width == 0 || box.height == 0 || box.depth == 0) return;
  check(of, box, box.to);
  check(of, box, box.from);
  std::shared_ptr<std::vector<char>> taken;
  if (box.from.on_host && !is_known(of, box.from)) {
    taken = std::make_shared<std::vector<char>>(extent(box, box.from));
    Box now = box;
    now.to = {taken->data(), true, box.from.pitch, box.from.plane};
    move(now);
    box.from.start = taken->data();
  }
  of.streams.put(stream, [&of, box, taken] {
    check(of, box, box.to);
    check(of, box, box.from);
    move(box);
  });
  if (box.to.on_host && !is_known(of, box.to)) of.streams.finish(stream);
}

End line(const void *start, bool on_host) { return {static_cast<char *>(const_cast<void *>(start)), on_host, 0, 0}; }
End line(CUdeviceptr start) { return line((const void *)start, false); }

CUresult copy_line(End to, End from, size_t bytes, CUstream stream, bool waits) {
  return answered([=](Driver &of) {
    Stream *on = stream_of(stream);
    copy(of, {to, from, bytes, 1, 1}, on);
    if (waits) of.streams.finish(on);
  });
}

/* The ends of what the driver calls a copy in three dimensions, on one device or between two. */
template <class Copy>
Box box_of(const Copy &given) {
  const auto end = [&](int kind, const void *host, CUdeviceptr device, size_t pitch, size_t height, size_t x, size_t y, size_t z) {
    if (kind != TM_CU_MEMORY_HOST && kind != TM_CU_MEMORY_DEVICE) throw Refusal(INVALID_VALUE, "memory of a kind that is not known");
    if (given.height * given.depth > 1 && pitch < given.width + x) throw Refusal(INVALID_VALUE, "lines are longer than their pitch");
    if (given.depth > 1 && height < given.height + y) throw Refusal(INVALID_VALUE, "planes are higher than they may be");
    char *start = kind == TM_CU_MEMORY_HOST ? static_cast<char *>(const_cast<void *>(host)) : (char *)device;
    return End{start + (z * height + y) * pitch + x, kind == TM_CU_MEMORY_HOST, pitch, pitch * height};
  };
  const End to = end(given.targetKind, given.targetHost, given.targetDevice, given.targetPitch, given.targetHeight, given.targetX, given.targetY, given.targetZ);
  const End from = end(given.sourceKind, given.sourceHost, given.sourceDevice, given.sourcePitch, given.sourceHeight, given.sourceX, given.sourceY, given.sourceZ);
  return {to, from, given.width, given.height, given.depth};
}

}  // namespace

/* -- memory */

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  return answered([=](Driver &of) {
    if (bytes == 0) throw Refusal(INVALID_VALUE, "an allocation of no bytes");
    *address = of.memory.allocate(bytes, current_device(), Kind::device);
    if (*address == 0) throw Refusal(OUT_OF_MEMORY, "the process gets no more memory");
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return answered([=](Driver &of) {
    if (!of.memory.free(address, Kind::device)) throw Refusal(INVALID_VALUE, "what is freed is no memory of a device");
  });
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  return answered([=](Driver &of) {
    *address = (void *)of.memory.allocate(bytes, current_device(), Kind::pinned);
    if (*address == nullptr) throw Refusal(OUT_OF_MEMORY, "the process gets no more memory");
  });
}

CUresult cuMemFreeHost(void *address) {
  return answered([=](Driver &of) {
    if (!of.memory.free(u64(address), Kind::pinned)) throw Refusal(INVALID_VALUE, "what is freed is no memory of the host that the driver gave");
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned) {
  *device = CUdeviceptr(host);
  return OK;
}

CUresult cuMemHostRegister_v2(void *start, size_t bytes, unsigned) {
  return answered([=](Driver &of) {
    if (!of.memory.add(u64(start), bytes)) throw Refusal(ALREADY_REGISTERED, "a part of the memory is registered");
  });
}

CUresult cuMemHostUnregister(void *start) {
  return answered([=](Driver &of) {
    if (!of.memory.remove(u64(start))) throw Refusal(NOT_REGISTERED, "the memory is not registered");
  });
}

CUresult cuPointerGetAttribute(void *value, int key, CUdeviceptr address) {
  return answered([=](Driver &of) {
    const Allocation *found = of.memory.find(address);
    if (key != TM_CU_MEMORY_KIND || found == nullptr) throw Refusal(INVALID_VALUE, "the driver does not know this memory");
    *static_cast<unsigned *>(value) = found->kind == Kind::device ? TM_CU_MEMORY_DEVICE : TM_CU_MEMORY_HOST;
  });
}

/* -- copies */

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  std::lock_guard<std::recursive_mutex> guard(driver().lock);
  return copy_line(line(to), line(from, true), bytes, nullptr, driver().memory.find(u64(from)) != nullptr);
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) { return copy_line(line(to, true), line(from), bytes, nullptr, true); }
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return copy_line(line(to), line(from), bytes, nullptr, false); }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return copy_line(line(to), line(from, true), bytes, stream, false);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_line(line(to, true), line(from), bytes, stream, false);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_line(line(to), line(from), bytes, stream, false);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream stream) {
  return copy_line(line(to), line(from), bytes, stream, false);
}
CUresult cuMemcpy3DAsync_v2(const tm_cu_copy *given, CUstream stream) {
  return answered([=](Driver &of) { copy(of, box_of(*given), stream_of(stream)); });
}
CUresult cuMemcpy3DPeerAsync(const tm_cu_peer_copy *given, CUstream stream) {
  return answered([=](Driver &of) { copy(of, box_of(*given), stream_of(stream)); });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  return answered([=](Driver &of) {
    const Box box = {line(to), line(to), bytes, 1, 1};
    check(of, box, box.to);
    of.streams.put(stream_of(stream), [&of, box, value] {
      check(of, box, box.to);
      memset(box.to.start, value, box.width);
    });
  });
}
