/* Electric and magnetic fields in the plane, in place. */
#include "bounds.h"

void fdtd_2d_plain(int64_t T, int64_t NX, int64_t NY, double *restrict EX, double *restrict EY, double *restrict HZ,
                   const double *restrict edge)
{
    double (*restrict ex)[NY] = (void *)EX, (*restrict ey)[NY] = (void *)EY, (*restrict hz)[NY] = (void *)HZ;
    for (int64_t t = 0; t < T; t++) {
        for (int64_t j = 0; j < NY; j++)
            ey[0][j] = edge[t];
        for (int64_t i = 1; i < NX; i++)
            for (int64_t j = 0; j < NY; j++)
                ey[i][j] = ey[i][j] - 0.5 * (hz[i][j] - hz[i - 1][j]);
        for (int64_t i = 0; i < NX; i++)
            for (int64_t j = 1; j < NY; j++)
                ex[i][j] = ex[i][j] - 0.5 * (hz[i][j] - hz[i][j - 1]);
        for (int64_t i = 0; i < NX - 1; i++)
            for (int64_t j = 0; j < NY - 1; j++)
                hz[i][j] = hz[i][j] - 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
    }
}

/* ey and ex at (t, t + i, t + j), hz at (t, t + i + 1, t + j + 1): all dependences point forward. Cubes, those with
 * the same sum of t and i at the same time. In a tile the sweeps
 * of a row follow one another, so that compilers vectorise them. */
void fdtd_2d_pluto(int64_t T, int64_t NX, int64_t NY, double *restrict EX, double *restrict EY, double *restrict HZ,
                   const double *restrict edge)
{
    double (*restrict ex)[NY] = (void *)EX, (*restrict ey)[NY] = (void *)EY, (*restrict hz)[NY] = (void *)HZ;
    const int64_t steps = tile_of(T - 1), rows = tile_of(T + NX - 2), columns = tile_of(T + NY - 2);
    for (int64_t w = 0; w <= steps + rows; w++) {
        #pragma omp parallel for
        for (int64_t tt = most(0, w - rows); tt <= least(steps, w); tt++) {
            const int64_t it = w - tt;
            for (int64_t jt = 0; jt <= columns; jt++)
                for (int64_t t = TILE * tt; t < least(TILE * (tt + 1), T); t++)
                    for (int64_t r = most(TILE * it, t); r < least(TILE * (it + 1), t + NX); r++) {
                        const int64_t i = r - t, from = most(TILE * jt, t) - t, to = least(TILE * (jt + 1), t + NY) - t;
                        if (i == 0)
                            for (int64_t j = from; j < to; j++)
                                ey[0][j] = edge[t];
                        else
                            for (int64_t j = from; j < to; j++)
                                ey[i][j] = ey[i][j] - 0.5 * (hz[i][j] - hz[i - 1][j]);
                        for (int64_t j = most(from, 1); j < to; j++)
                            ex[i][j] = ex[i][j] - 0.5 * (hz[i][j] - hz[i][j - 1]);
                        if (i > 0)
                            for (int64_t j = most(from, 1); j < to; j++)
                                hz[i - 1][j - 1] = hz[i - 1][j - 1]
                                    - 0.7 * (ex[i - 1][j] - ex[i - 1][j - 1] + ey[i][j - 1] - ey[i - 1][j - 1]);
                    }
        }
    }
}
