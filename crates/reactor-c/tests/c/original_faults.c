/* What went wrong in the original library's code, and does not here. */
#include "check.h"
#include "mainspring_reactor.h"
#include "original/reactor.h"

#define POLLS 1000

struct meddler {
    Reactor *reactor;
    int calls;
    int fd; /* the one it keeps changing */
    struct meddler *victim;
    b32 (*meddle)(struct meddler *meddler);
};

static vacuum on_count(integer fd, i32 eventus, vacuum *data)
{
    (void)fd;
    (void)eventus;
    ((struct meddler *)data)->calls++;
}

static vacuum on_meddle(integer fd, i32 eventus, vacuum *data)
{
    struct meddler *meddler = data;
    (void)fd;
    (void)eventus;
    meddler->calls++;
    CHECK(meddler->meddle(meddler) == VERUM, "the change is made");
}

static b32 modify_it(struct meddler *meddler)
{
    return reactor_modificare(meddler->reactor, meddler->fd, REACTOR_LEGERE);
}

static b32 register_it_again(struct meddler *meddler)
{
    return reactor_adicere(meddler->reactor, meddler->fd, REACTOR_LEGERE, on_count, meddler->victim);
}

static vacuum on_tick(vacuum *data)
{
    ++*(int *)data;
}

/*
 * One descriptor's callback keeps changing something while another is ready: both are called on
 * every poll.
 */
static void nobody_starves(int changes_itself, b32 (*meddle)(struct meddler *))
{
    int first[2], second[2], poll;
    struct meddler meddler = {0}, victim = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(first);
    make_pipe(second);
    write_byte(first[1]);
    write_byte(second[1]);
    meddler.reactor = reactor;
    meddler.fd = changes_itself ? first[0] : second[0];
    meddler.victim = &victim;
    meddler.meddle = meddle;
    reactor_adicere(reactor, first[0], REACTOR_LEGERE, on_meddle, &meddler);
    reactor_adicere(reactor, second[0], REACTOR_LEGERE, on_count, &victim);
    for (poll = 0; poll < POLLS; poll++)
        reactor_poll(reactor, 0);
    CHECK(meddler.calls == POLLS, "the one that makes changes");
    CHECK(victim.calls == POLLS, "the other one");
    reactor_destruere(reactor);
    close_both(first);
    close_both(second);
}

static void fault_modificare_in_a_callback_starved_later_descriptors(void)
{
    nobody_starves(1, modify_it);
}

static void fault_modificare_of_another_in_a_callback_starved_it(void)
{
    nobody_starves(0, modify_it);
}

static void fault_adicere_of_another_in_a_callback_starved_it(void)
{
    nobody_starves(0, register_it_again);
}

static void fault_a_thousand_registrations_in_a_lifetime_were_all(void)
{
    int ends[2], round;
    struct meddler seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    for (round = 0; round < 1500; round++) {
        make_pipe(ends);
        write_byte(ends[1]);
        CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_count, &seen) == VERUM, "registered");
        CHECK(reactor_poll(reactor, 0) == 1, "called");
        CHECK(reactor_removere(reactor, ends[0]) == VERUM, "removed");
        close_both(ends);
    }
    CHECK(seen.calls == 1500, "every one of them");
    reactor_destruere(reactor);
}

static void fault_poll_and_currere_spun_with_nothing_registered(void)
{
    ms_reactor_stats stats;
    int64_t start = monotonic_ns();
    Reactor *reactor = reactor_creare(PISCINA);
    CHECK(reactor_poll(reactor, 30) == 0, "nothing happens");
    CHECK(monotonic_ns() - start >= 30 * 1000000, "for as long as was asked");
    CHECK(ms_reactor_get_stats((ms_reactor *)reactor, &stats, sizeof stats) == 0, "counts");
    CHECK(stats.turns <= 2, "and no turn is made meanwhile");
    reactor_destruere(reactor);
}

static void fault_a_closed_descriptor_was_reported_for_ever_with_no_event(void)
{
    int ends[2], other[2];
    int64_t start;
    struct meddler seen = {0}, next = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    write_byte(ends[1]);
    reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_count, &seen);
    close(ends[0]);
    start = monotonic_ns();
    CHECK(reactor_poll(reactor, 20) == 0 && seen.calls == 0, "never called");
    CHECK(monotonic_ns() - start >= 20 * 1000000, "and no spinning");
    CHECK(reactor_numerus_fd(reactor) == 1, "it counts until it is removed");
    CHECK(reactor_adicere(reactor, 900, REACTOR_LEGERE, on_count, &seen) == FALSUM, "a closed one is not taken");

    make_pipe(other);
    CHECK(other[0] == ends[0], "the number is reused");
    CHECK(reactor_adicere(reactor, other[0], REACTOR_LEGERE, on_count, &next) == VERUM, "and registered");
    CHECK(reactor_numerus_fd(reactor) == 1, "in its place");
    write_byte(other[1]);
    CHECK(reactor_poll(reactor, 0) == 1 && next.calls == 1 && seen.calls == 0, "called under its new registration");
    CHECK(reactor_removere(reactor, other[0]) == VERUM, "removed");
    reactor_destruere(reactor);
    close_both(other);
    close(ends[1]);
}

