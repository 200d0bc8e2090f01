/* Means of nine neighbours in place. */
#include "bounds.h"

#define STEP(i, j)                                                                             \
    A[i][j] = (A[i - 1][j - 1] + A[i - 1][j] + A[i - 1][j + 1] + A[i][j - 1] + A[i][j]          \
               + A[i][j + 1] + A[i + 1][j - 1] + A[i + 1][j] + A[i + 1][j + 1]) / 9.0

void seidel_2d_plain(int64_t T, int64_t N, double *restrict A_)
{
    double (*restrict A)[N] = (void *)A_;
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 1; i < N - 1; i++)
            for (int64_t j = 1; j < N - 1; j++)
                STEP(i, j);
}

/* At (t, t + i, 2 t + i + j) all dependences point forward: cubes, those with the same sum of t and i at the same
 * time. */
void seidel_2d_pluto(int64_t T, int64_t N, double *restrict A_)
{
    double (*restrict A)[N] = (void *)A_;
    const int64_t steps = tile_of(T - 1), rows = tile_of(T - 1 + N - 2), columns = tile_of(2 * (T - 1) + 2 * (N - 2));
    for (int64_t w = 0; w <= steps + rows; w++) {
        #pragma omp parallel for
        for (int64_t tt = most(0, w - rows); tt <= least(steps, w); tt++) {
            const int64_t it = w - tt;
            for (int64_t jt = tt + it; jt <= columns; jt++)
                for (int64_t t = TILE * tt; t < least(TILE * (tt + 1), T); t++)
                    for (int64_t x = most(TILE * it, t + 1); x < least(TILE * (it + 1), t + N - 1); x++) {
                        const int64_t i = x - t, shift = t + x;
                        for (int64_t y = most(TILE * jt, shift + 1); y < least(TILE * (jt + 1), shift + N - 1); y++)
                            STEP(i, y - shift);
                    }
        }
    }
}
