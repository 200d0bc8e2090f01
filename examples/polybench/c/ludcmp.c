/* The factors of A in its place, and the solution x of A x = b. */
#include "bounds.h"

void ludcmp_plain(int64_t N, double *restrict A_, const double *restrict b, double *restrict y, double *restrict x)
{
    double (*restrict A)[N] = (void *)A_;
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < i; j++) {
            double w = A[i][j];
            for (int64_t k = 0; k < j; k++)
                w -= A[i][k] * A[k][j];
            A[i][j] = w / A[j][j];
        }
        for (int64_t j = i; j < N; j++) {
            double w = A[i][j];
            for (int64_t k = 0; k < i; k++)
                w -= A[i][k] * A[k][j];
            A[i][j] = w;
        }
    }
    for (int64_t i = 0; i < N; i++) {
        double w = b[i];
        for (int64_t j = 0; j < i; j++)
            w -= A[i][j] * y[j];
        y[i] = w;
    }
    for (int64_t i = N - 1; i >= 0; i--) {
        double w = y[i];
        for (int64_t j = i + 1; j < N; j++)
            w -= A[i][j] * x[j];
        x[i] = w / A[i][i];
    }
}

/* The scalar w carries a dependence from every iteration to the next: the loops stay as they are. */
void ludcmp_pluto(int64_t N, double *restrict A, const double *restrict b, double *restrict y, double *restrict x)
{
    ludcmp_plain(N, A, b, y, x);
}
