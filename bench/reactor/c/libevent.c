/*
 * libevent with its shipped defaults. An event that is added again while added keeps its
 * registration, so watching again is event_del and event_add, both at once in the kernel. Timers
 * have microseconds and, by default, a coarse clock.
 */
#include "workload.h"

#include <event2/event.h>
#include <event2/event_struct.h>

static struct event_base *base;
static struct event *watchers;
static int watcher_count;

static void subject_open(void)
{
    if (!(base = event_base_new()))
        fail("event_base_new");
    if (strcmp(event_base_get_method(base), "epoll") != 0)
        fail("libevent chose %s instead of epoll", event_base_get_method(base));
}

static inline void ready(evutil_socket_t fd, void *w, enum watch_kind kind)
{
    if (on_ready((int)((struct event *)w - watchers), kind, fd))
        event_base_loopbreak(base);
}

static void dispatched(evutil_socket_t fd, short events, void *w) { (void)events, ready(fd, w, WATCH_DISPATCH); }
static void dispatched_edge(evutil_socket_t fd, short events, void *w) { (void)events, ready(fd, w, WATCH_DISPATCH_EDGE); }
static void piped(evutil_socket_t fd, short events, void *w) { (void)events, ready(fd, w, WATCH_PIPE); }

static void subject_watch(const int *fds, int count, enum watch_kind kind)
{
    event_callback_fn callbacks[] = {dispatched, dispatched_edge, piped, piped};
    short mode = (short)(EV_READ | EV_PERSIST | (wants_edge(kind) ? EV_ET : 0));
    watchers = allocate(sizeof(struct event) * (size_t)count);
    watcher_count = count;
    for (int i = 0; i < count; i++) {
        event_assign(&watchers[i], base, fds[i], mode, callbacks[kind], &watchers[i]);
        if (event_add(&watchers[i], NULL) != 0)
            fail("event_add");
    }
}

static void subject_rewatch(void)
{
    for (int i = 0; i < watcher_count; i++) {
        event_del(&watchers[i]);
        event_assign(&watchers[i], base, event_get_fd(&watchers[i]), EV_READ | EV_PERSIST, piped, &watchers[i]);
        event_add(&watchers[i], NULL);
    }
}

static void subject_unwatch_watch(void)
{
    for (int i = 0; i < watcher_count; i++) {
        event_del(&watchers[i]);
        event_add(&watchers[i], NULL);
    }
}

static void subject_run(void) { event_base_loop(base, 0); }

/*
 * ---- timers
 * -------------------------------------------------------------------------------------------------
 */

static struct event *timers;

static void expired(evutil_socket_t fd, short events, void *unused)
{
    (void)fd, (void)events, (void)unused;
    if (on_timer())
        event_base_loopbreak(base);
}

static void rang(evutil_socket_t fd, short events, void *unused)
{
    (void)fd, (void)events, (void)unused;
    fired_at_ns = monotonic_ns();
    event_base_loopbreak(base);
}

static void subject_timers_open(int count)
{
    timers = allocate(sizeof(struct event) * (size_t)count);
    for (int i = 0; i < count; i++)
        evtimer_assign(&timers[i], base, count == 1 ? rang : expired, NULL);
}

static void subject_timers_now(void) { event_base_update_cache_time(base); }

static inline void subject_timer_start(int timer, uint64_t after_ns)
{
    struct timeval after = {(time_t)(after_ns / 1000000000u), (suseconds_t)(after_ns % 1000000000u / 1000u)};
    event_add(&timers[timer], &after);
}

static inline void subject_timer_stop(int timer) { event_del(&timers[timer]); }
static inline void subject_timer_move(int timer, uint64_t after_ns) { subject_timer_start(timer, after_ns); }

static void subject_oneshot(uint64_t after_ns)
{
    subject_timer_start(0, after_ns);
    event_base_loop(base, 0);
}
