/*
 * libuv's uv_poll_t and uv_timer_t. Level-triggered only: where others use an edge-triggered mode,
 * it does the same work in level mode. Timers have whole milliseconds; a request in between is
 * rounded up, as its users must. Changes to descriptors are applied when the loop next polls, so
 * registration cases include a turn that does not wait.
 */
#include "workload.h"

#include <uv.h>

static uv_loop_t loop;
static uv_poll_t *watchers;
static int watcher_count;
static const int *watched_fds;
static uv_poll_cb watch_callback;

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, uv_strerror(result));
        exit(1);
    }
}

static void subject_open(void) { check(uv_loop_init(&loop), "uv_loop_init"); }

static inline void ready(uv_poll_t *w, enum watch_kind kind)
{
    int index = (int)(w - watchers);
    if (on_ready(index, kind, watched_fds[index]))
        uv_stop(&loop);
}

static void dispatched(uv_poll_t *w, int status, int events) { (void)status, (void)events, ready(w, WATCH_DISPATCH); }
static void dispatched_edge(uv_poll_t *w, int status, int events) { (void)status, (void)events, ready(w, WATCH_DISPATCH_EDGE); }
static void piped(uv_poll_t *w, int status, int events) { (void)status, (void)events, ready(w, WATCH_PIPE); }

static void subject_watch(const int *fds, int count, enum watch_kind kind)
{
    uv_poll_cb callbacks[] = {dispatched, dispatched_edge, piped, piped};
    watch_callback = callbacks[kind];
    watched_fds = fds;
    watchers = allocate(sizeof(uv_poll_t) * (size_t)count);
    watcher_count = count;
    for (int i = 0; i < count; i++) {
        check(uv_poll_init(&loop, &watchers[i], fds[i]), "uv_poll_init");
        check(uv_poll_start(&watchers[i], UV_READABLE, watch_callback), "uv_poll_start");
    }
}

static void subject_rewatch(void)
{
    for (int i = 0; i < watcher_count; i++)
        uv_poll_start(&watchers[i], UV_READABLE, watch_callback);
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void subject_unwatch_watch(void)
{
    for (int i = 0; i < watcher_count; i++) {
        uv_poll_stop(&watchers[i]);
        uv_poll_start(&watchers[i], UV_READABLE, watch_callback);
    }
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void subject_run(void) { uv_run(&loop, UV_RUN_DEFAULT); }

/*
 * ---- timers
 * -------------------------------------------------------------------------------------------------
 */

static uv_timer_t *timers;

static void expired(uv_timer_t *t)
{
    (void)t;
    if (on_timer())
        uv_stop(&loop);
}

static void subject_timers_open(int count)
{
    timers = allocate(sizeof(uv_timer_t) * (size_t)count);
    for (int i = 0; i < count; i++)
        check(uv_timer_init(&loop, &timers[i]), "uv_timer_init");
}

static void subject_timers_now(void) { uv_update_time(&loop); }

static inline uint64_t milliseconds(uint64_t ns) { return (ns + 999999u) / 1000000u; }

static inline void subject_timer_start(int timer, uint64_t after_ns)
{
    uv_timer_start(&timers[timer], expired, milliseconds(after_ns), 0);
}

static inline void subject_timer_stop(int timer) { uv_timer_stop(&timers[timer]); }
static inline void subject_timer_move(int timer, uint64_t after_ns) { subject_timer_start(timer, after_ns); }

static void rang(uv_timer_t *t)
{
    (void)t;
    fired_at_ns = monotonic_ns();
    uv_stop(&loop);
}

static void subject_oneshot(uint64_t after_ns)
{
    uv_update_time(&loop);
    uv_timer_start(&timers[0], rang, milliseconds(after_ns), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
}
