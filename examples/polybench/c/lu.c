/* The factors L and U of A in its place, without pivoting. */
#include "bounds.h"

void lu_plain(int64_t N, double *restrict A_)
{
    double (*restrict A)[N] = (void *)A_;
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < i; j++) {
            for (int64_t k = 0; k < j; k++)
                A[i][j] -= A[i][k] * A[k][j];
            A[i][j] /= A[j][j];
        }
        for (int64_t j = i; j < N; j++)
            for (int64_t k = 0; k < i; k++)
                A[i][j] -= A[i][k] * A[k][j];
    }
}

/* All dependences point forward in i, j and k: cubes, those with the same sum of i and j at the same time. In a cube
 * j is inside, along which elements are neighbours. */
void lu_pluto(int64_t N, double *restrict A_)
{
    double (*restrict A)[N] = (void *)A_;
    const int64_t last = tile_of(N - 1);
    for (int64_t w = 0; w <= 2 * last; w++) {
        #pragma omp parallel for
        for (int64_t it = most(0, w - last); it <= least(w, last); it++) {
            const int64_t jt = w - it;
            for (int64_t kt = 0; kt <= least(it, jt); kt++)
                for (int64_t k = TILE * kt; k < least(TILE * (kt + 1), N); k++)
                    for (int64_t i = most(TILE * it, k + 1); i < least(TILE * (it + 1), N); i++) {
                        if (jt == kt)
                            A[i][k] /= A[k][k];
                        for (int64_t j = most(TILE * jt, k + 1); j < least(TILE * (jt + 1), N); j++)
                            A[i][j] -= A[i][k] * A[k][j];
                    }
        }
    }
}
