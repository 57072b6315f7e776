/* Timers, most of them on a virtual clock. */
#include "english.h"

#define MS MS_REACTOR_MILLISECOND

struct fired {
    int calls;
    ms_reactor_timer timer;
    uint64_t missed;
    int64_t at_ns;
};

static void on_fire(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    struct fired *fired = data;
    fired->calls++;
    fired->timer = timer;
    fired->missed = missed;
    OK(ms_reactor_now(reactor, &fired->at_ns));
}

static void after_fires_once_at_its_time(void)
{
    struct fired fired = {0};
    ms_reactor_timer timer = 0;
    int64_t start, deadline;
    ms_reactor *reactor = new_virtual_reactor();
    OK(ms_reactor_now(reactor, &start));
    OK(ms_reactor_after(reactor, 250 * MS, on_fire, &fired, &timer));
    CHECK(timer != 0 && ms_reactor_has_timer(reactor, timer) == 1, "there");
    CHECK(ms_reactor_next_deadline(reactor, &deadline) == 1 && deadline == start + 250 * MS, "its deadline");
    OK(ms_reactor_advance(reactor, 250 * MS - 1));
    CHECK(ms_reactor_poll(reactor, 0) == 0, "a nanosecond early: nothing");
    OK(ms_reactor_advance(reactor, 1));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && fired.calls == 1, "in time");
    CHECK(fired.timer == timer && fired.missed == 0 && fired.at_ns == deadline, "told who is meant");
    CHECK(ms_reactor_has_timer(reactor, timer) == 0 && ms_reactor_cancel(reactor, timer) == 0, "gone");
    CHECK(ms_reactor_next_deadline(reactor, &deadline) == 0, "no other");
    ms_reactor_destroy(reactor);
}

static void at_fires_at_an_instant_and_at_once_if_it_is_past(void)
{
    struct fired fired = {0};
    int64_t now;
    ms_reactor *reactor = new_virtual_reactor();
    OK(ms_reactor_advance(reactor, 1000));
    OK(ms_reactor_now(reactor, &now));
    OK(ms_reactor_at(reactor, now + 5, on_fire, &fired, NULL));
    OK(ms_reactor_at(reactor, now - 500, on_fire, &fired, NULL));
    OK(ms_reactor_at(reactor, INT64_MIN, on_fire, &fired, NULL));
    CHECK(ms_reactor_poll(reactor, 0) == 2, "those in the past");
    OK(ms_reactor_advance(reactor, 5));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && fired.calls == 3, "then the one in the future");
    ms_reactor_destroy(reactor);
}

static void every_keeps_its_rate_and_tells_what_it_missed(void)
{
    struct fired fired = {0};
    ms_reactor_timer timer;
    ms_reactor *reactor = new_virtual_reactor();
    OK(ms_reactor_every(reactor, 10 * MS, on_fire, &fired, &timer));
    OK(ms_reactor_advance(reactor, 10 * MS));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && fired.missed == 0 && fired.timer == timer, "in time");
    OK(ms_reactor_advance(reactor, 47 * MS));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && fired.missed == 3, "20 at 57: 30, 40 and 50 are missed");
    OK(ms_reactor_advance(reactor, 3 * MS));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && fired.missed == 0, "60 at 60");
    CHECK(ms_reactor_cancel(reactor, timer) == 1 && ms_reactor_timer_count(reactor) == 0, "until cancelled");
    ms_reactor_destroy(reactor);
}

static void every_from_starts_where_it_is_told(void)
{
    struct fired fired = {0};
    int64_t now;
    ms_reactor *reactor = new_virtual_reactor();
    OK(ms_reactor_now(reactor, &now));
    OK(ms_reactor_every_from(reactor, now, 10 * MS, on_fire, &fired, NULL));
    CHECK(ms_reactor_poll(reactor, 0) == 1, "at once");
    OK(ms_reactor_advance(reactor, 9 * MS));
    CHECK(ms_reactor_poll(reactor, 0) == 0, "not early");
    OK(ms_reactor_advance(reactor, 1 * MS));
    CHECK(ms_reactor_poll(reactor, 0) == 1, "after one interval");
    ms_reactor_destroy(reactor);
}

