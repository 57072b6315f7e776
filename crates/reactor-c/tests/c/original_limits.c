/*
 * The limits of the original names: 1000 descriptors and 128 timers, of those active at the same
 * time.
 */
#include "check.h"
#include "mainspring_reactor.h"
#include "original/reactor.h"

static vacuum on_event(integer fd, i32 eventus, vacuum *data)
{
    (void)fd;
    (void)eventus;
    ++*(int *)data;
}

static vacuum on_tick(vacuum *data)
{
    ++*(int *)data;
}

/* Registers duplicates of one descriptor until that many are. */
static void register_up_to(Reactor *reactor, int fd, int *fds, int from, int to, int *calls)
{
    int index;
    for (index = from; index < to; index++) {
        fds[index] = dup(fd);
        CHECK(fds[index] >= 0, "a duplicate");
        CHECK(reactor_adicere(reactor, fds[index], REACTOR_LEGERE, on_event, calls) == VERUM, "registered");
    }
}

static void close_all(const int *fds, int count)
{
    while (count > 0)
        close(fds[--count]);
}

static void limit_fd_maxima_refuses_the_1001st_descriptor(void)
{
    int ends[2], fds[REACTOR_FD_MAXIMA], calls = 0;
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    register_up_to(reactor, ends[0], fds, 0, REACTOR_FD_MAXIMA, &calls);
    CHECK(reactor_numerus_fd(reactor) == 1000, "a thousand");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &calls) == FALSUM, "no more");
    CHECK(ms_reactor_last_error() == MS_REACTOR_ERROR_LIMIT, "and the reason can be asked for");
    CHECK(reactor_numerus_fd(reactor) == 1000, "still a thousand");
    CHECK(reactor_adicere(reactor, fds[7], REACTOR_SCRIBERE, on_event, &calls) == VERUM, "updates are fine");
    CHECK(reactor_adicere(reactor, fds[7], REACTOR_LEGERE, on_event, &calls) == VERUM, "and back");
    write_byte(ends[1]);
    CHECK(reactor_poll(reactor, 0) == 1000 && calls == 1000, "all of them are called in one poll");
    CHECK(reactor_removere(reactor, fds[500]) == VERUM, "one goes");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &calls) == VERUM, "one comes");
    reactor_destruere(reactor);
    close_all(fds, REACTOR_FD_MAXIMA);
    close_both(ends);
}

static void limit_fd_maxima_is_of_those_active_not_of_a_lifetime(void)
{
    int ends[2], calls = 0, round;
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    for (round = 0; round < 5000; round++) {
        CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &calls) == VERUM, "registered");
        CHECK(reactor_removere(reactor, ends[0]) == VERUM, "removed");
    }
    reactor_destruere(reactor);
    close_both(ends);
}

static void limit_timer_maxima_refuses_the_129th_timer(void)
{
    int ticks = 0, index;
    ReactorTimerId last = 0;
    Reactor *reactor = reactor_creare(PISCINA);
    for (index = 0; index < REACTOR_TIMER_MAXIMA; index++)
        last = reactor_timer_adicere(reactor, 100000, index % 2, on_tick, &ticks);
    CHECK(last == 127 && reactor_numerus_timer(reactor) == 128, "128");
    CHECK(reactor_timer_adicere(reactor, 1, FALSUM, on_tick, &ticks) == REACTOR_TIMER_ERROR, "no more");
    CHECK(ms_reactor_last_error() == MS_REACTOR_ERROR_LIMIT, "and the reason can be asked for");
    CHECK(reactor_timer_cancellare(reactor, 64) == VERUM, "one goes");
    CHECK(reactor_timer_adicere(reactor, 1, FALSUM, on_tick, &ticks) == 128, "one comes, with a new id");
    reactor_destruere(reactor);
}

struct renewal {
    Reactor *reactor;
    int fired;
    ReactorTimerId latest;
};

static vacuum on_tick_renew(vacuum *data)
{
    struct renewal *renewal = data;
    renewal->fired++;
    renewal->latest = reactor_timer_adicere(renewal->reactor, 100000, FALSUM, on_tick, &renewal->fired);
}

static void limit_timer_maxima_lets_a_firing_one_shot_set_its_successor(void)
{
    int ticks = 0, index;
    struct renewal renewal = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    renewal.reactor = reactor;
    reactor_timer_adicere(reactor, 0, FALSUM, on_tick_renew, &renewal);
    for (index = 1; index < REACTOR_TIMER_MAXIMA; index++)
        reactor_timer_adicere(reactor, 100000, FALSUM, on_tick, &ticks);
    CHECK(reactor_poll(reactor, 0) == 1 && renewal.fired == 1, "fired");
    CHECK(renewal.latest == 128 && reactor_numerus_timer(reactor) == 128, "its place was free already");
    reactor_destruere(reactor);
}

static void on_watch(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    (void)reactor;
    (void)watcher;
    (void)fd;
    (void)readiness;
    ++*(int *)data;
}

static void on_timer(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    (void)reactor;
    (void)timer;
    (void)missed;
    ++*(int *)data;
}

static void limit_does_not_hold_under_the_english_names(void)
{
    int ends[2], fds[1500], calls = 0, ticks = 0, index;
    ms_reactor *reactor = NULL;
    CHECK(ms_reactor_create(&reactor, MS_REACTOR_BACKEND_BEST, MS_REACTOR_VIRTUAL_CLOCK) == 0, "a reactor");
    make_pipe(ends);
    write_byte(ends[1]);
    for (index = 0; index < 1500; index++) {
        fds[index] = dup(ends[0]);
        CHECK(ms_reactor_watch(reactor, fds[index], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_watch, &calls, NULL) == 0,
              "watched");
    }
    for (index = 0; index < 5000; index++)
        CHECK(ms_reactor_after(reactor, index, on_timer, &ticks, NULL) == 0, "set");
    CHECK(ms_reactor_watcher_count(reactor) == 1500 && ms_reactor_timer_count(reactor) == 5000, "no limit");
    while (calls < 1500)
        CHECK(ms_reactor_poll(reactor, 0) > 0, "called");
    for (index = 0; index < 1500; index++)
        CHECK(ms_reactor_unwatch(reactor, ms_reactor_watcher_of(reactor, fds[index])) == 1, "unwatched");
    CHECK(ms_reactor_run_until_idle(reactor) == 0 && ticks == 5000, "all timers fire");
    ms_reactor_destroy(reactor);
    close_all(fds, 1500);
    close_both(ends);
}

int main(void)
{
    allow_descriptors(2048);
    RUN(limit_fd_maxima_refuses_the_1001st_descriptor);
    RUN(limit_fd_maxima_is_of_those_active_not_of_a_lifetime);
    RUN(limit_timer_maxima_refuses_the_129th_timer);
    RUN(limit_timer_maxima_lets_a_firing_one_shot_set_its_successor);
    RUN(limit_does_not_hold_under_the_english_names);
    return 0;
}
