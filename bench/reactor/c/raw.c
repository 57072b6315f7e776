/*
 * The bare system calls: epoll and one timerfd, with a callback per descriptor and nothing else.
 * This is the floor that a loop is compared with; it has no timers beyond the one alarm, so the
 * timers case does not exist here.
 */
#include "workload.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

struct watcher {
    void (*callback)(struct watcher *);
    int fd;
    int index;
};

static int epoll_fd;
static bool stopped;
static struct watcher *watchers;
static int watcher_count;

static void subject_open(void)
{
    if ((epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
        fail("epoll_create1");
}

static void dispatched(struct watcher *w) { stopped |= on_ready(w->index, WATCH_DISPATCH, w->fd); }
static void dispatched_edge(struct watcher *w) { stopped |= on_ready(w->index, WATCH_DISPATCH_EDGE, w->fd); }
static void piped(struct watcher *w) { stopped |= on_ready(w->index, WATCH_PIPE, w->fd); }

static uint32_t interest = EPOLLIN;

static void control(int operation, struct watcher *w)
{
    struct epoll_event event = {.events = interest, .data.ptr = w};
    if (epoll_ctl(epoll_fd, operation, w->fd, &event) != 0)
        fail("epoll_ctl");
}

static void subject_watch(const int *fds, int count, enum watch_kind kind)
{
    void (*callbacks[])(struct watcher *) = {dispatched, dispatched_edge, piped, piped};
    if (wants_edge(kind))
        interest |= (uint32_t)EPOLLET;
    watchers = allocate(sizeof(struct watcher) * (size_t)count);
    watcher_count = count;
    for (int i = 0; i < count; i++) {
        watchers[i] = (struct watcher){callbacks[kind], fds[i], i};
        control(EPOLL_CTL_ADD, &watchers[i]);
    }
}

static void subject_rewatch(void)
{
    for (int i = 0; i < watcher_count; i++)
        control(EPOLL_CTL_MOD, &watchers[i]);
}

static void subject_unwatch_watch(void)
{
    for (int i = 0; i < watcher_count; i++) {
        control(EPOLL_CTL_DEL, &watchers[i]);
        control(EPOLL_CTL_ADD, &watchers[i]);
    }
}

static void subject_run(void)
{
    static struct epoll_event events[1024];
    for (stopped = false; !stopped;) {
        int ready = epoll_wait(epoll_fd, events, 1024, -1);
        for (int i = 0; i < ready; i++) {
            struct watcher *w = events[i].data.ptr;
            w->callback(w);
        }
    }
}

/*
 * ---- lateness: a bare timerfd
 * -------------------------------------------------------------------------------
 */

static struct watcher alarm_clock;

static void rang(struct watcher *w)
{
    (void)w;
    fired_at_ns = monotonic_ns();
    stopped = true;
}

static void subject_timers_open(int count)
{
    (void)count;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (fd < 0)
        fail("timerfd_create");
    alarm_clock = (struct watcher){rang, fd, 0};
    interest |= (uint32_t)EPOLLET; /* edge-triggered, so that no read is needed */
    control(EPOLL_CTL_ADD, &alarm_clock);
}

static void subject_oneshot(uint64_t after_ns)
{
    struct itimerspec when = {.it_value = {(time_t)(after_ns / 1000000000u), (long)(after_ns % 1000000000u)}};
    if (timerfd_settime(alarm_clock.fd, 0, &when, NULL) != 0)
        fail("timerfd_settime");
    subject_run();
}

static void no_timers(void)
{
    errno = ENOSYS;
    fail("raw has no timer queue");
}

static void subject_timers_now(void) { no_timers(); }
static inline void subject_timer_start(int timer, uint64_t after_ns) { (void)timer, (void)after_ns, no_timers(); }
static inline void subject_timer_stop(int timer) { (void)timer, no_timers(); }
static inline void subject_timer_move(int timer, uint64_t after_ns) { (void)timer, (void)after_ns, no_timers(); }
