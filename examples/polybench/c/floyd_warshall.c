/* All shortest paths, in place. */
#include "bounds.h"

void floyd_warshall_plain(int64_t N, int32_t *restrict paths)
{
    int32_t (*restrict d)[N] = (void *)paths;
    for (int64_t k = 0; k < N; k++)
        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < N; j++)
                d[i][j] = d[i][j] < d[i][k] + d[k][j] ? d[i][j] : d[i][k] + d[k][j];
}

/* No skew makes dependences between different k point forward in i and j. Within a k they do: squares, those with the
 * same sum of i and j at the same time. */
void floyd_warshall_pluto(int64_t N, int32_t *restrict paths)
{
    int32_t (*restrict d)[N] = (void *)paths;
    const int64_t last = tile_of(N - 1);
    for (int64_t k = 0; k < N; k++)
        for (int64_t w = 0; w <= 2 * last; w++) {
            #pragma omp parallel for
            for (int64_t it = most(0, w - last); it <= least(w, last); it++)
                for (int64_t i = TILE * it; i < least(TILE * (it + 1), N); i++)
                    for (int64_t j = TILE * (w - it); j < least(TILE * (w - it + 1), N); j++)
                        d[i][j] = d[i][j] < d[i][k] + d[k][j] ? d[i][j] : d[i][k] + d[k][j];
        }
}