static void cancelled_timers_do_not_fire_and_may_be_cancelled_twice(void)
{
    struct fired fired = {0};
    ms_reactor_timer timer;
    ms_reactor *reactor = new_virtual_reactor();
    OK(ms_reactor_after(reactor, 0, on_fire, &fired, &timer));
    CHECK(ms_reactor_cancel(reactor, timer) == 1, "there");
    CHECK(ms_reactor_cancel(reactor, timer) == 0, "gone");
    CHECK(ms_reactor_poll(reactor, 0) == 0 && fired.calls == 0, "silent");
    ms_reactor_destroy(reactor);
}

static void rescheduling_moves_a_timer(void)
{
    struct fired fired = {0};
    ms_reactor_timer timer;
    int64_t now;
    ms_reactor *reactor = new_virtual_reactor();
    OK(ms_reactor_now(reactor, &now));
    OK(ms_reactor_after(reactor, 10 * MS, on_fire, &fired, &timer));
    OK(ms_reactor_reschedule_after(reactor, timer, 30 * MS));
    OK(ms_reactor_advance(reactor, 20 * MS));
    CHECK(ms_reactor_poll(reactor, 0) == 0, "not at its old deadline");
    OK(ms_reactor_reschedule_at(reactor, timer, now + 20 * MS));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && fired.timer == timer, "at its new one, under its old name");
    CHECK(ms_reactor_reschedule_after(reactor, timer, 1) == MS_REACTOR_ERROR_GONE, "it has fired");
    CHECK(ms_reactor_reschedule_at(reactor, timer, 1) == MS_REACTOR_ERROR_GONE, "and is gone");
    ms_reactor_destroy(reactor);
}

static char order[8];

static void on_fire_append(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    (void)reactor;
    (void)timer;
    (void)missed;
    strcat(order, data);
}

static char a[] = "a", b[] = "b", c[] = "c";

static void timers_fire_by_deadline_and_then_in_the_order_of_setting(void)
{
    ms_reactor *reactor = new_virtual_reactor();
    OK(ms_reactor_after(reactor, 2 * MS, on_fire_append, b, NULL));
    OK(ms_reactor_after(reactor, 2 * MS, on_fire_append, c, NULL));
    OK(ms_reactor_after(reactor, 1 * MS, on_fire_append, a, NULL));
    OK(ms_reactor_advance(reactor, 5 * MS));
    CHECK(ms_reactor_poll(reactor, 0) == 3 && strcmp(order, "abc") == 0, "in order");
    ms_reactor_destroy(reactor);
}

static void on_fire_again(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    on_timer(reactor, timer, missed, data);
    OK(ms_reactor_after(reactor, 0, on_fire_again, data, NULL));
}

static void a_timer_set_in_a_callback_waits_for_the_next_turn(int backend)
{
    int ticks = 0, turn;
    ms_reactor *reactor = new_reactor(backend);
    OK(ms_reactor_after(reactor, 0, on_fire_again, &ticks, NULL));
    for (turn = 1; turn <= 20; turn++)
        CHECK(ms_reactor_poll(reactor, -1) == 1 && ticks == turn, "one per turn");
    ms_reactor_destroy(reactor);
}

struct pair {
    ms_reactor_timer own, other;
    int calls;
};

static void on_fire_cancel_the_other(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
{
    struct pair *pair = data;
    (void)missed;
    pair->calls++;
    CHECK(ms_reactor_cancel(reactor, timer == pair->own ? pair->other : pair->own) == 1, "cancelled");
}

static void a_due_timer_cancelled_by_another_does_not_fire(void)
{
    struct pair pair = {0};
    ms_reactor *reactor = new_virtual_reactor();
    OK(ms_reactor_after(reactor, 0, on_fire_cancel_the_other, &pair, &pair.own));
    OK(ms_reactor_after(reactor, 0, on_fire_cancel_the_other, &pair, &pair.other));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && pair.calls == 1, "the first silences the second");
    ms_reactor_destroy(reactor);
}

static void real_timers_never_fire_early(int backend)
{
    struct fired fired = {0};
    int64_t asked[3], before;
    int index;
    ms_reactor *reactor = new_reactor(backend);
    asked[0] = 300 * MS_REACTOR_MICROSECOND;
    asked[1] = 1300 * MS_REACTOR_MICROSECOND;
    asked[2] = 5 * MS;
    for (index = 0; index < 3; index++) {
        before = monotonic_ns();
        OK(ms_reactor_after(reactor, asked[index], on_fire, &fired, NULL));
        CHECK(ms_reactor_poll(reactor, -1) == 1, "fired");
        CHECK(monotonic_ns() - before >= asked[index], "not early");
    }
    ms_reactor_destroy(reactor);
}

