/* The solution x of L x = b. */
#include "bounds.h"

void trisolv_plain(int64_t N, const double *restrict L_, const double *restrict b, double *restrict x)
{
    const double (*restrict L)[N] = (const void *)L_;
    for (int64_t i = 0; i < N; i++) {
        x[i] = b[i];
        for (int64_t j = 0; j < i; j++)
            x[i] -= L[i][j] * x[j];
        x[i] = x[i] / L[i][i];
    }
}

/* Dependences point forward in i and j: squares, those with the same sum of i and j at the same time. */
void trisolv_pluto(int64_t N, const double *restrict L_, const double *restrict b, double *restrict x)
{
    const double (*restrict L)[N] = (const void *)L_;
    const int64_t last = tile_of(N - 1);
    #pragma omp parallel for
    for (int64_t it = 0; it <= last; it++)
        for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
            x[i] = b[i];
    for (int64_t w = 0; w <= 2 * last; w++) {
        #pragma omp parallel for
        for (int64_t it = (w + 1) / 2; it <= least(w, last); it++) {
            const int64_t jt = w - it;
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++) {
                for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), i); j++)
                    x[i] -= L[i][j] * x[j];
                if (it == jt)
                    x[i] = x[i] / L[i][i];
            }
        }
    }
}
