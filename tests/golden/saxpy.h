#ifndef SAXPY_H
#define SAXPY_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// z[i] = a * x[i] + y[i]
// Returns 0, or not: 1 a size or condition, 2 too large, 3 a null pointer, 4 overlap, 5 no memory.
int saxpy(int64_t N, float a, const float *x, const float *y, float *z);

// What the last call in this thread that did not return 0 found wrong.
const char *saxpy_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
