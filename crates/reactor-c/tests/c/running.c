/* Polling, running, stopping, and what a callback may do to its own reactor. */
#include "english.h"

static void poll_waits_as_long_as_it_is_told(int backend)
{
    int64_t start;
    ms_reactor *reactor = new_reactor(backend);
    CHECK(ms_reactor_poll(reactor, 0) == 0 && ms_reactor_poll_ns(reactor, 0) == 0, "not at all");
    start = monotonic_ns();
    CHECK(ms_reactor_poll(reactor, 10) == 0, "milliseconds");
    CHECK(monotonic_ns() - start >= 10 * MS_REACTOR_MILLISECOND, "not less");
    start = monotonic_ns();
    CHECK(ms_reactor_poll_ns(reactor, 700 * MS_REACTOR_MICROSECOND) == 0, "nanoseconds");
    CHECK(monotonic_ns() - start >= 700 * MS_REACTOR_MICROSECOND, "not less");
    ms_reactor_destroy(reactor);
}

static void poll_returns_how_many_callbacks_ran(int backend)
{
    int ends[2], calls = 0;
    struct seen seen = {0};
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    write_byte(ends[1]);
    OK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_ready, &seen, NULL));
    OK(ms_reactor_after(reactor, 0, on_timer, &calls, NULL));
    OK(ms_reactor_defer(reactor, on_call, &calls));
    CHECK(ms_reactor_poll(reactor, -1) == 3 && seen.calls == 1 && calls == 2, "three");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void run_goes_on_until_it_is_stopped(int backend)
{
    int ticks = 0;
    ms_reactor *reactor = new_reactor(backend);
    OK(ms_reactor_every(reactor, MS_REACTOR_MILLISECOND, on_timer, &ticks, NULL));
    OK(ms_reactor_after(reactor, 10 * MS_REACTOR_MILLISECOND, on_timer_stop, NULL, NULL));
    OK(ms_reactor_run(reactor));
    CHECK(ticks >= 1 && ms_reactor_is_running(reactor) == 0, "stopped");
    ms_reactor_destroy(reactor);
}

static void a_stop_before_a_run_is_not_lost(int backend)
{
    int calls = 0;
    ms_reactor *reactor = new_reactor(backend);
    OK(ms_reactor_defer(reactor, on_call, &calls));
    OK(ms_reactor_stop(reactor));
    OK(ms_reactor_run(reactor));
    CHECK(calls == 1, "one turn was made");
    OK(ms_reactor_stop(reactor));
    OK(ms_reactor_stop(reactor));
    OK(ms_reactor_run_until_idle(reactor));
    OK(ms_reactor_defer(reactor, on_call_stop, NULL));
    OK(ms_reactor_run(reactor));
    ms_reactor_destroy(reactor);
}

static void run_until_idle_ends_when_nothing_is_left(int backend)
{
    int ends[2], ticks = 0;
    struct seen seen = {0};
    ms_reactor *reactor = new_reactor(backend);
    OK(ms_reactor_run_until_idle(reactor));
    make_pipe(ends);
    write_byte(ends[1]);
    OK(ms_reactor_after(reactor, MS_REACTOR_MILLISECOND, on_timer, &ticks, NULL));
    OK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_ONESHOT, on_ready, &seen, NULL));
    OK(ms_reactor_run_until_idle(reactor));
    CHECK(ticks == 1 && seen.calls == 1, "after the timer and the one report");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void on_call_reenter(ms_reactor *reactor, void *data)
{
    ++*(int *)data;
    CHECK(ms_reactor_is_running(reactor) == 1, "running");
    CHECK(ms_reactor_poll(reactor, 0) == MS_REACTOR_ERROR_REENTRANT, "poll");
    CHECK(ms_reactor_poll_ns(reactor, -1) == MS_REACTOR_ERROR_REENTRANT, "poll for ever");
    CHECK(ms_reactor_run(reactor) == MS_REACTOR_ERROR_REENTRANT, "run");
    CHECK(ms_reactor_run_until_idle(reactor) == MS_REACTOR_ERROR_REENTRANT, "run until idle");
    CHECK(ms_reactor_is_running(reactor) == 1, "still running");
    ms_reactor_stop(reactor);
}

