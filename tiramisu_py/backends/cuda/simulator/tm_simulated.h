/* The kernel vocabulary of tm_kernel.h for a C++ compiler of the host.

   The kernel text is included inside a class that derives from tm_simulated_thread: threadIdx and the others are members,
   and a kernel without barriers is inlined into the loops over the threads of a block, and vectorised. */
#ifndef TM_SIMULATED_H
#define TM_SIMULATED_H

#include "tm_simulator.h"

/* -- mathematics: what generated kernels call. C++'s own headers take a compiler longer than most kernels do. */

#define TM_FUNCTION_1(name)            \
  extern "C" double name(double) noexcept; \
  extern "C" float name##f(float) noexcept;
#define TM_FUNCTION_2(name)                    \
  extern "C" double name(double, double) noexcept; \
  extern "C" float name##f(float, float) noexcept;

TM_FUNCTION_1(acos)
TM_FUNCTION_1(acosh)
TM_FUNCTION_1(asin)
TM_FUNCTION_1(asinh)
TM_FUNCTION_1(atan)
TM_FUNCTION_1(atanh)
TM_FUNCTION_1(cbrt)
TM_FUNCTION_1(ceil)
TM_FUNCTION_1(cos)
TM_FUNCTION_1(cosh)
TM_FUNCTION_1(erf)
TM_FUNCTION_1(exp)
TM_FUNCTION_1(exp2)
TM_FUNCTION_1(expm1)
TM_FUNCTION_1(fabs)
TM_FUNCTION_1(floor)
TM_FUNCTION_1(log)
TM_FUNCTION_1(log10)
TM_FUNCTION_1(log1p)
TM_FUNCTION_1(log2)
TM_FUNCTION_1(rint)
TM_FUNCTION_1(sin)
TM_FUNCTION_1(sinh)
TM_FUNCTION_1(sqrt)
TM_FUNCTION_1(tan)
TM_FUNCTION_1(tanh)
TM_FUNCTION_1(trunc)
TM_FUNCTION_2(atan2)
TM_FUNCTION_2(copysign)
TM_FUNCTION_2(fmod)
TM_FUNCTION_2(hypot)
TM_FUNCTION_2(pow)

#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

static const tm_simulator *tm_simulator_services; /* set when the library is loaded */

#define TM_HEADER static inline __attribute__((always_inline, unused))
#define TM_MEMBER inline __attribute__((always_inline))
#define TM_KERNEL inline __attribute__((always_inline))
#define TM_DEVICE inline __attribute__((always_inline, unused))
#define TM_LAUNCH_BOUNDS(...)
#define TM_PLACE __builtin_extract_return_addr(__builtin_return_address(0))

