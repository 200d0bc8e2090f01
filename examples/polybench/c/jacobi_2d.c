/* Means of five neighbours: the levels are in two arrays in turn. */
#include "bounds.h"
#include <stdlib.h>
#include <string.h>

#define STEP(to, from, i, j) \
    to[i][j] = 0.2 * (from[i][j] + from[i][j - 1] + from[i][j + 1] + from[i + 1][j] + from[i - 1][j])

void jacobi_2d_plain(int64_t T, int64_t N, const double *restrict start, double *restrict mean_out)
{
    const int64_t bytes = sizeof(double) * N * N;
    double (*restrict A)[N] = (void *)mean_out, (*restrict B)[N] = malloc(bytes);
    memcpy(A, start, bytes);
    memcpy(B, start, bytes);
    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 1; i < N - 1; i++)
            for (int64_t j = 1; j < N - 1; j++)
                STEP(B, A, i, j);
        for (int64_t i = 1; i < N - 1; i++)
            for (int64_t j = 1; j < N - 1; j++)
                STEP(A, B, i, j);
    }
    free(B);
}

/* The first sweep at (t, 2 t + i, 2 t + j), the second one further in both: all dependences point forward. Cubes,
 * those with the same sum of t and i at the same time. In a tile the sweeps
 * of a row follow one another, so that compilers vectorise them. */
void jacobi_2d_pluto(int64_t T, int64_t N, const double *restrict start, double *restrict mean_out)
{
    const int64_t bytes = sizeof(double) * N * N;
    double (*restrict A)[N] = (void *)mean_out, (*restrict B)[N] = malloc(bytes);
    const int64_t steps = tile_of(T - 1), last = tile_of(2 * (T - 1) + N - 1);
    memcpy(A, start, bytes);
    memcpy(B, start, bytes);
    for (int64_t w = 0; w <= steps + last; w++) {
        #pragma omp parallel for
        for (int64_t tt = most(0, w - last); tt <= least(steps, w); tt++) {
            const int64_t it = w - tt;
            for (int64_t jt = 0; jt <= last; jt++)
                for (int64_t t = TILE * tt; t < least(TILE * (tt + 1), T); t++)
                    for (int64_t x = most(TILE * it, 2 * t + 1); x < least(TILE * (it + 1), 2 * t + N); x++) {
                        const int64_t i = x - 2 * t, from = most(TILE * jt, 2 * t + 1) - 2 * t;
                        const int64_t to = least(TILE * (jt + 1), 2 * t + N) - 2 * t;
                        if (i < N - 1)
                            for (int64_t j = from; j < least(to, N - 1); j++)
                                STEP(B, A, i, j);
                        if (i > 1)
                            for (int64_t j = most(from, 2); j < to; j++)
                                STEP(A, B, (i - 1), (j - 1));
                    }
        }
    }
    free(B);
}
