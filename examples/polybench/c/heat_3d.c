/* Heat in a cube: the levels are in two arrays in turn. */
#include "bounds.h"
#include <stdlib.h>
#include <string.h>

#define STEP(to, from, i, j, k)                                                                       \
    to[i][j][k] = 0.125 * (from[i + 1][j][k] - 2.0 * from[i][j][k] + from[i - 1][j][k])                \
                + 0.125 * (from[i][j + 1][k] - 2.0 * from[i][j][k] + from[i][j - 1][k])                \
                + 0.125 * (from[i][j][k + 1] - 2.0 * from[i][j][k] + from[i][j][k - 1]) + from[i][j][k]

void heat_3d_plain(int64_t T, int64_t N, const double *restrict start, double *restrict heat_out)
{
    const int64_t bytes = sizeof(double) * N * N * N;
    double (*restrict A)[N][N] = (void *)heat_out, (*restrict B)[N][N] = malloc(bytes);
    memcpy(A, start, bytes);
    memcpy(B, start, bytes);
    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 1; i < N - 1; i++)
            for (int64_t j = 1; j < N - 1; j++)
                for (int64_t k = 1; k < N - 1; k++)
                    STEP(B, A, i, j, k);
        for (int64_t i = 1; i < N - 1; i++)
            for (int64_t j = 1; j < N - 1; j++)
                for (int64_t k = 1; k < N - 1; k++)
                    STEP(A, B, i, j, k);
    }
    free(B);
}

/* The first sweep at (t, 2 t + i, 2 t + j, 2 t + k), the second one further in each of the three: all dependences
 * point forward. Tiles in four dimensions, those with the same sum of t and i at the same time. In a tile the sweeps
 * of a row follow one another, so that compilers vectorise them. */
void heat_3d_pluto(int64_t T, int64_t N, const double *restrict start, double *restrict heat_out)
{
    const int64_t bytes = sizeof(double) * N * N * N;
    double (*restrict A)[N][N] = (void *)heat_out, (*restrict B)[N][N] = malloc(bytes);
    const int64_t steps = tile_of(T - 1), last = tile_of(2 * (T - 1) + N - 1);
    memcpy(A, start, bytes);
    memcpy(B, start, bytes);
    for (int64_t w = 0; w <= steps + last; w++) {
        #pragma omp parallel for
        for (int64_t tt = most(0, w - last); tt <= least(steps, w); tt++) {
            const int64_t it = w - tt;
            for (int64_t jt = 0; jt <= last; jt++)
                for (int64_t kt = 0; kt <= last; kt++)
                    for (int64_t t = TILE * tt; t < least(TILE * (tt + 1), T); t++)
                        for (int64_t x = most(TILE * it, 2 * t + 1); x < least(TILE * (it + 1), 2 * t + N); x++)
                            for (int64_t y = most(TILE * jt, 2 * t + 1); y < least(TILE * (jt + 1), 2 * t + N); y++) {
                                const int64_t i = x - 2 * t, j = y - 2 * t, from = most(TILE * kt, 2 * t + 1) - 2 * t;
                                const int64_t to = least(TILE * (kt + 1), 2 * t + N) - 2 * t;
                                if (i < N - 1 && j < N - 1)
                                    for (int64_t k = from; k < least(to, N - 1); k++)
                                        STEP(B, A, i, j, k);
                                if (i > 1 && j > 1)
                                    for (int64_t k = most(from, 2); k < to; k++)
                                        STEP(A, B, (i - 1), (j - 1), (k - 1));
                            }
        }
    }
    free(B);
}