static void polling_or_running_from_a_callback_is_an_error(int backend)
{
    int calls = 0;
    ms_reactor *reactor = new_reactor(backend);
    OK(ms_reactor_defer(reactor, on_call_reenter, &calls));
    OK(ms_reactor_run(reactor));
    CHECK(calls == 1 && ms_reactor_poll(reactor, 0) == 0, "and all is well afterwards");
    ms_reactor_destroy(reactor);
}

static void on_call_poll_another(ms_reactor *reactor, void *data)
{
    (void)reactor;
    CHECK(ms_reactor_poll(data, -1) == 1, "another reactor may be polled");
}

static void another_reactor_may_be_polled_from_a_callback(int backend)
{
    int calls = 0;
    ms_reactor *outer = new_reactor(backend), *inner = new_reactor(backend);
    OK(ms_reactor_defer(inner, on_call, &calls));
    OK(ms_reactor_defer(outer, on_call_poll_another, inner));
    CHECK(ms_reactor_poll(outer, -1) == 1 && calls == 1, "both ran");
    ms_reactor_destroy(outer);
    ms_reactor_destroy(inner);
}

static void destroy_it(ms_reactor *reactor)
{
    OK(ms_reactor_destroy(reactor));
    CHECK(ms_reactor_watcher_count(reactor) == MS_REACTOR_ERROR_BAD_REACTOR, "dead at once");
    CHECK(ms_reactor_destroy(reactor) == MS_REACTOR_ERROR_BAD_REACTOR, "once");
}

static int destroyed_by;

static void on_ready_destroy(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    (void)watcher;
    (void)fd;
    (void)readiness;
    (void)data;
    destroyed_by++;
    destroy_it(reactor);
}

static void on_timer_destroy(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    (void)timer;
    (void)missed;
    (void)data;
    destroyed_by++;
    destroy_it(reactor);
}

static void on_call_destroy(ms_reactor *reactor, void *data)
{
    (void)data;
    destroyed_by++;
    destroy_it(reactor);
}