#define TM_SHARED(type, name, dimensions)                                                               \
  static const char tm_key_##name = 0;                                                                  \
  type(&name) dimensions = *reinterpret_cast<type(*) dimensions>(                                       \
      tm_simulator_services->shared(&tm_key_##name, sizeof(type dimensions), #name))
#define TM_DYNAMIC_SHARED(type, name)                                                                   \
  static const char tm_key_##name = 0;                                                                  \
  type *const name = reinterpret_cast<type *>(tm_simulator_services->shared(&tm_key_##name, 0, #name))

#define TM_SHARED_AT(type, name, dimensions, first)                                                     \
  static const char tm_key_##name = 0;                                                                  \
  type(&name) dimensions = *reinterpret_cast<type(*) dimensions>(                                       \
      tm_simulator_services->shared_at(&tm_key_##name, sizeof(type dimensions), #name, (first)))

#define TM_BARRIER() tm_simulator_services->barrier(__LINE__)
#define TM_WARP_BARRIER() tm_meet(__LINE__)

#define TM_FENCE() tm_fence()

#define TM_SHUFFLE_CALL(line, source, value, lane) tm_exchange(line, [](int me, int other) { return source; }, (value), (lane))
#define tm_shuffle(value, lane) TM_SHUFFLE_CALL(__LINE__, (me & ~31) | (other & 31), (value), (lane))
#define tm_shuffle_up(value, lane) TM_SHUFFLE_CALL(__LINE__, me - other < 0 ? me : me - other, (value), (lane))
#define tm_shuffle_down(value, lane) TM_SHUFFLE_CALL(__LINE__, me + other > 31 ? me : me + other, (value), (lane))
#define tm_shuffle_xor(value, lane) TM_SHUFFLE_CALL(__LINE__, (me ^ other) > 31 ? me : me ^ other, (value), (lane))

#define TM_ASYNC_COPY(to, from, bytes) tm_async_copy<bytes>(to, from)
#define TM_ASYNC_FILL(to, from, bytes, given) tm_async_fill<bytes>(to, from, given)
#define TM_ASYNC_COMMIT() tm_simulator_services->async_commit()
#define TM_ASYNC_WAIT() tm_async_wait(0)
#define TM_ASYNC_WAIT_GROUPS(count) tm_async_wait(count)

/* Calls whose return address is a place in the kernel: never inlined, and no accesses of their own. */
#define TM_CALL static __attribute__((noinline, unused, no_sanitize("thread")))

TM_CALL void tm_async_piece(void *to, const void *from, unsigned bytes, unsigned given) {
  tm_simulator_services->async_copy(to, from, bytes, given, TM_PLACE);
}
TM_CALL void tm_async_wait(unsigned newest) { tm_simulator_services->async_wait(newest, TM_PLACE); }
template <int bytes>
TM_HEADER void tm_async_copy(void *to, const void *from) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "an asynchronous copy has 4, 8 or 16 bytes");
  tm_async_piece(to, from, bytes, bytes);
}
template <int bytes>
TM_HEADER void tm_async_fill(void *to, const void *from, int given) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "an asynchronous copy has 4, 8 or 16 bytes");
  tm_async_piece(to, from, bytes, (unsigned)given);
}

#if defined(TM_CHECKED)
TM_CALL void tm_aligned(const void *place, unsigned bytes) {
  if ((uintptr_t)place % bytes != 0) tm_simulator_services->misaligned(place, bytes, TM_PLACE);
}
#else
TM_HEADER void tm_aligned(const void *, unsigned) {}
#endif

/* -- atomics: one loop for all; the access is reported as one step */

template <unsigned bytes>
struct tm_word;
template <>
struct tm_word<1> {
  typedef uint8_t bits;
};
template <>
struct tm_word<2> {
  typedef uint16_t bits;
};
template <>
struct tm_word<4> {
  typedef uint32_t bits;
};
template <>
struct tm_word<8> {
  typedef uint64_t bits;
};

template <class T, class F>
#if defined(TM_CHECKED)
TM_CALL
#else
TM_HEADER
#endif
T tm_atomic_update(T *place, F change) {
  typedef typename tm_word<sizeof(T)>::bits bits;
#if defined(TM_CHECKED)
  tm_simulator_services->access(place, sizeof(T), TM_ATOMIC_ACCESS, TM_PLACE);
#endif
  bits *const word = reinterpret_cast<bits *>(place);
  bits before = *const_cast<volatile bits *>(word), after;
  T old;
  do {
    __builtin_memcpy(&old, &before, sizeof old);
    const T replacement = (T)change(old);
    __builtin_memcpy(&after, &replacement, sizeof replacement);
  } while (!__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

TM_CALL void tm_fence() {
  tm_simulator_services->fence();
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* A ticket says who has seen what: the blocks that took one before, what they had stored before their fences. */
TM_CALL uint32_t tm_take_ticket(uint32_t *tickets) {
#if defined(TM_CHECKED)
  tm_simulator_services->access(tickets, sizeof *tickets, TM_ATOMIC_ACCESS, TM_PLACE);
#endif
  tm_simulator_services->ticket(tickets);
  return __atomic_fetch_add(tickets, 1u, __ATOMIC_SEQ_CST);
}
TM_CALL void tm_reset_tickets(uint32_t *tickets) {
#if defined(TM_CHECKED)
  tm_simulator_services->access(tickets, sizeof *tickets, TM_ATOMIC_ACCESS, TM_PLACE);
#endif
  __atomic_store_n(tickets, 0u, __ATOMIC_SEQ_CST);
}

TM_CALL void tm_take_lock(uint32_t *lock) {
#if defined(TM_CHECKED)
  tm_simulator_services->access(lock, sizeof *lock, TM_ATOMIC_ACCESS, TM_PLACE);
#endif
  tm_simulator_services->take(lock);
}
TM_CALL void tm_give_lock(uint32_t *lock) {
#if defined(TM_CHECKED)
  tm_simulator_services->access(lock, sizeof *lock, TM_ATOMIC_ACCESS, TM_PLACE);
#endif
  tm_simulator_services->give(lock, 0u);
}

TM_CALL uint32_t tm_draw_number(uint32_t *numbers, uint32_t count) {
#if defined(TM_CHECKED)
  tm_simulator_services->access(numbers, sizeof *numbers, TM_ATOMIC_ACCESS, TM_PLACE);
#endif
  tm_simulator_services->draw(numbers);
  const uint32_t own = __atomic_fetch_add(numbers, 1u, __ATOMIC_SEQ_CST);
  if (own + 1u == count) __atomic_store_n(numbers, 0u, __ATOMIC_SEQ_CST);
  return own;
}
TM_CALL void tm_await_turn(uint32_t *turn, int64_t number) {
#if defined(TM_CHECKED)
  tm_simulator_services->access(turn, sizeof *turn, TM_ATOMIC_ACCESS, TM_PLACE);
#endif
  tm_simulator_services->await(turn, (uint32_t)number);
}
TM_CALL void tm_pass_turn(uint32_t *turn, int64_t number, int64_t count) {
#if defined(TM_CHECKED)
  tm_simulator_services->access(turn, sizeof *turn, TM_ATOMIC_ACCESS, TM_PLACE);
#endif
  tm_simulator_services->give(turn, number + 1 == count ? 0u : (uint32_t)number + 1u);
}

TM_HEADER float rsqrtf(float x) { return 1.0f / sqrtf(x); }
TM_HEADER double rsqrt(double x) { return 1.0 / sqrt(x); }

/* -- what needs the thread */

struct tm_simulated_thread : tm_thread {
  void tm_meet(int line) {
    unsigned present;
    tm_simulator_services->meet(line, nullptr, 0, &present);
  }
  /* What each lane of the warp brings, 16 bytes apart. */
  void tm_gather(int line, const uint32_t *mine, int count, uint32_t (&all)[32][4]) {
    unsigned present;
    const char *const slots = tm_simulator_services->meet(line, mine, (unsigned)count * 4, &present);
    for (int lane = 0; lane < 32; lane++) __builtin_memcpy(all[lane], slots + 16 * lane, (unsigned)count * 4);
  }
  /* The value of the lane that `source` says; poison where that lane has no thread. */
  template <class S, class T>
  TM_MEMBER T tm_exchange(int line, S source, T value, int other) {
    static_assert(sizeof(T) <= 16, "a shuffle of at most 16 bytes");
    unsigned present;
    const char *const slots = tm_simulator_services->meet(line, &value, sizeof value, &present);
    const int lane = source((int)(tm_index & 31), other) & 31;
    if (present >> lane & 1)
      __builtin_memcpy(&value, slots + 16 * lane, sizeof value);
    else
      __builtin_memset(&value, 0xff, sizeof value);
    return value;
  }
};

/* -- entries: from the types of a kernel's parameters. X, Y, Z: the shape of its blocks */

template <class T>
struct tm_parameter {
  static constexpr tm_simulated_parameter described = {sizeof(T), 1, false, false};
};
template <class T>
struct tm_parameter<T *> {
  static constexpr tm_simulated_parameter described = {sizeof(T *), sizeof(T), true, false};
};
template <class T>
struct tm_parameter<const T *> {
  static constexpr tm_simulated_parameter described = {sizeof(T *), sizeof(T), true, true};
};

/* tm_numbers<0, 1, ..., count - 1> */
template <unsigned...>
struct tm_numbers {};
template <unsigned count, unsigned... numbers>
struct tm_below : tm_below<count - 1, count - 1, numbers...> {};
template <unsigned... numbers>
struct tm_below<0, numbers...> {
  typedef tm_numbers<numbers...> type;
};

template <class Kernels, auto kernel, unsigned X, unsigned Y, unsigned Z>
struct tm_entry;

template <class Kernels, class... A, void (Kernels::*kernel)(A...), unsigned X, unsigned Y, unsigned Z>
struct tm_entry<Kernels, kernel, X, Y, Z> {
  static_assert((__is_trivially_copyable(A) && ...), "the parameters of a kernel are plain values");
  static_assert(((sizeof(A) <= 16) && ...), "a parameter of a kernel has at most 16 bytes");
  typedef typename tm_below<sizeof...(A)>::type numbers;

  static constexpr int count = (int)sizeof...(A);
  static constexpr tm_simulated_parameter parameters[count + 1] = {tm_parameter<A>::described..., {0, 0, 0, 0}};

  static void thread(tm_thread *self, void **arguments) { run_thread(self, arguments, numbers()); }
  template <unsigned... i>
  TM_HEADER void run_thread(tm_thread *self, void **arguments, tm_numbers<i...>) {
    Kernels kernels;
    static_cast<tm_thread &>(kernels) = *self;
    (kernels.*kernel)(*static_cast<A *>(arguments[i])...);
  }

  static void block(const tm_simulated_launch *launch, const unsigned at[3], void **arguments) {
    run_block(launch, at, arguments, numbers());
  }
  template <unsigned... i>
  TM_HEADER void run_block(const tm_simulated_launch *launch, const unsigned at[3], void **arguments, tm_numbers<i...>) {
    run_threads(launch, at, *static_cast<A *>(arguments[i])...);
  }
  TM_HEADER void run_threads(const tm_simulated_launch *launch, const unsigned at[3], const A... values) {
    const tm_dim grid = launch->grid, shape = {X, Y, Z}, here = {at[0], at[1], at[2]};
    auto one = [&](unsigned x, unsigned y, unsigned z) __attribute__((always_inline)) {
      Kernels kernels;
      kernels.threadIdx = {x, y, z};
      kernels.blockIdx = here;
      kernels.blockDim = shape;
      kernels.gridDim = grid;
      kernels.tm_index = 0;
      (kernels.*kernel)(values...);
    };
    if (launch->order == nullptr) {
      for (unsigned z = 0; z < Z; z++)
        for (unsigned y = 0; y < Y; y++)
          for (unsigned x = 0; x < X; x++) one(x, y, z);
    } else {
      for (unsigned i = 0; i < X * Y * Z; i++) {
        const unsigned t = launch->order[i];
        one(t % X, t / X % Y, t / X / Y);
      }
    }
  }
};

#define TM_ENTRY(name, x, y, z) tm_entry<tm_kernels, &tm_kernels::name, x, y, z>
#define TM_COOPERATING(name, x, y, z)                                                            \
  {                                                                                              \
    #name, tm_names_##name, TM_ENTRY(name, x, y, z)::count, TM_ENTRY(name, x, y, z)::parameters, \
        TM_ENTRY(name, x, y, z)::thread, nullptr, {x, y, z}                                      \
  }
#if defined(TM_CHECKED)
#define TM_IS_CHECKED 1
#define TM_INDEPENDENT TM_COOPERATING
#else
#define TM_IS_CHECKED 0
#define TM_INDEPENDENT(name, x, y, z)                                                            \
  {                                                                                              \
    #name, tm_names_##name, TM_ENTRY(name, x, y, z)::count, TM_ENTRY(name, x, y, z)::parameters, \
        nullptr, TM_ENTRY(name, x, y, z)::block, {x, y, z}                                       \
  }
#endif

#define TM_SIMULATED_PROGRAM(file, kernels)                                                                        \
  static const tm_simulated_program tm_program = {file, TM_IS_CHECKED, (int)(sizeof kernels / sizeof kernels[0]), kernels}; \
  extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) const tm_simulated_program *tm_simulated( \
      const tm_simulator *simulator) {                                                                             \
    tm_simulator_services = simulator;                                                                             \
    return &tm_program;                                                                                            \
  }

/* -- what the compiler calls for every access under -fsanitize=thread, whose library is not linked */

#if defined(TM_CHECKED)
#define TM_REPORT(address, bytes, kind)                                                                            \
  if ((size_t)((const char *)address - tm_simulator_services->first) < tm_simulator_services->length ||            \
      ((const char *)address >= tm_simulator_services->watched_first &&                                            \
       (const char *)address < tm_simulator_services->watched_end))                                                \
  tm_simulator_services->access(address, bytes, kind, TM_PLACE)
#define TM_HOOK(symbol, bytes, kind)                                                             \
  extern "C" __attribute__((visibility("hidden"), used, no_sanitize("thread"))) void tm_hook_##symbol(void *) __asm__("__tsan_" #symbol); \
  extern "C" void tm_hook_##symbol(void *address) { TM_REPORT(address, bytes, kind); }
#define TM_HOOKS(bytes)                             \
  TM_HOOK(read##bytes, bytes, TM_READ)              \
  TM_HOOK(write##bytes, bytes, TM_WRITE)            \
  TM_HOOK(unaligned_read##bytes, bytes, TM_READ)    \
  TM_HOOK(unaligned_write##bytes, bytes, TM_WRITE)  \
  TM_HOOK(volatile_read##bytes, bytes, TM_READ)     \
  TM_HOOK(volatile_write##bytes, bytes, TM_WRITE)
TM_HOOKS(1)
TM_HOOKS(2)
TM_HOOKS(4)
TM_HOOKS(8)
TM_HOOKS(16)

#define TM_RANGE_HOOK(symbol, kind)                                                              \
  extern "C" __attribute__((visibility("hidden"), used, no_sanitize("thread"))) void tm_hook_##symbol(void *, size_t) __asm__("__tsan_" #symbol); \
  extern "C" void tm_hook_##symbol(void *address, size_t bytes) { TM_REPORT(address, bytes, kind); }
TM_RANGE_HOOK(read_range, TM_READ)
TM_RANGE_HOOK(write_range, TM_WRITE)

#define TM_QUIET_HOOK(symbol, parameters)                                                        \
  extern "C" __attribute__((visibility("hidden"), used, no_sanitize("thread"))) void tm_hook_##symbol parameters __asm__("__tsan_" #symbol); \
  extern "C" void tm_hook_##symbol parameters {}
TM_QUIET_HOOK(func_entry, (void *))
TM_QUIET_HOOK(func_exit, ())
TM_QUIET_HOOK(init, ())
TM_QUIET_HOOK(vptr_update, (void *, void *))

/* Clang's form of memcpy and memset. */
extern "C" __attribute__((visibility("hidden"), used, no_sanitize("thread"))) void *tm_hook_memcpy(void *, const void *, size_t) __asm__("__tsan_memcpy");
extern "C" void *tm_hook_memcpy(void *to, const void *from, size_t bytes) {
  tm_simulator_services->access(from, bytes, TM_READ, TM_PLACE);
  tm_simulator_services->access(to, bytes, TM_WRITE, TM_PLACE);
  return __builtin_memcpy(to, from, bytes);
}
extern "C" __attribute__((visibility("hidden"), used, no_sanitize("thread"))) void *tm_hook_memset(void *, int, size_t) __asm__("__tsan_memset");
extern "C" void *tm_hook_memset(void *to, int value, size_t bytes) {
  tm_simulator_services->access(to, bytes, TM_WRITE, TM_PLACE);
  return __builtin_memset(to, value, bytes);
}
#endif

#endif
