// A box blur.
#include "blur.h"
#include "tm_runtime.h"
#include "tm_gpu.h"

static _Thread_local char blur_error[1024];

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

// the kernels, in blur.cu
enum { blur_by };
extern const tm_gpu_program blur_program;
static _Thread_local int blur_first_device;

void blur_use_device(int first) {
  blur_first_device = first;
}

// Ends the work on GPUs, and releases what the call holds there; the code to return.
static int blur_end(tm_gpu_call *gpu, int code) {
  const int ended = tm_gpu_end(gpu, code);
  if (ended < TM_GPU_NO_DRIVER)
    return ended;
  const char *const said = tm_gpu_error();
  const bool named = strncmp(said, "blur: ", 6) == 0;
  return blur_fail(ended, named ? "%s" : "blur: %s", said);
}
#define TM_TRY(...) do { const int tm_code = (__VA_ARGS__); if (tm_code != 0) return blur_end(gpu, tm_code); } while (0)

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
  tm_gpu_call *gpu = NULL;
  TM_TRY(tm_gpu_begin(&gpu, &blur_program, blur_first_device));
  float *image_gpu0 = NULL;
  TM_TRY(tm_gpu_allocate(gpu, 0, (void **)&image_gpu0, (size_t)TM_BYTES(float, R + 2, C + 2)));
  float *by_gpu0 = NULL;
  TM_TRY(tm_gpu_allocate(gpu, 0, (void **)&by_gpu0, (size_t)TM_BYTES(float, R, C)));
  TM_TRY(tm_gpu_copy(gpu, "copy_image", image_gpu0, 0, image, -1,
      &(tm_gpu_box){.run = tm_count(R + 2)*tm_count(C + 2)*sizeof(float), .lines = 1, .planes = 1}, 0, true));
  TM_TRY(tm_gpu_launch(gpu, 0, blur_by, (const int64_t[3]){(C + 15)/16, (R + 15)/16, 1}, (const int64_t[3]){16, 16, 1},
      0, 0, (void *[]){&R, &C, &image_gpu0, &by_gpu0}));
  TM_TRY(tm_gpu_copy(gpu, "copy_by", by, -1, by_gpu0, 0,
      &(tm_gpu_box){.run = tm_count(R)*tm_count(C)*sizeof(float), .lines = 1, .planes = 1}, 0, true));
  TM_TRY(tm_gpu_free(gpu, 0, by_gpu0));
  TM_TRY(tm_gpu_free(gpu, 0, image_gpu0));
  return blur_end(gpu, 0);
}