static void destroying_in_a_descriptor_callback_makes_it_the_last_one(int backend)
{
    int first[2], second[2], before = open_descriptors(), calls = 0;
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(first);
    make_pipe(second);
    write_byte(first[1]);
    write_byte(second[1]);
    destroyed_by = 0;
    OK(ms_reactor_watch(reactor, first[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_ready_destroy, NULL, NULL));
    OK(ms_reactor_watch(reactor, second[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_ready_destroy, NULL, NULL));
    OK(ms_reactor_after(reactor, 0, on_timer, &calls, NULL));
    OK(ms_reactor_defer(reactor, on_call, &calls));
    CHECK(ms_reactor_poll(reactor, -1) == 1, "the poll returns");
    CHECK(destroyed_by == 1 && calls == 0, "nothing ran after it, although all were due");
    close_both(first);
    close_both(second);
    CHECK(open_descriptors() == before, "nothing is left open");
}

static void destroying_in_any_callback_ends_the_run(int backend)
{
    int kind, ends[2], before = open_descriptors();
    ms_reactor_wakeup wakeup;
    for (kind = 0; kind < 6; kind++) {
        ms_reactor *reactor = new_reactor(backend);
        destroyed_by = 0;
        make_pipe(ends);
        write_byte(ends[1]);
        switch (kind) {
        case 0: OK(ms_reactor_watch(reactor, ends[0], 1, 0, on_ready_destroy, NULL, NULL)); break;
        case 1: OK(ms_reactor_after(reactor, 0, on_timer_destroy, NULL, NULL)); break;
        case 2: OK(ms_reactor_every(reactor, 1, on_timer_destroy, NULL, NULL)); break;
        case 3: OK(ms_reactor_defer(reactor, on_call_destroy, NULL)); break;
        case 4: OK(ms_reactor_call(reactor, on_call_destroy, NULL)); break;
        default:
            OK(ms_reactor_wakeup_create(reactor, on_call_destroy, NULL, &wakeup));
            OK(ms_reactor_wakeup_signal(wakeup));
        }
        OK(ms_reactor_run(reactor));
        CHECK(destroyed_by == 1, "once");
        CHECK(ms_reactor_run(reactor) == MS_REACTOR_ERROR_BAD_REACTOR, "and it is gone");
        close_both(ends);
    }
    CHECK(open_descriptors() == before, "nothing is left open");
}

static char order[8];

static void on_call_append(ms_reactor *reactor, void *data)
{
    (void)reactor;
    strcat(order, data);
}

static void on_call_append_and_defer(ms_reactor *reactor, void *data)
{
    static char later[] = "z";
    on_call_append(reactor, data);
    OK(ms_reactor_defer(reactor, on_call_append, later));
}

static void deferred_calls_run_in_order_and_never_inline(int backend)
{
    static char first[] = "a", second[] = "b";
    ms_reactor *reactor = new_reactor(backend);
    order[0] = 0;
    OK(ms_reactor_defer(reactor, on_call_append_and_defer, first));
    OK(ms_reactor_defer(reactor, on_call_append, second));
    CHECK(order[0] == 0, "not inline");
    CHECK(ms_reactor_poll(reactor, -1) == 2 && strcmp(order, "ab") == 0, "in order");
    CHECK(ms_reactor_poll(reactor, -1) == 1 && strcmp(order, "abz") == 0, "what they defer waits a turn");
    ms_reactor_destroy(reactor);
}

static void a_signal_handler_does_not_end_the_wait(int backend)
{
    struct interruptions interruptions;
    int64_t start;
    int seen_before = interruptions_seen;
    ms_reactor *reactor = new_reactor(backend);
    begin_interruptions(&interruptions);
    do {
        start = monotonic_ns();
        CHECK(ms_reactor_poll(reactor, 20) == 0, "nothing happens");
        CHECK(monotonic_ns() - start >= 20 * MS_REACTOR_MILLISECOND, "for as long as was asked");
    } while (interruptions_seen < seen_before + 3);
    end_interruptions(&interruptions);
    ms_reactor_destroy(reactor);
}

#define CROWD 500

static int crowd_fds[CROWD], crowd_peers[CROWD], crowd_calls;

static void on_ready_close_others(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    int index, closed = 0;
    (void)watcher;
    (void)readiness;
    CHECK(*(int *)data == fd, "nobody is called after being closed");
    crowd_calls++;
    drain(fd);
    for (index = 0; index < CROWD && closed < 3; index++) {
        if (crowd_fds[index] >= 0 && crowd_fds[index] != fd) {
            CHECK(ms_reactor_unwatch(reactor, ms_reactor_watcher_of(reactor, crowd_fds[index])) == 1, "there");
            close(crowd_fds[index]);
            close(crowd_peers[index]);
            crowd_fds[index] = -1;
            closed++;
        }
    }
}

static void callbacks_may_close_a_crowd_of_others(int backend)
{
    int index, ends[2], left = 0, polls;
    ms_reactor *reactor = new_reactor(backend);
    crowd_calls = 0;
    for (index = 0; index < CROWD; index++) {
        make_sockets(ends);
        crowd_fds[index] = ends[0];
        crowd_peers[index] = ends[1];
        write_byte(ends[1]);
        OK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_ready_close_others,
                            &crowd_fds[index], NULL));
    }
    for (polls = 0; polls < 5; polls++)
        CHECK(ms_reactor_poll(reactor, 0) >= 0, "a turn");
    for (index = 0; index < CROWD; index++)
        left += crowd_fds[index] >= 0;
    CHECK(ms_reactor_watcher_count(reactor) == left, "the count is right");
    CHECK(crowd_calls > 0 && left < CROWD, "some were called, and some were closed");
    ms_reactor_destroy(reactor);
    for (index = 0; index < CROWD; index++) {
        if (crowd_fds[index] >= 0) {
            close(crowd_fds[index]);
            close(crowd_peers[index]);
        }
    }
}

int main(void)
{
    allow_descriptors(2 * CROWD + 64);
    RUN_ON_BOTH(poll_waits_as_long_as_it_is_told);
    RUN_ON_BOTH(poll_returns_how_many_callbacks_ran);
    RUN_ON_BOTH(run_goes_on_until_it_is_stopped);
    RUN_ON_BOTH(a_stop_before_a_run_is_not_lost);
    RUN_ON_BOTH(run_until_idle_ends_when_nothing_is_left);
    RUN_ON_BOTH(polling_or_running_from_a_callback_is_an_error);
    RUN_ON_BOTH(another_reactor_may_be_polled_from_a_callback);
    RUN_ON_BOTH(destroying_in_a_descriptor_callback_makes_it_the_last_one);
    RUN_ON_BOTH(destroying_in_any_callback_ends_the_run);
    RUN_ON_BOTH(deferred_calls_run_in_order_and_never_inline);
    RUN_ON_BOTH(a_signal_handler_does_not_end_the_wait);
    RUN_ON_BOTH(callbacks_may_close_a_crowd_of_others);
    return 0;
}
