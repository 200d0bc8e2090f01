/* The factor L of A = L L^T in the place of the lower triangle of A. */
#include "bounds.h"
#include <math.h>

void cholesky_plain(int64_t N, double *restrict A_)
{
    double (*restrict A)[N] = (void *)A_;
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < i; j++) {
            for (int64_t k = 0; k < j; k++)
                A[i][j] -= A[i][k] * A[j][k];
            A[i][j] /= A[j][j];
        }
        for (int64_t k = 0; k < i; k++)
            A[i][i] -= A[i][k] * A[i][k];
        A[i][i] = sqrt(A[i][i]);
    }
}

/* All dependences point forward in i, j and k: cubes, those with the same sum of i and j at the same time. */
void cholesky_pluto(int64_t N, double *restrict A_)
{
    double (*restrict A)[N] = (void *)A_;
    const int64_t last = tile_of(N - 1);
    for (int64_t w = 0; w <= 2 * last; w++) {
        #pragma omp parallel for
        for (int64_t it = (w + 1) / 2; it <= least(w, last); it++) {
            const int64_t jt = w - it;
            for (int64_t kt = 0; kt <= jt; kt++)
                for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                    for (int64_t j = TILE * jt; j < least(TILE * (jt + 1), i + 1); j++) {
                        for (int64_t k = TILE * kt; k < least(TILE * (kt + 1), j); k++)
                            A[i][j] -= A[i][k] * A[j][k];
                        if (kt == jt)
                            A[i][j] = i == j ? sqrt(A[i][j]) : A[i][j] / A[j][j];
                    }
        }
    }
}
