/* Preloaded below a program: lets the n-th operation on files below a directory fail, or kills the
   process in it. Source: ld.so(8), LD_PRELOAD; dlsym(3), RTLD_NEXT.

   An error of reading is EIO only; a file system that is full or read-only can still be read. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 1024

static const char *directory = "";
static long at, count;
static int failure, for_good;
static unsigned char ours[FILES];

/* `error` 0: SIGKILL. Counted from 1; at 0 nothing fails and all is counted. */
void faults_set(const char *below, long number, int error, int lasts)
{
    directory = strdup(below);
    at = number;
    failure = error;
    for_good = lasts;
    count = 0;
}

long faults_count(void)
{
    return count;
}

static int below(const char *path)
{
    size_t length = strlen(directory);
    return length > 0 && strncmp(path, directory, length) == 0;
}

static int is_ours(int descriptor)
{
    return descriptor >= 0 && descriptor < FILES && ours[descriptor];
}

static int due(int reads)
{
    if (reads && failure != EIO)
        return 0;
    count++;
    return count == at || (for_good && at > 0 && count > at);
}

static int fails(int reads)
{
    if (!due(reads))
        return 0;
    if (failure == 0)
        kill(getpid(), SIGKILL);
    errno = failure;
    return 1;
}

#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        NEXT(name);                                                                                \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                    \
        va_end(rest);                                                                              \
        if (!below(path))                                                                          \
            return next(path, flags, mode);                                                        \
        if (fails((flags & (O_ACCMODE | O_CREAT)) == O_RDONLY))                                    \
            return -1;                                                                             \
        int descriptor = next(path, flags, mode);                                                  \
        if (descriptor >= 0 && descriptor < FILES)                                                 \
            ours[descriptor] = 1;                                                                  \
        return descriptor;                                                                         \
    }
OPEN(open)
OPEN(open64)

int close(int descriptor)
{
    NEXT(close);
    if (is_ours(descriptor))
        ours[descriptor] = 0;
    return next(descriptor);
}

#define READ(name, offset_type)                                                                    \
    ssize_t name(int descriptor, void *data, size_t size, offset_type offset)                      \
    {                                                                                              \
        NEXT(name);                                                                                \
        return is_ours(descriptor) && fails(1) ? -1 : next(descriptor, data, size, offset);        \
    }
READ(pread, off_t)
READ(pread64, off64_t)

/* A kill leaves half of what was to be written. */
#define WRITE(name, offset_type)                                                                   \
    ssize_t name(int descriptor, const void *data, size_t size, offset_type offset)                \
    {                                                                                              \
        NEXT(name);                                                                                \
        if (is_ours(descriptor) && failure == 0 && count + 1 == at)                                \
            next(descriptor, data, size / 2, offset);                                              \
        return is_ours(descriptor) && fails(0) ? -1 : next(descriptor, data, size, offset);        \
    }
WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)

/* A kill is no power cut: what a file holds is there without waiting for the disk. */
#define SYNC(name)                                                                                 \
    int name(int descriptor)                                                                       \
    {                                                                                              \
        return is_ours(descriptor) && fails(0) ? -1 : 0;                                           \
    }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name, offset_type)                                                                \
    int name(int descriptor, offset_type size)                                                     \
    {                                                                                              \
        NEXT(name);                                                                                \
        return is_ours(descriptor) && fails(0) ? -1 : next(descriptor, size);                      \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int unlink(const char *path)
{
    NEXT(unlink);
    return below(path) && fails(0) ? -1 : next(path);
}

int rename(const char *from, const char *to)
{
    NEXT(rename);
    return below(from) && fails(0) ? -1 : next(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    NEXT(mkdir);
    return below(path) && fails(0) ? -1 : next(path, mode);
}
