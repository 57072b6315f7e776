/*
 * libev, epoll backend. It has no edge-triggered mode: where others use theirs, it does the same
 * work in level mode. Changes to descriptors are applied when the loop next runs, so registration
 * cases include a turn that does not wait.
 */
#include "workload.h"

#include <ev.h>

static struct ev_loop *loop;
static ev_io *watchers;
static int watcher_count;

static void subject_open(void)
{
    if (!(loop = ev_loop_new(EVBACKEND_EPOLL)))
        fail("ev_loop_new");
}

static inline void ready(ev_io *w, enum watch_kind kind)
{
    if (on_ready((int)(w - watchers), kind, w->fd))
        ev_break(loop, EVBREAK_ONE);
}

static void dispatched(struct ev_loop *l, ev_io *w, int events) { (void)l, (void)events, ready(w, WATCH_DISPATCH); }
static void dispatched_edge(struct ev_loop *l, ev_io *w, int events) { (void)l, (void)events, ready(w, WATCH_DISPATCH_EDGE); }
static void piped(struct ev_loop *l, ev_io *w, int events) { (void)l, (void)events, ready(w, WATCH_PIPE); }

static void subject_watch(const int *fds, int count, enum watch_kind kind)
{
    void (*callbacks[])(struct ev_loop *, ev_io *, int) = {dispatched, dispatched_edge, piped, piped};
    watchers = allocate(sizeof(ev_io) * (size_t)count);
    watcher_count = count;
    for (int i = 0; i < count; i++) {
        ev_io_init(&watchers[i], callbacks[kind], fds[i], EV_READ);
        ev_io_start(loop, &watchers[i]);
    }
}

static void subject_rewatch(void)
{
    for (int i = 0; i < watcher_count; i++) {
        ev_io_stop(loop, &watchers[i]);
        ev_io_init(&watchers[i], piped, watchers[i].fd, EV_READ);
        ev_io_start(loop, &watchers[i]);
    }
    ev_run(loop, EVRUN_NOWAIT);
}

/* Stopping takes effect in the next turn, so the two halves are separate passes. */
static void subject_unwatch_watch(void)
{
    for (int i = 0; i < watcher_count; i++)
        ev_io_stop(loop, &watchers[i]);
    ev_run(loop, EVRUN_NOWAIT);
    for (int i = 0; i < watcher_count; i++) {
        ev_io_set(&watchers[i], watchers[i].fd, EV_READ);
        ev_io_start(loop, &watchers[i]);
    }
    ev_run(loop, EVRUN_NOWAIT);
}

static void subject_run(void) { ev_run(loop, 0); }

/*
 * ---- timers
 * -------------------------------------------------------------------------------------------------
 */

static ev_timer *timers;

static void expired(struct ev_loop *l, ev_timer *t, int events)
{
    (void)l, (void)t, (void)events;
    if (on_timer())
        ev_break(loop, EVBREAK_ONE);
}

static void subject_timers_open(int count)
{
    timers = allocate(sizeof(ev_timer) * (size_t)count);
    for (int i = 0; i < count; i++)
        ev_timer_init(&timers[i], expired, 0., 0.);
}

static void subject_timers_now(void) { ev_now_update(loop); }

static inline void subject_timer_start(int timer, uint64_t after_ns)
{
    ev_timer_set(&timers[timer], (double)after_ns * 1e-9, 0.);
    ev_timer_start(loop, &timers[timer]);
}

static inline void subject_timer_stop(int timer) { ev_timer_stop(loop, &timers[timer]); }

/* ev_timer_again is the documented cheap way: it moves the timer in place, by its repeat value. */
static inline void subject_timer_move(int timer, uint64_t after_ns)
{
    timers[timer].repeat = (double)after_ns * 1e-9;
    ev_timer_again(loop, &timers[timer]);
}

static void rang(struct ev_loop *l, ev_timer *t, int events)
{
    (void)t, (void)events;
    fired_at_ns = monotonic_ns();
    ev_break(l, EVBREAK_ONE);
}

static void subject_oneshot(uint64_t after_ns)
{
    ev_now_update(loop);
    ev_timer_init(&timers[0], rang, (double)after_ns * 1e-9, 0.);
    ev_timer_start(loop, &timers[0]);
    ev_run(loop, 0);
}
