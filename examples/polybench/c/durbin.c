/* The solution of the Yule-Walker equations. */
#include "bounds.h"
#include <stdlib.h>

void durbin_plain(int64_t N, const double *restrict r, double *restrict y)
{
    double *restrict z = malloc(sizeof(double) * N);
    double alpha = -r[0], beta = 1.0;
    y[0] = -r[0];
    for (int64_t k = 1; k < N; k++) {
        double sum = 0.0;
        beta = (1 - alpha * alpha) * beta;
        for (int64_t i = 0; i < k; i++)
            sum += r[k - i - 1] * y[i];
        alpha = -(r[k] + sum) / beta;
        for (int64_t i = 0; i < k; i++)
            z[i] = y[i] + alpha * y[k - i - 1];
        for (int64_t i = 0; i < k; i++)
            y[i] = z[i];
        y[k] = alpha;
    }
    free(z);
}

/* The scalars carry dependences from each k to the next: only the loops that update y are parallel, and tiled. */
void durbin_pluto(int64_t N, const double *restrict r, double *restrict y)
{
    double *restrict z = malloc(sizeof(double) * N);
    double alpha = -r[0], beta = 1.0;
    y[0] = -r[0];
    for (int64_t k = 1; k < N; k++) {
        double sum = 0.0;
        beta = (1 - alpha * alpha) * beta;
        for (int64_t i = 0; i < k; i++)
            sum += r[k - i - 1] * y[i];
        alpha = -(r[k] + sum) / beta;
        #pragma omp parallel for
        for (int64_t it = 0; it <= tile_of(k - 1); it++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), k); i++)
                z[i] = y[i] + alpha * y[k - i - 1];
        #pragma omp parallel for
        for (int64_t it = 0; it <= tile_of(k - 1); it++)
            for (int64_t i = TILE * it; i < least(TILE * (it + 1), k); i++)
                y[i] = z[i];
        y[k] = alpha;
    }
    free(z);
}
