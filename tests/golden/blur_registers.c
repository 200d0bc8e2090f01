#include "blur.h"
#include "tm_runtime.h"
#include "tm_vectors.h"

TM_VECTOR(float, float32x8, 8)

static _Thread_local char blur_error[256];

const char *blur_last_error(void) {
  return blur_error;
}

__attribute__((format(printf, 2, 3), cold))
static int blur_fail(int code, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(blur_error, sizeof blur_error, format, values);
  va_end(values);
  return code;
}

static int blur_check(int64_t R, int64_t C, const void *image, const void *by) {
  blur_error[0] = 0;
  if (R < 0)
    return blur_fail(TM_PRECONDITION, "blur: R is %" PRId64 ", but must be at least 0", R);
  if (R > TM_LARGEST)
    return blur_fail(TM_SIZE, "blur: R is %" PRId64 ", which is too large", R);
  if (C < 0)
    return blur_fail(TM_PRECONDITION, "blur: C is %" PRId64 ", but must be at least 0", C);
  if (C > TM_LARGEST)
    return blur_fail(TM_SIZE, "blur: C is %" PRId64 ", which is too large", C);
  const int64_t image_bytes = TM_BYTES(float, R + 2, C + 2);
  if (image_bytes < 0)
    return blur_fail(TM_SIZE, "blur: image has more bytes than can be addressed");
  if (image == NULL && image_bytes > 0)
    return blur_fail(TM_NULL, "blur: image is NULL, but has elements");
  const int64_t by_bytes = TM_BYTES(float, R, C);
  if (by_bytes < 0)
    return blur_fail(TM_SIZE, "blur: by has more bytes than can be addressed");
  if (by == NULL && by_bytes > 0)
    return blur_fail(TM_NULL, "blur: by is NULL, but has elements");
  if (tm_overlap(by, by_bytes, image, image_bytes))
    return blur_fail(TM_OVERLAP, "blur: by, which is written, overlaps image");
  return 0;
}

int blur(int64_t R, int64_t C, const float *restrict image, float *restrict by) {
  const int wrong = blur_check(R, C, image, by);
  if (wrong)
    return wrong;
  #pragma omp parallel for schedule(static)
  for (int64_t r0 = 0; r0 < (R + 1)/2; r0++) {
    if (R - 2*r0 >= 2) {
      const int64_t c_end = C/8*8;
      for (int64_t c = 0; c < c_end; c += 8) {
        // bx[r, c]
        const float32x8 bx_0 = (load_float32x8(&image[2*r0*(C + 2) + c]) + load_float32x8(&image[2*r0*(C + 2) + c + 1])
            + load_float32x8(&image[2*r0*(C + 2) + c + 2])) / 3.0f;
        const float32x8 bx_1 = (load_float32x8(&image[(2*r0 + 1)*(C + 2) + c])
            + load_float32x8(&image[(2*r0 + 1)*(C + 2) + c + 1]) + load_float32x8(&image[(2*r0 + 1)*(C + 2) + c + 2]))
            / 3.0f;
        const float32x8 bx_2 = (load_float32x8(&image[(2*r0 + 2)*(C + 2) + c])
            + load_float32x8(&image[(2*r0 + 2)*(C + 2) + c + 1]) + load_float32x8(&image[(2*r0 + 2)*(C + 2) + c + 2]))
            / 3.0f;
        const float32x8 bx_3 = (load_float32x8(&image[(2*r0 + 3)*(C + 2) + c])
            + load_float32x8(&image[(2*r0 + 3)*(C + 2) + c + 1]) + load_float32x8(&image[(2*r0 + 3)*(C + 2) + c + 2]))
            / 3.0f;
        // by[r, c]
        TM_STORE(float32x8, &by[2*r0*C + c], (bx_0 + bx_1 + bx_2) / 3.0f);
        TM_STORE(float32x8, &by[(2*r0 + 1)*C + c], (bx_1 + bx_2 + bx_3) / 3.0f);
      }
      for (int64_t c = c_end; c < C; c++) {
        const float bx_0 = (image[2*r0*(C + 2) + c] + image[2*r0*(C + 2) + c + 1] + image[2*r0*(C + 2) + c + 2]) / 3.0f;
        const float bx_1 = (image[(2*r0 + 1)*(C + 2) + c] + image[(2*r0 + 1)*(C + 2) + c + 1]
            + image[(2*r0 + 1)*(C + 2) + c + 2]) / 3.0f;
        const float bx_2 = (image[(2*r0 + 2)*(C + 2) + c] + image[(2*r0 + 2)*(C + 2) + c + 1]
            + image[(2*r0 + 2)*(C + 2) + c + 2]) / 3.0f;
        const float bx_3 = (image[(2*r0 + 3)*(C + 2) + c] + image[(2*r0 + 3)*(C + 2) + c + 1]
            + image[(2*r0 + 3)*(C + 2) + c + 2]) / 3.0f;
        by[2*r0*C + c] = (bx_0 + bx_1 + bx_2) / 3.0f;
        by[(2*r0 + 1)*C + c] = (bx_1 + bx_2 + bx_3) / 3.0f;
      }
    } else {
      const int64_t c_end = C/8*8;
      for (int64_t c = 0; c < c_end; c += 8) {
        float32x8 bx[4] TM_LOCAL;
        for (int64_t r = 0; r < tm_min_int64(4, R - 2*r0 + 2); r++) {
          // bx[r, c]
          bx[r] = (load_float32x8(&image[(2*r0 + r)*(C + 2) + c]) + load_float32x8(&image[(2*r0 + r)*(C + 2) + c + 1])
              + load_float32x8(&image[(2*r0 + r)*(C + 2) + c + 2])) / 3.0f;
        }
        for (int64_t r1 = 0; r1 < tm_min_int64(2, R - 2*r0); r1++) {
          // by[r, c]
          TM_STORE(float32x8, &by[(2*r0 + r1)*C + c], (bx[r1] + bx[r1 + 1] + bx[r1 + 2]) / 3.0f);
        }
      }
      for (int64_t c = c_end; c < C; c++) {
        float bx[4] TM_LOCAL;
        for (int64_t r = 0; r < tm_min_int64(4, R - 2*r0 + 2); r++) {
          bx[r] = (image[(2*r0 + r)*(C + 2) + c] + image[(2*r0 + r)*(C + 2) + c + 1]
              + image[(2*r0 + r)*(C + 2) + c + 2]) / 3.0f;
        }
        for (int64_t r1 = 0; r1 < tm_min_int64(2, R - 2*r0); r1++) {
          by[(2*r0 + r1)*C + c] = (bx[r1] + bx[r1 + 1] + bx[r1 + 2]) / 3.0f;
        }
      }
    }
  }
  return 0;
}
