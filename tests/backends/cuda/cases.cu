#include "tm_kernel.h"

/* Kernels for the tests of the runtime and the simulator. A name that says no fault has none; NO_... leaves something out. */

#ifdef NO_BARRIER_1
#define BARRIER_1()
#else
#define BARRIER_1() TM_BARRIER()
#endif
#ifdef NO_BARRIER_2
#define BARRIER_2()
#else
#define BARRIER_2() TM_BARRIER()
#endif
#ifdef NO_ASYNC_WAIT
#define ASYNC_WAIT()
#else
#define ASYNC_WAIT() TM_ASYNC_WAIT()
#endif

TM_KERNEL void TM_LAUNCH_BOUNDS(256)
    blur(const tm_int64 R, const tm_int64 C, const float *TM_RESTRICT image, float *TM_RESTRICT by) {
  const tm_int64 i = 16 * (tm_int64)blockIdx.y + threadIdx.y + 1, j = 16 * (tm_int64)blockIdx.x + threadIdx.x + 1;
  if (i < R - 1 && j < C - 1)
    by[i * C + j] = (image[(i - 1) * C + j - 1] + image[(i - 1) * C + j] + image[(i - 1) * C + j + 1] + image[i * C + j - 1] +
                     image[i * C + j] + image[i * C + j + 1] + image[(i + 1) * C + j - 1] + image[(i + 1) * C + j] +
                     image[(i + 1) * C + j + 1]) *
                    0.11111111f;
}

TM_KERNEL void TM_LAUNCH_BOUNDS(256)
    transpose(const tm_int64 N, const float *TM_RESTRICT a, float *TM_RESTRICT t) {
  TM_SHARED(float, tile, [16][17]);
  const int y = (int)threadIdx.y, x = (int)threadIdx.x;
  const tm_int64 i = 16 * (tm_int64)blockIdx.y, j = 16 * (tm_int64)blockIdx.x;
  tile[y][x] = a[(i + y) * N + j + x];
  BARRIER_1();
  t[(j + y) * N + i + x] = tile[x][y];
}

TM_KERNEL void TM_LAUNCH_BOUNDS(256)
    matmul(const tm_int64 N, const float *TM_RESTRICT a, const float *TM_RESTRICT b, float *TM_RESTRICT c) {
  TM_SHARED(float, ta, [16][16]);
  TM_SHARED(float, tb, [16][16]);
  const int t0 = (int)threadIdx.y, t1 = (int)threadIdx.x;
  const tm_int64 i = 16 * (tm_int64)blockIdx.y + t0, j = 16 * (tm_int64)blockIdx.x + t1;
  float sum = 0.0f;
  for (tm_int64 k0 = 0; k0 < N / 16; k0++) {
    ta[t0][t1] = a[i * N + 16 * k0 + t1];
    tb[t0][t1] = b[(16 * k0 + t0) * N + j];
    BARRIER_1();
    for (int k1 = 0; k1 < 16; k1++) sum += ta[t0][k1] * tb[k1][t1];
    BARRIER_2();
  }
  c[i * N + j] = sum;
}

/* Tiles of the next step are on their way while this one is computed. */
TM_KERNEL void TM_LAUNCH_BOUNDS(256)
    matmul_async(const tm_int64 N, const float *TM_RESTRICT a, const float *TM_RESTRICT b, float *TM_RESTRICT c) {
  TM_SHARED(float, ta, [2][16][16]);
  TM_SHARED(float, tb, [2][16][16]);
  const int t0 = (int)threadIdx.y, t1 = (int)threadIdx.x;
  const tm_int64 i = 16 * (tm_int64)blockIdx.y + t0, j = 16 * (tm_int64)blockIdx.x + t1, steps = N / 16;
  float sum = 0.0f;
  TM_ASYNC_COPY(&ta[0][t0][t1], &a[i * N + t1], 4);
  TM_ASYNC_COPY(&tb[0][t0][t1], &b[t0 * N + j], 4);
  TM_ASYNC_COMMIT();
  for (tm_int64 k0 = 0; k0 < steps; k0++) {
    const int now = (int)(k0 & 1), next = 1 - now;
    if (k0 + 1 < steps) {
      TM_ASYNC_COPY(&ta[next][t0][t1], &a[i * N + 16 * (k0 + 1) + t1], 4);
      TM_ASYNC_COPY(&tb[next][t0][t1], &b[(16 * (k0 + 1) + t0) * N + j], 4);
    }
    TM_ASYNC_COMMIT();
#ifndef NO_ASYNC_WAIT
    TM_ASYNC_WAIT_GROUPS(1);
#endif
    TM_BARRIER();
    for (int k1 = 0; k1 < 16; k1++) sum += ta[now][t0][k1] * tb[now][k1][t1];
    BARRIER_2();
  }
  c[i * N + j] = sum;
}

