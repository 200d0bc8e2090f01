// What this machine can do at most: fused multiply-adds, and bytes moved by loops that read some streams and write
// others. One vector of the processor's at a time, with ordinary and with non-temporal stores where the processor has them.
// Short streams, which stay in a cache, are moved many times by the threads before their time is taken.
//
//   limits THREADS MILLISECONDS [READS WRITES BYTES]...      streams of so many bytes; prints lines of numbers
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

// As many chains as leave registers for the factors: of 32 with AVX-512 and on Arm, else of 16.
#if defined(__AVX512F__)
enum { BYTES = 64, CHAINS = 24 };
#elif defined(__AVX__)
enum { BYTES = 32, CHAINS = 12 };
#elif defined(__aarch64__)
enum { BYTES = 16, CHAINS = 24 };
#else
enum { BYTES = 16, CHAINS = 12 };
#endif
enum { SUMS = 12 };
typedef float vector __attribute__((vector_size(BYTES)));
typedef double doubles __attribute__((vector_size(BYTES)));
enum { MOST = 4, PASS = 1 << 22 };

static void stream(vector* to, vector value) {
#if defined(__AVX512F__)
    _mm512_stream_ps((float*)to, (__m512)value);
#elif defined(__AVX__)
    _mm256_stream_ps((float*)to, (__m256)value);
#elif defined(__SSE2__)
    _mm_stream_ps((float*)to, (__m128)value);
#else
    *to = value;
#endif
}

static void fence(void) {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

static char* pages(size_t bytes) {
    size_t huge = (size_t)2 << 20, size = (bytes + huge - 1) / huge * huge;
    char* found = aligned_alloc(huge, size);
    if (!found) exit(1);
#if defined(MADV_HUGEPAGE)
    madvise(found, size, MADV_HUGEPAGE);
#endif
    memset(found, 1, size);
    return found;
}

// Gflop/s of independent chains of fused multiply-adds in registers.
#define MULTIPLY_ADDS(name, type, element)                                                                        \
    static double name(double seconds) {                                                                          \
        enum { LANES = sizeof(type) / sizeof(element) };                                                          \
        double best = 0, begin = omp_get_wtime();                                                                 \
        do {                                                                                                      \
            long times = 10000;                                                                                   \
            double start = omp_get_wtime();                                                                       \
            _Pragma("omp parallel") {                                                                             \
                type sum[CHAINS], x, y;                                                                           \
                memset(sum, 0, sizeof sum);                                                                       \
                for (int k = 0; k < LANES; k++) x[k] = (element)0.999, y[k] = (element)1e-3;                      \
                __asm__ volatile("" : "+m"(x), "+m"(y));                                                          \
                type a = x, b = y;                                                                                \
                for (long n = 0; n < times; n++) {                                                                \
                    _Pragma("GCC unroll 24") for (int k = 0; k < CHAINS; k++) sum[k] = sum[k] * a + b;            \
                }                                                                                                 \
                for (int k = 0; k < CHAINS; k++) __asm__ volatile("" : "+m"(sum[k]));                             \
            }                                                                                                     \
            double rate = 2.0 * LANES * CHAINS * times * omp_get_max_threads() / (omp_get_wtime() - start) / 1e9; \
            if (rate > best) best = rate;                                                                         \
        } while (omp_get_wtime() - begin < seconds);                                                              \
        return best;                                                                                              \
    }
MULTIPLY_ADDS(multiply_adds, vector, float)
MULTIPLY_ADDS(multiply_adds64, doubles, double)

#define MOVE(reads, writes, store)                                                     \
    for (size_t i = first; i < last; i++) {                                            \
        vector sum = from[0][i];                                                       \
        _Pragma("GCC unroll 4") for (int k = 1; k < reads; k++) sum += from[k][i];      \
        _Pragma("GCC unroll 4") for (int k = 0; k < writes; k++) store;                 \
    }
#define CASES(reads, writes)                                                            \
    if (reading == reads && writing == writes) {                                        \
        if (temporal) MOVE(reads, writes, to[k][i] = sum) else MOVE(reads, writes, stream(to[k] + i, sum)) \
    }

static void move_often(int reading, int writing, int temporal, size_t count, long times, vector** from, vector** to) {
#pragma omp parallel
    {
        size_t threads = omp_get_num_threads(), id = omp_get_thread_num();
        size_t first = count * id / threads, last = count * (id + 1) / threads;
        for (long n = 0; n < times; n++) {
            CASES(1, 1) CASES(2, 1) CASES(3, 1) CASES(1, 2)
            if (!writing) {
                vector sum[SUMS];
                memset(sum, 0, sizeof sum);
                const vector* at = from[0];
                for (size_t i = first; i + SUMS <= last; i += SUMS) {
                    _Pragma("GCC unroll 12") for (int k = 0; k < SUMS; k++) sum[k] += at[i + k];
                }
                vector all = sum[0];
                _Pragma("GCC unroll 12") for (int k = 1; k < SUMS; k++) all += sum[k];
                __asm__ volatile("" : : "m"(all));
            }
            __asm__ volatile("" : : : "memory");  // or one pass would do for all
        }
        if (!temporal) fence();
    }
}

// GB/s, each byte that is read or written counted once.
static double moving(int reading, int writing, int temporal, size_t bytes, double seconds, vector** from, vector** to) {
    double best = 0, begin = omp_get_wtime();
    long times = bytes < PASS ? (long)(PASS / bytes) : 1;
    for (int n = 0; n < 4 || omp_get_wtime() - begin < seconds; n++) {
        double start = omp_get_wtime();
        move_often(reading, writing, temporal, bytes / sizeof(vector), times, from, to);
        double rate = (double)(reading + writing) * bytes * times / (omp_get_wtime() - start) / 1e9;
        if (rate > best) best = rate;
    }
    return best;
}

int main(int count, char** words) {
    if (count < 3) return 2;
    omp_set_num_threads(atoi(words[1]));
    double seconds = atof(words[2]) / 1e3;
    printf("fma %.1f\n", multiply_adds(seconds));
    printf("fma64 %.1f\n", multiply_adds64(seconds));
    for (int n = 3; n + 2 < count; n += 3) {
        int reading = atoi(words[n]), writing = atoi(words[n + 1]);
        size_t bytes = (size_t)atoll(words[n + 2]) / sizeof(vector) * sizeof(vector);
        char *memory[2 * MOST] = {0};
        vector *from[MOST] = {0}, *to[MOST] = {0};
        for (int k = 0; k < reading; k++) from[k] = (vector*)(memory[k] = pages(bytes));
        for (int k = 0; k < writing; k++) to[k] = (vector*)(memory[MOST + k] = pages(bytes));
        double plain = moving(reading, writing, 1, bytes, seconds, from, to);
        double streamed = writing ? moving(reading, writing, 0, bytes, seconds, from, to) : plain;
        printf("move %d %d %lld %.2f %.2f\n", reading, writing, atoll(words[n + 2]), plain, streamed);
        fflush(stdout);
        for (int k = 0; k < 2 * MOST; k++) free(memory[k]);
    }
    return 0;
}
