/* Means of three neighbours: the levels are in two arrays in turn. */
#include "bounds.h"
#include <stdlib.h>
#include <string.h>

#define STEP(to, from, i) to[i] = 0.33333 * (from[i - 1] + from[i] + from[i + 1])

void jacobi_1d_plain(int64_t T, int64_t N, const double *restrict start, double *restrict mean_out)
{
    double *restrict A = mean_out, *restrict B = malloc(sizeof(double) * N);
    memcpy(A, start, sizeof(double) * N);
    memcpy(B, start, sizeof(double) * N);
    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 1; i < N - 1; i++)
            STEP(B, A, i);
        for (int64_t i = 1; i < N - 1; i++)
            STEP(A, B, i);
    }
    free(B);
}

/* The first sweep at (t, 2 t + i), the second one further: all dependences point forward. Squares, those with the
 * same sum at the same time. In a tile the sweeps
 * of a row follow one another, so that compilers vectorise them. */
void jacobi_1d_pluto(int64_t T, int64_t N, const double *restrict start, double *restrict mean_out)
{
    double *restrict A = mean_out, *restrict B = malloc(sizeof(double) * N);
    const int64_t steps = tile_of(T - 1), last = tile_of(2 * (T - 1) + N - 1);
    memcpy(A, start, sizeof(double) * N);
    memcpy(B, start, sizeof(double) * N);
    for (int64_t w = 0; w <= steps + last; w++) {
        #pragma omp parallel for
        for (int64_t tt = most(0, w - last); tt <= least(steps, w); tt++)
            for (int64_t t = TILE * tt; t < least(TILE * (tt + 1), T); t++) {
                const int64_t from = most(TILE * (w - tt), 2 * t + 1) - 2 * t;
                const int64_t to = least(TILE * (w - tt + 1), 2 * t + N) - 2 * t;
                for (int64_t i = from; i < least(to, N - 1); i++)
                    STEP(B, A, i);
                for (int64_t i = most(from, 2); i < to; i++)
                    STEP(A, B, (i - 1));
            }
    }
    free(B);
}