static void times_out_of_range_are_errors_and_change_nothing(void)
{
    int ticks = 0;
    ms_reactor_timer timer = 0;
    int64_t deadline;
    ms_reactor *reactor = new_virtual_reactor();
    OK(ms_reactor_advance(reactor, 1));
    CHECK(ms_reactor_after(reactor, INT64_MAX, on_timer, &ticks, NULL) == MS_REACTOR_ERROR_OUT_OF_RANGE, "after");
    CHECK(ms_reactor_every(reactor, INT64_MAX, on_timer, &ticks, NULL) == MS_REACTOR_ERROR_OUT_OF_RANGE, "every");
    CHECK(ms_reactor_after(reactor, -1, on_timer, &ticks, NULL) == MS_REACTOR_ERROR_INVALID, "negative delay");
    CHECK(ms_reactor_every(reactor, -1, on_timer, &ticks, NULL) == MS_REACTOR_ERROR_INVALID, "negative interval");
    CHECK(ms_reactor_every(reactor, 0, on_timer, &ticks, NULL) == MS_REACTOR_ERROR_ZERO_INTERVAL, "no interval");
    CHECK(ms_reactor_every_from(reactor, 0, 0, on_timer, &ticks, NULL) == MS_REACTOR_ERROR_ZERO_INTERVAL, "either");
    CHECK(ms_reactor_every_from(reactor, 0, -1, on_timer, &ticks, NULL) == MS_REACTOR_ERROR_INVALID, "or less");
    CHECK(ms_reactor_timer_count(reactor) == 0, "nothing is set");
    OK(ms_reactor_at(reactor, INT64_MAX, on_timer, &ticks, &timer));
    CHECK(ms_reactor_reschedule_after(reactor, timer, INT64_MAX) == MS_REACTOR_ERROR_OUT_OF_RANGE, "reschedule");
    CHECK(ms_reactor_reschedule_after(reactor, timer, -1) == MS_REACTOR_ERROR_INVALID, "negative");
    CHECK(ms_reactor_next_deadline(reactor, &deadline) == 1 && deadline == INT64_MAX, "it stays where it was");
    CHECK(ms_reactor_advance(reactor, -1) == MS_REACTOR_ERROR_INVALID, "time does not go back");
    CHECK(ms_reactor_poll(reactor, 0) == 0 && ticks == 0, "nothing fires");
    ms_reactor_destroy(reactor);
}

static void a_real_clock_cannot_be_moved(void)
{
    ms_reactor *reactor = new_reactor(MS_REACTOR_BACKEND_BEST);
    CHECK(ms_reactor_advance(reactor, 1) == MS_REACTOR_ERROR_UNSUPPORTED, "refused");
    ms_reactor_destroy(reactor);
}

static void a_virtual_day_passes_at_once(void)
{
    struct fired fired = {0};
    int64_t start;
    ms_reactor *reactor = new_virtual_reactor();
    OK(ms_reactor_now(reactor, &start));
    OK(ms_reactor_every(reactor, 60 * MS_REACTOR_SECOND, on_fire, &fired, NULL));
    OK(ms_reactor_after(reactor, 86400 * MS_REACTOR_SECOND, on_timer_stop, NULL, NULL));
    OK(ms_reactor_run(reactor));
    CHECK(fired.calls == 1440 && fired.at_ns - start == 86400 * MS_REACTOR_SECOND, "every minute of it");
    ms_reactor_destroy(reactor);
}

int main(void)
{
    RUN(after_fires_once_at_its_time);
    RUN(at_fires_at_an_instant_and_at_once_if_it_is_past);
    RUN(every_keeps_its_rate_and_tells_what_it_missed);
    RUN(every_from_starts_where_it_is_told);
    RUN(cancelled_timers_do_not_fire_and_may_be_cancelled_twice);
    RUN(rescheduling_moves_a_timer);
    RUN(timers_fire_by_deadline_and_then_in_the_order_of_setting);
    RUN_ON_BOTH(a_timer_set_in_a_callback_waits_for_the_next_turn);
    RUN(a_due_timer_cancelled_by_another_does_not_fire);
    RUN_ON_BOTH(real_timers_never_fire_early);
    RUN(times_out_of_range_are_errors_and_change_nothing);
    RUN(a_real_clock_cannot_be_moved);
    RUN(a_virtual_day_passes_at_once);
    return 0;
}
