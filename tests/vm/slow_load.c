/* What runs in the guest of record_slow.py, as an emulated processor is slow: one static program.
 *
 *   slow_load sample OUTPUT            every second the counters of the disks, and '/run/mark'
 *   slow_load MODE FILE SEED TASKS PAUSE_MS READ_PERCENT KIB...
 *
 * Modes: random (direct), stream (direct, one after the other), buffered (random, written back by
 * the kernel), commit (appends, each with fdatasync). Each task waits for its request, then for a
 * random time (exponential, PAUSE_MS on average); the size is one of KIB. Runs until killed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include <linux/fs.h>

static uint64_t state;

static double uniform(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((state >> 11) + 1) / 9007199254740993.0;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void wait_for(double seconds) {
    struct timespec time = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};
    nanosleep(&time, NULL);
}

static void sample(const char *name) {
    static char text[65536], line[256];
    int output = open(name, O_WRONLY), counters = open("/proc/diskstats", O_RDONLY);
    struct timespec next;
    if (output < 0 || counters < 0) fail(name);
    for (clock_gettime(CLOCK_MONOTONIC, &next);; next.tv_sec++) {
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        size_t used = 0;
        FILE *mark = fopen("/run/mark", "r");
        if (mark) {
            unlink("/run/mark");
            while (fgets(line, sizeof line, mark)) used += sprintf(text + used, "# %s", line);
            fclose(mark);
        }
        used += sprintf(text + used, "%ld\n", (long)next.tv_sec);
        ssize_t got = pread(counters, text + used, sizeof text - used, 0);
        if (got < 0 || write(output, text, used + got) < 0) fail(name);
    }
}

static void load(char **arguments, int count) {
    const char *mode = arguments[0], *name = arguments[1];
    int tasks = atoi(arguments[3]), sizes = count - 6, number = 0;
    double pause = atof(arguments[4]) / 1000, reads = atof(arguments[5]) / 100;
    int buffered = !strcmp(mode, "buffered"), commit = !strcmp(mode, "commit");
    int onward = commit || !strcmp(mode, "stream");
    for (; number < tasks - 1; number++) {
        if (fork()) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        break;
    }
    state = (strtoull(arguments[2], NULL, 10) * 1000 + number + 1) * 0x9e3779b97f4a7c15u;
    int file = open(name, O_RDWR | (buffered ? 0 : O_DIRECT));
    uint64_t end, at;
    void *data;
    if (file < 0 || ioctl(file, BLKGETSIZE64, &end)) fail(name);
    if (posix_memalign(&data, 4096, 1 << 20)) fail("memory");
    memset(data, number, 1 << 20);
    end -= 1 << 20;
    for (at = (uint64_t)(uniform() * end) & ~4095ull;;) {
        size_t size = atoi(arguments[6 + (int)(uniform() * sizes) % sizes]) * 1024;
        if (!onward) at = (uint64_t)(uniform() * end) & ~4095ull;
        ssize_t done = uniform() < reads ? pread(file, data, size, at) : pwrite(file, data, size, at);
        if (done != (ssize_t)size) fail(name);
        if (commit && fdatasync(file)) fail(name);
        if ((at += size) >= end) at = 0;
        if (pause > 0) wait_for(-log(uniform()) * pause);
    }
}

int main(int count, char **arguments) {
    if (count == 3) sample(arguments[2]);
    if (count < 8) return 2;
    load(arguments + 1, count - 1);
}
