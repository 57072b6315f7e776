/*
 * What every C test shares: checks with messages, descriptors to watch, and the time.
 *
 * A test is a function whose name is a sentence; main runs it with RUN. A check that does not hold
 * ends the process. A process that hangs is ended by an alarm.
 */
#ifndef CHECK_H
#define CHECK_H

#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Long enough for a slow machine under valgrind. */
#define HANG_SECONDS 300

static const char *running_test = "";

static void fail(const char *file, int line, const char *condition, const char *message)
{
    fprintf(stderr, "%s:%d: in %s: %s (%s)\n", file, line, running_test, message, condition);
    exit(1);
}

#define CHECK(condition, message) ((condition) ? (void)0 : fail(__FILE__, __LINE__, #condition, message))

#define RUN(test)                    \
    do {                             \
        running_test = #test;        \
        alarm(HANG_SECONDS);         \
        test();                      \
        printf("ok %s\n", #test);    \
        fflush(stdout);              \
    } while (0)

#ifdef __GNUC__
#define UNUSED __attribute__((unused))
#else
#define UNUSED
#endif

/* A pipe that does not block. */
UNUSED static void make_pipe(int ends[2])
{
    CHECK(pipe(ends) == 0, "a pipe");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
}

/* Two connected sockets that do not block. */
UNUSED static void make_sockets(int ends[2])
{
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "a socket pair");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
}

UNUSED static void close_both(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

/* Makes the other end readable. */
UNUSED static void write_byte(int fd)
{
    CHECK(write(fd, "x", 1) == 1, "room for a byte");
}

/* Reads all there is. Returns how many bytes that was. */
UNUSED static int drain(int fd)
{
    char buffer[256];
    int total = 0;
    ssize_t count;
    while ((count = read(fd, buffer, sizeof buffer)) > 0)
        total += (int)count;
    return total;
}

/* Nanoseconds of the monotonic clock. */
UNUSED static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* How many descriptors this process has open. */
UNUSED static int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL, "/proc/self/fd");
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* Lets this process have as many descriptors as a test needs. */
UNUSED static void allow_descriptors(int needed)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit of descriptors");
    if (limit.rlim_cur < (rlim_t)needed) {
        CHECK(limit.rlim_max >= (rlim_t)needed, "a hard limit of enough descriptors (ulimit -Hn)");
        limit.rlim_cur = (rlim_t)needed;
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "a higher limit of descriptors");
    }
}

/* Interrupts a thread every millisecond until it is told that this is enough. */
struct interruptions {
    pthread_t target;
    pthread_t thread;
    volatile int enough;
};

static volatile sig_atomic_t interruptions_seen;

UNUSED static void on_interruption(int signal_number)
{
    (void)signal_number;
    interruptions_seen++;
}

UNUSED static void *interrupt_again_and_again(void *data)
{
    struct interruptions *interruptions = data;
    struct timespec pause_between = {0, 1000000};
    while (!interruptions->enough) {
        pthread_kill(interruptions->target, SIGUSR1);
        nanosleep(&pause_between, NULL);
    }
    return NULL;
}

UNUSED static void begin_interruptions(struct interruptions *interruptions)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interruption;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "a signal handler");
    interruptions->target = pthread_self();
    interruptions->enough = 0;
    CHECK(pthread_create(&interruptions->thread, NULL, interrupt_again_and_again, interruptions) == 0, "a thread");
}

/* The handler stays: a signal may still be on its way. */
UNUSED static void end_interruptions(struct interruptions *interruptions)
{
    interruptions->enough = 1;
    pthread_join(interruptions->thread, NULL);
}

#endif
