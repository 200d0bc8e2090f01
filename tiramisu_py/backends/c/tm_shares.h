/* Shares of a parallel loop with about equal costs: iteration i costs starts[i + 1] - starts[i], and one more.
 *
 * TM_SHARE(starts, extent, lower, upper, t) is the first iteration of thread t of the team, for t up to the number of
 * threads: the share of thread t ends where that of thread t + 1 begins. Starts that do not decrease are searched by
 * bisection. Where there are none for an iteration, all cost the same.
 */
#ifndef TM_SHARES_H
#define TM_SHARES_H

#include "tm_runtime.h"

#define TM_COST(i) ((int64_t)tm_starts[i] + (i))
#define TM_SHARE(starts, extent, lower, upper, t)                                                  \
  __extension__({                                                                                  \
    const __auto_type tm_starts = (starts);                                                        \
    const int64_t tm_lower = (lower), tm_upper = (upper), tm_t = (t), tm_all = tm_team();          \
    int64_t tm_low = tm_lower, tm_high = tm_upper;                                                 \
    if (tm_t <= 0 || tm_high <= tm_low) {                                                          \
      tm_high = tm_low;                                                                            \
    } else if (tm_t >= tm_all) {                                                                   \
      tm_low = tm_high;                                                                            \
    } else if (tm_lower < 0 || tm_upper >= (extent)) {                                             \
      const int64_t tm_count = tm_upper - tm_lower, tm_rest = tm_count % tm_all;                   \
      tm_low = tm_high = tm_lower + tm_count / tm_all * tm_t + (tm_t < tm_rest ? tm_t : tm_rest);  \
    } else {                                                                                       \
      const int64_t tm_cost = TM_COST(tm_upper) - TM_COST(tm_lower);                               \
      const int64_t tm_before = tm_cost / tm_all * tm_t + tm_cost % tm_all * tm_t / tm_all;        \
      while (tm_low < tm_high) {                                                                   \
        const int64_t tm_middle = tm_low + (tm_high - tm_low) / 2;                                 \
        if (TM_COST(tm_middle) - TM_COST(tm_lower) < tm_before) tm_low = tm_middle + 1;            \
        else tm_high = tm_middle;                                                                  \
      }                                                                                            \
    }                                                                                              \
    tm_low;                                                                                        \
  })

#endif
