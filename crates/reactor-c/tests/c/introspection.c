/* Counters, timing, labels, stalls, and embedding in another loop. */
#include "english.h"

#include <poll.h>

static void counters_count(int backend)
{
    int ends[2], ticks = 0;
    struct seen seen = {0};
    ms_reactor_stats stats;
    ms_reactor *reactor = new_reactor(backend);
    OK(ms_reactor_get_stats(reactor, &stats, sizeof stats));
    CHECK(stats.turns == 0 && stats.callbacks == 0 && stats.events == 0, "from zero");
    make_pipe(ends);
    write_byte(ends[1]);
    OK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_ready, &seen, NULL));
    OK(ms_reactor_after(reactor, 0, on_timer, &ticks, NULL));
    OK(ms_reactor_wake(reactor));
    CHECK(ms_reactor_poll(reactor, 0) == 2, "a turn");
    OK(ms_reactor_get_stats(reactor, &stats, sizeof stats));
    CHECK(stats.turns == 1 && stats.callbacks == 2 && stats.timers == 1, "what was done");
    CHECK(stats.events >= 2 && stats.wakeups == 1, "and what came in");
    CHECK(stats.stale_events == 0 && stats.rebuilds == 0, "nothing went wrong");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void structures_of_other_versions_are_filled_as_far_as_they_go(void)
{
    struct {
        ms_reactor_stats known;
        uint64_t newer;
    } larger;
    struct {
        uint64_t turns;
        uint64_t untouched;
    } smaller = {9, 9};
    ms_reactor *reactor = new_reactor(MS_REACTOR_BACKEND_BEST);
    memset(&larger, 0xff, sizeof larger);
    OK(ms_reactor_get_stats(reactor, &larger.known, sizeof larger));
    CHECK(larger.known.rebuilds == 0 && larger.newer == 0, "what the library does not know is zero");
    OK(ms_reactor_get_stats(reactor, (ms_reactor_stats *)(void *)&smaller, sizeof smaller.turns));
    CHECK(smaller.turns == 0 && smaller.untouched == 9, "what the program does not know is left out");
    OK(ms_reactor_get_stats(reactor, (ms_reactor_stats *)(void *)&smaller, 0));
    ms_reactor_destroy(reactor);
}

/*
 * Long enough that no other callback takes longer, not even its first run under valgrind on a busy
 * machine.
 */
#define WORK (200 * MS_REACTOR_MILLISECOND)

static void on_timer_work(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    int64_t until = monotonic_ns() + WORK;
    on_timer(reactor, timer, missed, data);
    while (monotonic_ns() < until) {
    }
}

static void timing_names_the_slowest_callback(int backend)
{
    int ticks = 0;
    ms_reactor_timer slow;
    ms_reactor_timing timing;
    char long_label[100];
    ms_reactor *reactor = new_reactor(backend);
    CHECK(ms_reactor_get_timing(reactor, &timing, sizeof timing) == 0, "off");
    OK(ms_reactor_set_timing(reactor, 1));
    OK(ms_reactor_after(reactor, 0, on_timer, &ticks, NULL));
    OK(ms_reactor_after(reactor, MS_REACTOR_MILLISECOND, on_timer_work, &ticks, &slow));
    OK(ms_reactor_label_timer(reactor, slow, "the slow one"));
    OK(ms_reactor_run_until_idle(reactor));
    CHECK(ms_reactor_poll(reactor, 0) == 0, "the next wait closes the account");
    CHECK(ms_reactor_get_timing(reactor, &timing, sizeof timing) == 1, "on");
    CHECK(timing.slowest_ns >= (uint64_t)WORK && strcmp(timing.slowest_label, "the slow one") == 0, "by its label");
    CHECK(timing.busy_ns >= (uint64_t)WORK && timing.idle_ns > 0, "busy and idle");
    CHECK(timing.lag_max_ns >= timing.lag_last_ns, "lag");
    memset(long_label, 'x', sizeof long_label - 1);
    long_label[99] = 0;
    OK(ms_reactor_set_timing(reactor, 1));
    OK(ms_reactor_after(reactor, 0, on_timer_work, &ticks, &slow));
    OK(ms_reactor_label_timer(reactor, slow, long_label));
    OK(ms_reactor_run_until_idle(reactor));
    CHECK(ms_reactor_get_timing(reactor, &timing, sizeof timing) == 1, "on");
    CHECK(strlen(timing.slowest_label) == MS_REACTOR_LABEL_SIZE - 1, "a long label is cut");
    OK(ms_reactor_set_timing(reactor, 0));
    CHECK(ms_reactor_get_timing(reactor, &timing, sizeof timing) == 0, "off again");
    ms_reactor_destroy(reactor);
}

static void labels_of_what_is_gone_are_refused(void)
{
    int ticks = 0;
    ms_reactor_timer timer;
    ms_reactor *reactor = new_reactor(MS_REACTOR_BACKEND_BEST);
    OK(ms_reactor_after(reactor, 0, on_timer, &ticks, &timer));
    CHECK(ms_reactor_label_timer(reactor, timer, NULL) == MS_REACTOR_ERROR_INVALID, "no label");
    CHECK(ms_reactor_label_timer(reactor, timer, "\xff\xfe") == MS_REACTOR_ERROR_INVALID, "not text");
    ms_reactor_cancel(reactor, timer);
    CHECK(ms_reactor_label_timer(reactor, timer, "late") == MS_REACTOR_ERROR_GONE, "a timer that is gone");
    CHECK(ms_reactor_label_watcher(reactor, 12345, "never") == MS_REACTOR_ERROR_GONE, "a watcher that never was");
    ms_reactor_destroy(reactor);
}

struct stalls {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int reports;
    char label[32];
    uint64_t running_ns;
};

