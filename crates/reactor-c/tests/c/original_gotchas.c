/* The nine gotchas of the original library's document: each holds, or is gone. */
#include "check.h"
#include "mainspring_reactor.h"
#include "original/reactor.h"

struct seen {
    int calls;
    Reactor *reactor;
    int fd_to_touch;
    struct seen *other;
};

static vacuum on_event(integer fd, i32 eventus, vacuum *data)
{
    (void)fd;
    (void)eventus;
    ((struct seen *)data)->calls++;
}

static vacuum on_tick(vacuum *data)
{
    ++*(int *)data;
}

static void gotcha_1_destruere_frees_and_the_reactor_is_dead(void)
{
    int ends[2], ticks = 0;
    struct seen seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    write_byte(ends[1]);
    reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &seen);
    reactor_timer_adicere(reactor, 0, VERUM, on_tick, &ticks);
    reactor_destruere(reactor);
    CHECK(reactor_numerus_fd(reactor) == 0 && reactor_numerus_timer(reactor) == 0, "the counts are reset");
    CHECK(reactor_est_currens(reactor) == FALSUM, "it does not run");
    CHECK(reactor_poll(reactor, 0) == 0 && seen.calls == 0 && ticks == 0, "it calls nothing");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &seen) == FALSUM, "it takes nothing");
    reactor_destruere(reactor);
    reactor_currere(reactor);
    reactor_sistere(reactor);
    close_both(ends);
}

static vacuum on_event_work_long(integer fd, i32 eventus, vacuum *data)
{
    int64_t until = monotonic_ns() + 30 * 1000000;
    (void)fd;
    (void)eventus;
    ++*(int *)data;
    while (monotonic_ns() < until) {
    }
}

static void gotcha_2_a_long_callback_delays_the_others_and_loses_nothing(void)
{
    int ends[2], slow = 0, ticks = 0, poll;
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    write_byte(ends[1]);
    reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event_work_long, &slow);
    reactor_timer_adicere(reactor, 5, FALSUM, on_tick, &ticks);
    for (poll = 0; poll < 2 && ticks == 0; poll++)
        reactor_poll(reactor, 0xFFFFFFFFu);
    CHECK(ticks == 1 && slow >= 1, "the timer runs right after the callback");
    reactor_destruere(reactor);
    close_both(ends);
}

static void gotcha_2_the_slow_callback_can_be_found(void)
{
    int ends[2], slow = 0;
    ms_reactor_timing timing;
    Reactor *reactor = reactor_creare(PISCINA);
    ms_reactor *same = (ms_reactor *)reactor;
    make_pipe(ends);
    write_byte(ends[1]);
    reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event_work_long, &slow);
    CHECK(ms_reactor_label_watcher(same, ms_reactor_watcher_of(same, ends[0]), "slow one") == 0, "labelled");
    CHECK(ms_reactor_set_timing(same, 1) == 0, "timing");
    reactor_poll(reactor, 0);
    CHECK(ms_reactor_get_timing(same, &timing, sizeof timing) == 1, "times");
    CHECK(timing.slowest_ns >= 30 * 1000000 && strcmp(timing.slowest_label, "slow one") == 0, "it is named");
    reactor_destruere(reactor);
    close_both(ends);
}

static vacuum on_event_remove_itself(integer fd, i32 eventus, vacuum *data)
{
    struct seen *seen = data;
    (void)eventus;
    seen->calls++;
    CHECK(reactor_removere(seen->reactor, fd) == VERUM, "it removes itself");
    CHECK(reactor_removere(seen->reactor, fd) == FALSUM, "once");
    CHECK(reactor_numerus_fd(seen->reactor) == 1, "the other one stays");
}