static void fault_a_closed_descriptor_with_a_duplicate_spins_nothing(void)
{
    int ends[2], duplicate, poll, calls_before;
    struct meddler seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    write_byte(ends[1]);
    reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_count, &seen);
    duplicate = dup(ends[0]);
    close(ends[0]);
    reactor_removere(reactor, ends[0]);
    calls_before = seen.calls;
    for (poll = 0; poll < 10; poll++)
        CHECK(reactor_poll(reactor, 1) == 0, "nothing is called");
    CHECK(seen.calls == calls_before, "nobody is told");
    reactor_destruere(reactor);
    close(duplicate);
    close(ends[1]);
}

struct self {
    Reactor *reactor;
    ReactorTimerId own, next;
    int successor_ticks;
};

static vacuum on_tick_cancel_itself_and_set_another(vacuum *data)
{
    struct self *self = data;
    reactor_timer_cancellare(self->reactor, self->own);
    self->next = reactor_timer_adicere(self->reactor, 1, FALSUM, on_tick, &self->successor_ticks);
}

static void fault_a_timer_set_by_a_self_cancelling_one_shot_was_killed(void)
{
    struct self self = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    self.reactor = reactor;
    self.own = reactor_timer_adicere(reactor, 0, FALSUM, on_tick_cancel_itself_and_set_another, &self);
    CHECK(reactor_poll(reactor, 0) == 1, "the first fires");
    CHECK(self.next != self.own && reactor_numerus_timer(reactor) == 1, "the second is there");
    CHECK(reactor_poll(reactor, 0xFFFFFFFFu) == 1 && self.successor_ticks == 1, "and fires");
    reactor_destruere(reactor);
}

static vacuum on_tick_cancel_itself(vacuum *data)
{
    struct self *self = data;
    self->successor_ticks++;
    CHECK(reactor_timer_cancellare(self->reactor, self->own) == VERUM, "a repeating timer is there while it runs");
    CHECK(reactor_timer_cancellare(self->reactor, self->own) == FALSUM, "and then gone");
}

static void fault_a_repeating_timer_that_cancels_itself_stays_cancelled(void)
{
    struct self self = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    self.reactor = reactor;
    self.own = reactor_timer_adicere(reactor, 0, VERUM, on_tick_cancel_itself, &self);
    CHECK(reactor_poll(reactor, 0) == 1 && self.successor_ticks == 1, "once");
    CHECK(reactor_poll(reactor, 5) == 0 && reactor_numerus_timer(reactor) == 0, "never again");
    reactor_destruere(reactor);
}

/* A reactor of the original names with a clock that the test moves. */
static Reactor *virtual_reactor(void)
{
    ms_reactor *reactor = NULL;
    CHECK(ms_reactor_create(&reactor, MS_REACTOR_BACKEND_BEST, MS_REACTOR_VIRTUAL_CLOCK) == 0, "a reactor");
    return (Reactor *)reactor;
}

static void pass_ms(Reactor *reactor, int milliseconds)
{
    CHECK(ms_reactor_advance((ms_reactor *)reactor, milliseconds * MS_REACTOR_MILLISECOND) == 0, "time passes");
}

static void fault_a_repeating_timer_drifted(void)
{
    int ticks = 0, round;
    Reactor *reactor = virtual_reactor();
    reactor_timer_adicere(reactor, 20, VERUM, on_tick, &ticks);
    for (round = 0; round < 10; round++) {
        pass_ms(reactor, 26);
        reactor_poll(reactor, 0);
    }
    CHECK(ticks == 10, "260 ms, polled ten times");
    pass_ms(reactor, 19);
    CHECK(reactor_poll(reactor, 0) == 0, "279 ms: not before the next whole interval");
    pass_ms(reactor, 1);
    CHECK(reactor_poll(reactor, 0) == 1, "280 ms: at it");
    reactor_destruere(reactor);
}

static void fault_a_repeating_timer_after_a_stall_fires_once(void)
{
    int ticks = 0;
    Reactor *reactor = virtual_reactor();
    reactor_timer_adicere(reactor, 20, VERUM, on_tick, &ticks);
    pass_ms(reactor, 10000);
    CHECK(reactor_poll(reactor, 0) == 1 && ticks == 1, "five hundred ticks late: one call");
    CHECK(reactor_poll(reactor, 0) == 0 && ticks == 1, "no burst");
    reactor_destruere(reactor);
}