TM_KERNEL void TM_LAUNCH_BOUNDS(256) reduce_sum(const tm_int64 n, const float *TM_RESTRICT x, double *TM_RESTRICT total) {
  TM_SHARED(double, part, [8]);
  const int t = (int)threadIdx.x;
  double v = 0.0;
  for (int u = 0; u < 4; u++) {
    const tm_int64 i = 1024 * (tm_int64)blockIdx.x + 256 * u + t;
    if (i < n) v += (double)x[i];
  }
  for (int d = 16; d > 0; d >>= 1) v += tm_shuffle_down(v, d);
  if ((t & 31) == 0) part[t >> 5] = v;
  BARRIER_1();
  if (t < 32) {
    double w = t < 8 ? part[t] : 0.0;
    for (int d = 4; d > 0; d >>= 1) w += tm_shuffle_down(w, d);
    if (t == 0) tm_atomic_add(total, w);
  }
}

TM_KERNEL void TM_LAUNCH_BOUNDS(64) reduce_tree(const float *x, float *total) {
  TM_SHARED(float, part, [64]);
  const int t = (int)threadIdx.x;
  part[t] = x[64 * blockIdx.x + t];
  for (int d = 32; d > 0; d >>= 1) {
    BARRIER_1();
    if (t < d) part[t] += part[t + d];
  }
  if (t == 0) total[blockIdx.x] = part[0];
}

TM_KERNEL void scale4(const tm_int64 n, const float s, const float *TM_RESTRICT x, float *TM_RESTRICT y) {
  const tm_int64 i = 4 * (64 * (tm_int64)blockIdx.x + threadIdx.x);
  if (i < n) {
    const tm_vec<float, 4> v = tm_load<4>(&x[i]);
    tm_vec<float, 4> w;
    for (int l = 0; l < 4; l++) w[l] = s * v[l];
    tm_store(&y[i], w);
  }
}

TM_KERNEL void atomics(tm_int32 *i, float *f, double *d, tm_uint64 *u, tm_int64 *l, tm_uint8 *b, tm_float16 *h, tm_int16 *s) {
  const int g = 64 * (int)blockIdx.x + (int)threadIdx.x;
  tm_atomic_add(&i[0], 1);
  tm_atomic_max(&i[1], g);
  tm_atomic_min(&i[2], -g);
  tm_atomic_xor(&i[3], 1 << (g & 15));
  tm_atomic_add(&f[0], 1.0f);
  tm_atomic_max(&f[1], (float)g);
  tm_atomic_min(&f[2], g == 77 ? NAN : -(float)g);
  tm_atomic_add(d, 0.5);
  tm_atomic_add(u, 3);
  tm_atomic_add(&l[0], -2);
  tm_atomic_min(&l[1], -g);
  tm_atomic_add(&b[g & 3], 1);
  tm_atomic_or(&b[4], 1 << (g & 7));
  tm_atomic_add(h, tm_to_float16(1.0f));
  tm_atomic_update(s, [=](tm_int16 old) { return old < 100 ? old + 1 : old; });
}

TM_KERNEL void halves(const tm_float16 *a, const tm_bfloat16 *b, tm_float16 *c, tm_bfloat16 *d, double *e) {
  const int t = 64 * (int)blockIdx.x + (int)threadIdx.x;
  c[t] = tm_to_float16(2.0f * tm_from_float16(a[t]) + 0.1f);
  d[t] = tm_to_bfloat16(tm_from_bfloat16(b[t]) * 1.001f);
  e[t] = (double)tm_from_float16(tm_to_float16((double)tm_from_float16(a[t]) * 1.0009765625));
}

