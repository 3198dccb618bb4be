/*
 * Kernels that wait for kernels elsewhere: collectives, whose partners are on other devices, in
 * other containers or on other machines, each under a limit of its own that nobody here knows.
 *
 * One that begins before its partners waits for them on the device, which is busy all the
 * while. If its process paid for that at once, by being held for (1 - p) / p times as long, the
 * partners would wait that long in their turn; below 50 % each wait would be longer than the one
 * before, and the programs would stand still within seconds. So the time that such a kernel takes
 * beyond its usual is late: it is debited, but paid little by little, by a part more of whatever
 * is debited from then on. Partners that are late alike are held alike, and meet.
 *
 * The part is larger the more there is, so that in the long run the limit holds, whether it was
 * a wait or longer work. There is never more than LATE_MOST_NS: who waited for minutes while a
 * partner started pays for seconds. While a process is awaited (pace_await()) all that such kernels
 * take is late, since others are held up for its sake; what is beyond LATE_MOST_NS of their usual
 * time is paid at once.
 */
#pragma once

#include "core/pace.h"

#define LATE_MOST_NS INT64_C(4000000000)

/*
 * Work that was predicted to take cost_ns took busy_ns, which have been debited; may_wait: a part
 * of that may be a wait. Returns how much of it is to be given back, as nobody pays for it. A
 * caller at a time for each process.
 */
int64_t late_settle(struct pace *pace, int64_t busy_ns, int64_t cost_ns, bool may_wait);