static void on_stall(const char *label, uint64_t running_ns, void *data)
{
    struct stalls *stalls = data;
    pthread_mutex_lock(&stalls->lock);
    stalls->reports++;
    stalls->running_ns = running_ns;
    strcpy(stalls->label, label == NULL ? "none" : label);
    pthread_cond_broadcast(&stalls->changed);
    pthread_mutex_unlock(&stalls->lock);
}

/* A callback that does not return before its stall was reported. */
static void on_timer_stall(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    struct stalls *stalls = data;
    (void)reactor;
    (void)timer;
    (void)missed;
    pthread_mutex_lock(&stalls->lock);
    while (stalls->reports == 0)
        pthread_cond_wait(&stalls->changed, &stalls->lock);
    pthread_mutex_unlock(&stalls->lock);
}

static void a_stall_is_reported_while_it_lasts(int backend)
{
    struct stalls stalls;
    ms_reactor_timer timer;
    ms_reactor *reactor = new_reactor(backend);
    memset(&stalls, 0, sizeof stalls);
    pthread_mutex_init(&stalls.lock, NULL);
    pthread_cond_init(&stalls.changed, NULL);
    CHECK(ms_reactor_watch_stalls(reactor, 0, on_stall, &stalls) == MS_REACTOR_ERROR_INVALID, "no threshold");
    OK(ms_reactor_watch_stalls(reactor, MS_REACTOR_MILLISECOND, on_stall, &stalls));
    OK(ms_reactor_after(reactor, 0, on_timer_stall, &stalls, &timer));
    OK(ms_reactor_label_timer(reactor, timer, "stuck"));
    CHECK(ms_reactor_poll(reactor, -1) == 1, "it returned, so it was reported");
    CHECK(stalls.running_ns >= 1000000 && strcmp(stalls.label, "stuck") == 0, "with its label");
    OK(ms_reactor_watch_stalls(reactor, 0, NULL, NULL));
    ms_reactor_destroy(reactor);
    pthread_cond_destroy(&stalls.changed);
    pthread_mutex_destroy(&stalls.lock);
}

/* 1 if a foreign loop would be woken. */
static int is_readable(int fd, int timeout_ms)
{
    struct pollfd entry;
    entry.fd = fd;
    entry.events = POLLIN;
    return poll(&entry, 1, timeout_ms) == 1;
}

static void a_foreign_loop_is_woken_for_everything(void)
{
    int ends[2], calls = 0, fd;
    struct seen seen = {0};
    ms_reactor *reactor = new_reactor(MS_REACTOR_BACKEND_EPOLL);
    fd = ms_reactor_embedding_fd(reactor);
    CHECK(fd >= 0 && ms_reactor_embedding_fd(reactor) == fd, "a descriptor, always the same");
    CHECK(!is_readable(fd, 0), "nothing to do");
    make_pipe(ends);
    OK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_ready, &seen, NULL));
    write_byte(ends[1]);
    CHECK(is_readable(fd, -1) && ms_reactor_poll(reactor, 0) == 1, "a descriptor");
    drain(ends[0]);
    CHECK(ms_reactor_poll(reactor, 0) == 0 && !is_readable(fd, 0), "nothing again");
    OK(ms_reactor_after(reactor, 2 * MS_REACTOR_MILLISECOND, on_timer, &calls, NULL));
    while (calls == 0) {
        CHECK(is_readable(fd, -1), "a timer");
        ms_reactor_poll(reactor, 0);
    }
    OK(ms_reactor_defer(reactor, on_call, &calls));
    CHECK(is_readable(fd, -1) && ms_reactor_poll(reactor, 0) == 1 && calls == 2, "a deferred call");
    OK(ms_reactor_call(reactor, on_call, &calls));
    CHECK(is_readable(fd, -1) && ms_reactor_poll(reactor, 0) == 1 && calls == 3, "a call from elsewhere");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void on_ready_poll_inner(ms_reactor *outer, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    (void)outer;
    (void)watcher;
    (void)fd;
    (void)readiness;
    ms_reactor_poll(data, 0);
}

static void one_reactor_may_be_embedded_in_another(int backend)
{
    int calls = 0;
    ms_reactor *outer = new_reactor(backend), *inner = new_reactor(MS_REACTOR_BACKEND_EPOLL);
    OK(ms_reactor_watch(outer, ms_reactor_embedding_fd(inner), MS_REACTOR_READ, MS_REACTOR_LEVEL,
                        on_ready_poll_inner, inner, NULL));
    OK(ms_reactor_after(inner, MS_REACTOR_MILLISECOND, on_timer, &calls, NULL));
    while (calls == 0)
        CHECK(ms_reactor_poll(outer, -1) >= 0, "the outer loop turns the inner one");
    ms_reactor_destroy(outer);
    ms_reactor_destroy(inner);
}

static void embedding_on_poll_is_refused(void)
{
    ms_reactor *reactor = new_reactor(MS_REACTOR_BACKEND_POLL);
    CHECK(ms_reactor_embedding_fd(reactor) == MS_REACTOR_ERROR_UNSUPPORTED, "refused");
    ms_reactor_destroy(reactor);
}

int main(void)
{
    RUN_ON_BOTH(counters_count);
    RUN(structures_of_other_versions_are_filled_as_far_as_they_go);
    RUN_ON_BOTH(timing_names_the_slowest_callback);
    RUN(labels_of_what_is_gone_are_refused);
    RUN_ON_BOTH(a_stall_is_reported_while_it_lasts);
    RUN(a_foreign_loop_is_woken_for_everything);
    RUN_ON_BOTH(one_reactor_may_be_embedded_in_another);
    RUN(embedding_on_poll_is_refused);
    return 0;
}