static void gotcha_3_a_descriptor_may_remove_itself_and_the_others_are_still_called(void)
{
    int first[2], second[2];
    struct seen one = {0}, other = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    one.reactor = reactor;
    make_pipe(first);
    make_pipe(second);
    write_byte(first[1]);
    write_byte(second[1]);
    reactor_adicere(reactor, first[0], REACTOR_LEGERE, on_event_remove_itself, &one);
    reactor_adicere(reactor, second[0], REACTOR_LEGERE, on_event, &other);
    CHECK(reactor_poll(reactor, 0) == 2, "both in the same poll");
    CHECK(one.calls == 1 && other.calls == 1, "each once");
    CHECK(reactor_poll(reactor, 0) == 1 && other.calls == 2, "then the other alone");
    reactor_destruere(reactor);
    close_both(first);
    close_both(second);
}

static vacuum on_event_remove_the_other(integer fd, i32 eventus, vacuum *data)
{
    struct seen *seen = data;
    (void)fd;
    (void)eventus;
    seen->calls++;
    reactor_removere(seen->reactor, seen->fd_to_touch);
}

static void gotcha_3_whoever_is_removed_in_a_callback_is_not_called_any_more(void)
{
    int first[2], second[2];
    struct seen one = {0}, other = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(first);
    make_pipe(second);
    write_byte(first[1]);
    write_byte(second[1]);
    one.reactor = other.reactor = reactor;
    one.fd_to_touch = second[0];
    other.fd_to_touch = first[0];
    reactor_adicere(reactor, first[0], REACTOR_LEGERE, on_event_remove_the_other, &one);
    reactor_adicere(reactor, second[0], REACTOR_LEGERE, on_event_remove_the_other, &other);
    CHECK(reactor_poll(reactor, 0) == 1, "whoever comes first removes the other");
    CHECK(one.calls + other.calls == 1, "which is not called, although it was ready");
    CHECK(reactor_numerus_fd(reactor) == 1, "one is left");
    reactor_destruere(reactor);
    close_both(first);
    close_both(second);
}

static vacuum on_event_add_another(integer fd, i32 eventus, vacuum *data)
{
    struct seen *seen = data;
    (void)eventus;
    seen->calls++;
    drain(fd);
    CHECK(reactor_adicere(seen->reactor, seen->fd_to_touch, REACTOR_LEGERE, on_event, seen->other), "added");
}

static void gotcha_3_a_descriptor_added_in_a_callback_is_called_on_the_next_poll(void)
{
    int first[2], second[2];
    struct seen one = {0}, other = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(first);
    make_pipe(second);
    write_byte(first[1]);
    write_byte(second[1]);
    one.reactor = reactor;
    one.fd_to_touch = second[0];
    one.other = &other;
    reactor_adicere(reactor, first[0], REACTOR_LEGERE, on_event_add_another, &one);
    CHECK(reactor_poll(reactor, 0) == 1 && other.calls == 0, "not in this one");
    CHECK(reactor_poll(reactor, 0) == 1 && other.calls == 1, "in the next one");
    reactor_destruere(reactor);
    close_both(first);
    close_both(second);
}

static void gotcha_4_a_timer_ends_the_wait_however_long_the_timeout(void)
{
    int ticks = 0;
    Reactor *reactor = reactor_creare(PISCINA);
    reactor_timer_adicere(reactor, 20, FALSUM, on_tick, &ticks);
    CHECK(reactor_poll(reactor, 0xFFFFFFFFu) == 1 && ticks == 1, "a wait for ever ends with the timer");
    reactor_destruere(reactor);
}

static void gotcha_5_exceeding_a_limit_is_a_failure_and_nothing_else(void)
{
    int ticks = 0, index, failures = 0;
    Reactor *reactor = reactor_creare(PISCINA);
    for (index = 0; index < 200; index++)
        failures += reactor_timer_adicere(reactor, 0, FALSUM, on_tick, &ticks) == REACTOR_TIMER_ERROR;
    CHECK(failures == 200 - 128, "128 timers; see original_limits.c for both limits");
    CHECK(reactor_poll(reactor, 0) == 128 && ticks == 128, "which all fire in one poll");
    reactor_destruere(reactor);
}

