/* Clocks that another process sets: preloaded, it adds to what the system's clocks say.

   CLOCKS names a file of two 64-bit numbers of nanoseconds: what is added to the wall clock alone, and for how long the
   machine was suspended, which is added to the wall clock and to CLOCK_BOOTTIME, but not to CLOCK_MONOTONIC. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *added;

__attribute__((constructor)) static void map(void)
{
    int file = open(getenv("CLOCKS"), O_RDONLY | O_CLOEXEC);
    void *mapped = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        abort();
    close(file);
    added = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result != 0 || added == NULL)
        return result;
    int64_t more = 0;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        more = added[0] + added[1];
    else if (clock == CLOCK_BOOTTIME)
        more = added[1];
    int64_t all = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + more;
    now->tv_sec = all / 1000000000;
    now->tv_nsec = all % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    now->tv_sec = moment.tv_sec;
    now->tv_usec = moment.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds)
{
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    if (seconds != NULL)
        *seconds = moment.tv_sec;
    return moment.tv_sec;
}