TM_KERNEL void shuffles(tm_int32 *out) {
  const int t = (int)threadIdx.x;
  out[t] = tm_shuffle_xor(t, 1);
  out[64 + t] = tm_shuffle_up(t, 2);
  out[128 + t] = tm_shuffle_down(t, 3);
  out[192 + t] = tm_shuffle(t, 5);
  out[256 + t] = (tm_int32)tm_shuffle_xor((tm_int64)t << 33, 2) + (tm_int32)(tm_shuffle_xor((tm_int64)t << 33, 2) >> 33);
}

TM_KERNEL void reverse_dynamic(float *x) {
  TM_DYNAMIC_SHARED(float, s);
  const int t = (int)threadIdx.x;
  s[t] = x[t];
  TM_BARRIER();
  x[t] = s[blockDim.x - 1 - t];
}

/* Two arrays of what the launch asks for. */
TM_KERNEL void reverse_placed(float *x) {
  TM_SHARED_AT(float, s, [64], 0);
#ifdef OVERLAPPING
  TM_SHARED_AT(float, r, [64], 128);
#else
  TM_SHARED_AT(float, r, [64], 256);
#endif
  const int t = (int)threadIdx.x;
  s[t] = x[t];
  TM_BARRIER();
  r[t] = s[blockDim.x - 1 - t];
  x[t] = r[t];
}

TM_KERNEL void add_one(const tm_int64 n, float *x) {
  const tm_int64 i = 64 * (tm_int64)blockIdx.x + threadIdx.x;
  if (i < n) x[i] += 1.0f;
}

TM_KERNEL void copy_tile(const float *x, float *y) {
  TM_SHARED(float, s, [64]);
  const int t = (int)threadIdx.x;
  TM_ASYNC_COPY(&s[t], &x[t], 4);
  ASYNC_WAIT();
  TM_BARRIER();
  y[t] = s[63 - t];
}

/* -- with faults */

TM_KERNEL void beyond(const tm_int64 n, const tm_int64 shift, float *x) {
  const tm_int64 i = 64 * (tm_int64)blockIdx.x + threadIdx.x;
  if (i < n) x[i + shift] = 1.0f;
}

TM_KERNEL void early_exit(float *x) {
  TM_SHARED(float, s, [64]);
  const int t = (int)threadIdx.x;
  if (t == 5) return;
  s[t] = (float)t;
  TM_BARRIER();
  x[t] = s[63 - t];
}

TM_KERNEL void two_sites(float *x) {
  TM_SHARED(float, s, [64]);
  const int t = (int)threadIdx.x;
  s[t] = (float)t;
  if (t < 32)
    TM_BARRIER();
  else
    TM_BARRIER();
  x[t] = s[63 - t];
}

TM_KERNEL void partial_shuffle(float *x) {
  const int t = (int)threadIdx.x;
  float v = x[t];
  if (t % 32 < 16) v += tm_shuffle_down(v, 8);
  TM_BARRIER();
  x[t] = v;
}

TM_KERNEL void no_warp_barrier(float *x) {
  TM_SHARED(float, s, [64]);
  const int t = (int)threadIdx.x;
  s[t] = (float)t;
#ifdef WARP_BARRIER
  TM_WARP_BARRIER();
#endif
  x[t] = s[t ^ 1];
}

TM_KERNEL void block_race(float *x) { x[(blockIdx.x / 2) * 64 + threadIdx.x] = (float)blockIdx.x; }

TM_KERNEL void unwritten(float *x) {
  TM_SHARED(float, s, [64]);
  const int t = (int)threadIdx.x;
  if (t < 63) s[t] = 1.0f;
  TM_BARRIER();
  x[t] = s[t];
}

TM_KERNEL void shared_beyond(float *x, const int k) {
  TM_SHARED(float, s, [64]);
  TM_SHARED(float, r, [64]);
  const int t = (int)threadIdx.x;
  s[t] = 1.0f;
  r[t] = 2.0f;
  TM_BARRIER();
  x[t] = s[t + k] + r[t];
}

TM_KERNEL void divide(tm_int32 *x, const int by) { x[threadIdx.x] = 7 / by; }

TM_KERNEL void too_deep(float *x) {
  volatile float many[32768];
  for (int i = 0; i < 32768; i++) many[i] = x[0];
  TM_BARRIER();
  x[threadIdx.x] = many[threadIdx.x];
}