static void gotcha_6_places_are_reused_and_ids_are_not(void)
{
    int ticks = 0, round;
    ReactorTimerId id = 0;
    Reactor *reactor = reactor_creare(PISCINA);
    for (round = 0; round < 1000; round++) {
        id = reactor_timer_adicere(reactor, 0, FALSUM, on_tick, &ticks);
        CHECK(id == (i32)round, "a new id each time");
        CHECK(reactor_poll(reactor, 0) == 1, "fired");
        CHECK(reactor_timer_cancellare(reactor, id) == FALSUM, "an old id reaches nothing");
    }
    CHECK(ticks == 1000, "as many timers as one likes, one after the other");
    reactor_destruere(reactor);
}

static void gotcha_7_the_error_value_is_no_timer(void)
{
    int ticks = 0;
    Reactor *reactor = reactor_creare(PISCINA);
    CHECK(REACTOR_TIMER_ERROR == 0xFFFFFFFFu, "the value");
    CHECK(reactor_timer_adicere(reactor, 1, FALSUM, NIHIL, NIHIL) == REACTOR_TIMER_ERROR, "a failure");
    CHECK(reactor_timer_adicere(reactor, 100000, FALSUM, on_tick, &ticks) == 0, "a timer");
    CHECK(reactor_timer_cancellare(reactor, REACTOR_TIMER_ERROR) == FALSUM, "not found");
    CHECK(reactor_numerus_timer(reactor) == 1, "the timer is still there");
    reactor_destruere(reactor);
}

static void gotcha_8_the_clock_is_monotonic(void)
{
    int ticks = 0;
    int64_t before, now, after, deadline;
    Reactor *reactor = reactor_creare(PISCINA);
    before = monotonic_ns();
    CHECK(ms_reactor_now((ms_reactor *)reactor, &now) == 0, "the loop's time");
    reactor_timer_adicere(reactor, 20, FALSUM, on_tick, &ticks);
    after = monotonic_ns();
    CHECK(before <= now && now <= after, "is that of CLOCK_MONOTONIC, which nobody can set");
    CHECK(ms_reactor_next_deadline((ms_reactor *)reactor, &deadline) == 1, "a deadline");
    CHECK(before + 20 * 1000000 <= deadline && deadline <= after + 20 * 1000000, "on the same clock");
    reactor_destruere(reactor);
}

static void *stop_it(void *reactor)
{
    while (!reactor_est_currens(reactor)) {
    }
    reactor_sistere(reactor);
    return NULL;
}

static void gotcha_9_currere_waits_without_waking_and_sees_a_stop_at_once(void)
{
    ms_reactor_stats stats;
    pthread_t thread;
    Reactor *reactor = reactor_creare(PISCINA);
    CHECK(pthread_create(&thread, NULL, stop_it, reactor) == 0, "a thread");
    reactor_currere(reactor);
    pthread_join(thread, NULL);
    CHECK(ms_reactor_get_stats((ms_reactor *)reactor, &stats, sizeof stats) == 0, "counts");
    CHECK(stats.turns <= 2, "it did not turn until it was stopped");
    reactor_destruere(reactor);
}

int main(void)
{
    RUN(gotcha_1_destruere_frees_and_the_reactor_is_dead);
    RUN(gotcha_2_a_long_callback_delays_the_others_and_loses_nothing);
    RUN(gotcha_2_the_slow_callback_can_be_found);
    RUN(gotcha_3_a_descriptor_may_remove_itself_and_the_others_are_still_called);
    RUN(gotcha_3_whoever_is_removed_in_a_callback_is_not_called_any_more);
    RUN(gotcha_3_a_descriptor_added_in_a_callback_is_called_on_the_next_poll);
    RUN(gotcha_4_a_timer_ends_the_wait_however_long_the_timeout);
    RUN(gotcha_5_exceeding_a_limit_is_a_failure_and_nothing_else);
    RUN(gotcha_6_places_are_reused_and_ids_are_not);
    RUN(gotcha_7_the_error_value_is_no_timer);
    RUN(gotcha_8_the_clock_is_monotonic);
    RUN(gotcha_9_currere_waits_without_waking_and_sees_a_stop_at_once);
    return 0;
}
