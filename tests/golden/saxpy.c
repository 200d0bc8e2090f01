// z[i] = a * x[i] + y[i]
#include "saxpy.h"
#include "tm_runtime.h"
#include "tm_vectors.h"

TM_VECTOR(float, float32x16, 16)

static _Thread_local char saxpy_error[256];

const char *saxpy_last_error(void) {
  return saxpy_error;
}

__attribute__((format(printf, 2, 3), cold))
static int saxpy_fail(int code, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(saxpy_error, sizeof saxpy_error, format, values);
  va_end(values);
  return code;
}

static int saxpy_check(int64_t N, const void *x, const void *y, const void *z) {
  saxpy_error[0] = 0;
  if (N < 0)
    return saxpy_fail(TM_PRECONDITION, "saxpy: N is %" PRId64 ", but must be at least 0", N);
  if (N > TM_LARGEST)
    return saxpy_fail(TM_SIZE, "saxpy: N is %" PRId64 ", which is too large", N);
  if (!(N >= 2))
    return saxpy_fail(TM_PRECONDITION, "saxpy: needs N >= 2 (N = %" PRId64 ")", N);
  const int64_t x_bytes = TM_BYTES(float, N);
  if (x_bytes < 0)
    return saxpy_fail(TM_SIZE, "saxpy: x has more bytes than can be addressed");
  if (x == NULL && x_bytes > 0)
    return saxpy_fail(TM_NULL, "saxpy: x is NULL, but has elements");
  const int64_t y_bytes = TM_BYTES(float, N);
  if (y_bytes < 0)
    return saxpy_fail(TM_SIZE, "saxpy: y has more bytes than can be addressed");
  if (y == NULL && y_bytes > 0)
    return saxpy_fail(TM_NULL, "saxpy: y is NULL, but has elements");
  const int64_t z_bytes = TM_BYTES(float, N);
  if (z_bytes < 0)
    return saxpy_fail(TM_SIZE, "saxpy: z has more bytes than can be addressed");
  if (z == NULL && z_bytes > 0)
    return saxpy_fail(TM_NULL, "saxpy: z is NULL, but has elements");
  if (tm_overlap(z, z_bytes, x, x_bytes))
    return saxpy_fail(TM_OVERLAP, "saxpy: z, which is written, overlaps x");
  if (tm_overlap(z, z_bytes, y, y_bytes))
    return saxpy_fail(TM_OVERLAP, "saxpy: z, which is written, overlaps y");
  return 0;
}

int saxpy(int64_t N, float a, const float *restrict x, const float *restrict y, float *restrict z) {
  const int wrong = saxpy_check(N, x, y, z);
  if (wrong)
    return wrong;
  const int64_t i_end = N/16*16;
  for (int64_t i = 0; i < i_end; i += 16) {
    // z[i] = a * x[i] + y[i]
    TM_STORE(float32x16, &z[i], a * load_float32x16(&x[i]) + load_float32x16(&y[i]));
  }
  for (int64_t i = i_end; i < N; i++) {
    z[i] = a * x[i] + y[i];
  }
  return 0;
}