static char order[8];

static vacuum on_tick_a(vacuum *data)
{
    (void)data;
    strcat(order, "a");
}

static vacuum on_tick_b(vacuum *data)
{
    (void)data;
    strcat(order, "b");
}

static vacuum on_tick_c(vacuum *data)
{
    (void)data;
    strcat(order, "c");
}

static void fault_timers_fired_in_the_order_of_their_slots(void)
{
    Reactor *reactor = virtual_reactor();
    reactor_timer_adicere(reactor, 30, FALSUM, on_tick_c, NIHIL);
    reactor_timer_adicere(reactor, 10, FALSUM, on_tick_a, NIHIL);
    reactor_timer_adicere(reactor, 20, FALSUM, on_tick_b, NIHIL);
    pass_ms(reactor, 40);
    CHECK(reactor_poll(reactor, 0) == 3 && strcmp(order, "abc") == 0, "in the order of their deadlines");
    reactor_destruere(reactor);
}

struct chain {
    Reactor *reactor;
    int links;
};

static vacuum on_tick_chain(vacuum *data)
{
    struct chain *chain = data;
    chain->links++;
    reactor_timer_adicere(chain->reactor, 0, FALSUM, on_tick_chain, chain);
}

static void fault_a_zero_timer_set_in_a_callback_fired_in_the_same_pass(void)
{
    int ends[2], poll;
    struct chain chain = {0};
    struct meddler seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    chain.reactor = reactor;
    make_pipe(ends);
    write_byte(ends[1]);
    reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_count, &seen);
    reactor_timer_adicere(reactor, 0, FALSUM, on_tick_chain, &chain);
    for (poll = 1; poll <= 100; poll++) {
        CHECK(reactor_poll(reactor, 0) == 2, "one timer and one descriptor on every poll");
        CHECK(chain.links == poll && seen.calls == poll, "neither starves the other");
    }
    reactor_destruere(reactor);
    close_both(ends);
}

static vacuum on_tick_stop(vacuum *data)
{
    reactor_sistere(data);
}

static void fault_a_stop_before_currere_was_lost(void)
{
    int ticks = 0;
    Reactor *reactor = reactor_creare(PISCINA);
    reactor_timer_adicere(reactor, 0, FALSUM, on_tick, &ticks);
    reactor_sistere(reactor);
    reactor_currere(reactor);
    CHECK(ticks == 1, "one turn was made, and it did not wait");
    reactor_timer_adicere(reactor, 1, FALSUM, on_tick_stop, reactor);
    reactor_currere(reactor);
    CHECK(reactor_numerus_timer(reactor) == 0, "the next run is a full one");
    reactor_destruere(reactor);
}

static void fault_an_interrupted_poll_returned_early(void)
{
    struct interruptions interruptions;
    int64_t start;
    Reactor *reactor = reactor_creare(PISCINA);
    begin_interruptions(&interruptions);
    do {
        start = monotonic_ns();
        CHECK(reactor_poll(reactor, 20) == 0, "nothing happens");
        CHECK(monotonic_ns() - start >= 20 * 1000000, "for as long as was asked, whatever signals arrive");
    } while (interruptions_seen < 3);
    end_interruptions(&interruptions);
    reactor_destruere(reactor);
}

static void fault_destruere_left_timers_counted(void)
{
    int ticks = 0;
    Reactor *reactor = reactor_creare(PISCINA);
    reactor_timer_adicere(reactor, 1000, VERUM, on_tick, &ticks);
    reactor_destruere(reactor);
    CHECK(reactor_numerus_timer(reactor) == 0, "none is left");
}

int main(void)
{
    RUN(fault_modificare_in_a_callback_starved_later_descriptors);
    RUN(fault_modificare_of_another_in_a_callback_starved_it);
    RUN(fault_adicere_of_another_in_a_callback_starved_it);
    RUN(fault_a_thousand_registrations_in_a_lifetime_were_all);
    RUN(fault_poll_and_currere_spun_with_nothing_registered);
    RUN(fault_a_closed_descriptor_was_reported_for_ever_with_no_event);
    RUN(fault_a_closed_descriptor_with_a_duplicate_spins_nothing);
    RUN(fault_a_timer_set_by_a_self_cancelling_one_shot_was_killed);
    RUN(fault_a_repeating_timer_that_cancels_itself_stays_cancelled);
    RUN(fault_a_repeating_timer_drifted);
    RUN(fault_a_repeating_timer_after_a_stall_fires_once);
    RUN(fault_timers_fired_in_the_order_of_their_slots);
    RUN(fault_a_zero_timer_set_in_a_callback_fired_in_the_same_pass);
    RUN(fault_a_stop_before_currere_was_lost);
    RUN(fault_an_interrupted_poll_returned_early);
    RUN(fault_destruere_left_timers_counted);
    return 0;
}
