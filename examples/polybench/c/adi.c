/* Heat in a plate by alternating directions. */
#include "bounds.h"
#include <stdlib.h>
#include <string.h>

void adi_plain(int64_t T, int64_t N, const double *restrict start, double a, double b, double d, double e,
               double *restrict u_out)
{
    const int64_t bytes = sizeof(double) * N * N;
    const double c = a, f = d;
    double (*restrict u)[N] = (void *)u_out, (*restrict v)[N] = malloc(bytes);
    double (*restrict p)[N] = malloc(bytes), (*restrict q)[N] = malloc(bytes);
    memcpy(u, start, bytes);
    for (int64_t t = 1; t <= T; t++) {
        for (int64_t i = 1; i < N - 1; i++) {
            v[0][i] = 1.0;
            p[i][0] = 0.0;
            q[i][0] = v[0][i];
            for (int64_t j = 1; j < N - 1; j++) {
                p[i][j] = -c / (a * p[i][j - 1] + b);
                q[i][j] = (-d * u[j][i - 1] + (1.0 + 2.0 * d) * u[j][i] - f * u[j][i + 1] - a * q[i][j - 1])
                        / (a * p[i][j - 1] + b);
            }
            v[N - 1][i] = 1.0;
            for (int64_t j = N - 2; j >= 1; j--)
                v[j][i] = p[i][j] * v[j + 1][i] + q[i][j];
        }
        for (int64_t i = 1; i < N - 1; i++) {
            u[i][0] = 1.0;
            p[i][0] = 0.0;
            q[i][0] = u[i][0];
            for (int64_t j = 1; j < N - 1; j++) {
                p[i][j] = -f / (d * p[i][j - 1] + e);
                q[i][j] = (-a * v[i - 1][j] + (1.0 + 2.0 * a) * v[i][j] - c * v[i + 1][j] - d * q[i][j - 1])
                        / (d * p[i][j - 1] + e);
            }
            u[i][N - 1] = 1.0;
            for (int64_t j = N - 2; j >= 1; j--)
                u[i][j] = p[i][j] * u[i][j + 1] + q[i][j];
        }
    }
    free(v);
    free(p);
    free(q);
}

/* In each sweep the lines i are independent: parallel tiles, cut along j, too, forwards and then backwards. */
void adi_pluto(int64_t T, int64_t N, const double *restrict start, double a, double b, double d, double e,
               double *restrict u_out)
{
    const int64_t bytes = sizeof(double) * N * N, last = tile_of(N - 2);
    const double c = a, f = d;
    double (*restrict u)[N] = (void *)u_out, (*restrict v)[N] = malloc(bytes);
    double (*restrict p)[N] = malloc(bytes), (*restrict q)[N] = malloc(bytes);
    memcpy(u, start, bytes);
    for (int64_t t = 1; t <= T; t++) {
        #pragma omp parallel for
        for (int64_t it = 0; it <= last; it++) {
            const int64_t from = most(1, TILE * it), to = least(TILE * (it + 1), N - 1);
            for (int64_t i = from; i < to; i++) {
                v[0][i] = 1.0;
                p[i][0] = 0.0;
                q[i][0] = v[0][i];
                v[N - 1][i] = 1.0;
            }
            for (int64_t jt = 0; jt <= last; jt++)
                for (int64_t i = from; i < to; i++)
                    for (int64_t j = most(1, TILE * jt); j < least(TILE * (jt + 1), N - 1); j++) {
                        p[i][j] = -c / (a * p[i][j - 1] + b);
                        q[i][j] = (-d * u[j][i - 1] + (1.0 + 2.0 * d) * u[j][i] - f * u[j][i + 1] - a * q[i][j - 1])
                                / (a * p[i][j - 1] + b);
                    }
            for (int64_t jt = last; jt >= 0; jt--)
                for (int64_t j = least(TILE * (jt + 1), N - 1) - 1; j >= most(1, TILE * jt); j--)
                    for (int64_t i = from; i < to; i++)
                        v[j][i] = p[i][j] * v[j + 1][i] + q[i][j];
        }
        #pragma omp parallel for
        for (int64_t it = 0; it <= last; it++) {
            const int64_t from = most(1, TILE * it), to = least(TILE * (it + 1), N - 1);
            for (int64_t i = from; i < to; i++) {
                u[i][0] = 1.0;
                p[i][0] = 0.0;
                q[i][0] = u[i][0];
                u[i][N - 1] = 1.0;
            }
            for (int64_t jt = 0; jt <= last; jt++)
                for (int64_t i = from; i < to; i++)
                    for (int64_t j = most(1, TILE * jt); j < least(TILE * (jt + 1), N - 1); j++) {
                        p[i][j] = -f / (d * p[i][j - 1] + e);
                        q[i][j] = (-a * v[i - 1][j] + (1.0 + 2.0 * a) * v[i][j] - c * v[i + 1][j] - d * q[i][j - 1])
                                / (d * p[i][j - 1] + e);
                    }
            for (int64_t jt = last; jt >= 0; jt--)
                for (int64_t i = from; i < to; i++)
                    for (int64_t j = least(TILE * (jt + 1), N - 1) - 1; j >= most(1, TILE * jt); j--)
                        u[i][j] = p[i][j] * u[i][j + 1] + q[i][j];
        }
    }
    free(v);
    free(p);
    free(q);
}
