/*
 * Every function of the original library, as its document describes it, and the document's own
 * examples.
 */
#include "check.h"
#include "original/reactor.h"

struct seen {
    int calls;
    int fd;
    i32 eventus;
    i32 all_events;
    Reactor *reactor;
    int drains;
};

static vacuum on_event(integer fd, i32 eventus, vacuum *data)
{
    struct seen *seen = data;
    seen->calls++;
    seen->fd = fd;
    seen->eventus = eventus;
    seen->all_events |= eventus;
    if (seen->drains)
        drain(fd);
}

static vacuum on_other_event(integer fd, i32 eventus, vacuum *data)
{
    on_event(fd, eventus, data);
    ((struct seen *)data)->calls += 99;
}

static vacuum on_tick(vacuum *data)
{
    ++*(int *)data;
}

static vacuum on_tick_stop(vacuum *data)
{
    reactor_sistere(data);
}

static void fn_reactor_creare_starts_stopped_and_empty(void)
{
    Reactor *reactor = reactor_creare(PISCINA);
    CHECK(reactor != NIHIL, "a reactor");
    CHECK(reactor_est_currens(reactor) == FALSUM, "it starts stopped");
    CHECK(reactor_numerus_fd(reactor) == 0 && reactor_numerus_timer(reactor) == 0, "it starts empty");
    reactor_destruere(reactor);
}

static void fn_reactor_creare_without_an_arena_fails(void)
{
    CHECK(reactor_creare(NIHIL) == NIHIL, "no arena, no reactor");
}

static void fn_reactor_destruere_of_null_is_fine(void)
{
    reactor_destruere(NIHIL);
}

static void fn_reactor_destruere_gives_every_descriptor_back(void)
{
    int before = open_descriptors(), ends[2], ticks = 0;
    struct seen seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &seen), "registered");
    CHECK(reactor_timer_adicere(reactor, 1, VERUM, on_tick, &ticks) == 0, "a timer");
    reactor_destruere(reactor);
    CHECK(fcntl(ends[0], F_GETFD) >= 0, "the caller's descriptors stay open");
    close_both(ends);
    CHECK(open_descriptors() == before, "nothing is left open");
}

static void fn_reactor_adicere_reports_readable_and_writable(void)
{
    int ends[2];
    struct seen seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_sockets(ends);
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &seen) == VERUM, "registered");
    CHECK(reactor_numerus_fd(reactor) == 1, "counted");
    CHECK(reactor_poll(reactor, 0) == 0 && seen.calls == 0, "nothing to read yet");
    write_byte(ends[1]);
    CHECK(reactor_poll(reactor, 0xFFFFFFFFu) == 1, "one event");
    CHECK(seen.calls == 1 && seen.fd == ends[0] && seen.eventus == REACTOR_LEGERE, "readable, and nothing else");
    CHECK(reactor_poll(reactor, 0) == 1 && seen.calls == 2, "reported again while it is readable");
    CHECK(reactor_modificare(reactor, ends[0], REACTOR_LEGERE | REACTOR_SCRIBERE) == VERUM, "both");
    CHECK(reactor_poll(reactor, 0) == 1, "one event for both");
    CHECK(seen.eventus == (REACTOR_LEGERE | REACTOR_SCRIBERE), "both in one call");
    reactor_destruere(reactor);
    close_both(ends);
}

static void fn_reactor_adicere_again_updates_events_callback_and_data(void)
{
    int ends[2];
    struct seen first = {0}, second = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_sockets(ends);
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &first), "registered");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_SCRIBERE, on_other_event, &second), "updated");
    CHECK(reactor_numerus_fd(reactor) == 1, "not a duplicate");
    CHECK(reactor_poll(reactor, 0) == 1, "writable");
    CHECK(first.calls == 0 && second.calls == 100 && second.eventus == REACTOR_SCRIBERE, "the new entry is called");
    reactor_destruere(reactor);
    close_both(ends);
}

static void fn_reactor_adicere_takes_every_documented_event(void)
{
    int ends[2];
    struct seen seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    i32 all = REACTOR_LEGERE | REACTOR_SCRIBERE | REACTOR_ERROR | REACTOR_CLAUSUM;
    make_sockets(ends);
    CHECK(reactor_adicere(reactor, ends[0], all, on_event, &seen), "all four");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_ERROR | REACTOR_CLAUSUM, on_event, &seen), "bad news only");
    CHECK(reactor_poll(reactor, 0) == 0, "writable is not asked for");
    close(ends[1]);
    CHECK(reactor_poll(reactor, 0xFFFFFFFFu) == 1 && (seen.eventus & REACTOR_CLAUSUM), "closed by the peer");
    CHECK(!(seen.eventus & (REACTOR_LEGERE | REACTOR_SCRIBERE)), "nothing that was not asked for");
    reactor_destruere(reactor);
    close(ends[0]);
}

static void fn_reactor_adicere_reports_clausum_and_error(void)
{
    int ends[2];
    struct seen seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &seen), "the reading end");
    close(ends[1]);
    CHECK(reactor_poll(reactor, 0xFFFFFFFFu) == 1 && seen.eventus == REACTOR_CLAUSUM, "no writer is left");
    reactor_removere(reactor, ends[0]);
    close(ends[0]);

    make_pipe(ends);
    CHECK(reactor_adicere(reactor, ends[1], REACTOR_SCRIBERE, on_event, &seen), "the writing end");
    close(ends[0]);
    CHECK(reactor_poll(reactor, 0xFFFFFFFFu) == 1, "no reader is left");
    CHECK(seen.eventus == (REACTOR_SCRIBERE | REACTOR_ERROR), "an error, and a write that would report it");
    reactor_destruere(reactor);
    close(ends[1]);
}

static void fn_reactor_modificare_changes_the_events(void)
{
    int ends[2];
    struct seen seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_sockets(ends);
    CHECK(reactor_modificare(reactor, ends[0], REACTOR_LEGERE) == FALSUM, "not registered yet");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_SCRIBERE, on_event, &seen), "registered");
    CHECK(reactor_modificare(reactor, ends[0], REACTOR_LEGERE) == VERUM, "modified");
    CHECK(reactor_poll(reactor, 0) == 0, "writable is not asked for any more");
    write_byte(ends[1]);
    CHECK(reactor_poll(reactor, 0) == 1 && seen.eventus == REACTOR_LEGERE, "readable is");
    CHECK(reactor_modificare(reactor, ends[0], 0) == VERUM, "paused");
    CHECK(reactor_poll(reactor, 0) == 0 && reactor_numerus_fd(reactor) == 1, "silent, but still registered");
    CHECK(reactor_modificare(reactor, ends[0], REACTOR_LEGERE) == VERUM, "resumed");
    CHECK(reactor_poll(reactor, 0) == 1, "the byte is still there");
    reactor_destruere(reactor);
    close_both(ends);
}

static void fn_reactor_removere_ends_a_registration(void)
{
    int ends[2];
    struct seen seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    write_byte(ends[1]);
    CHECK(reactor_removere(reactor, ends[0]) == FALSUM, "not registered yet");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &seen), "registered");
    CHECK(reactor_removere(reactor, ends[0]) == VERUM, "removed");
    CHECK(reactor_removere(reactor, ends[0]) == FALSUM, "removed once");
    CHECK(reactor_poll(reactor, 0) == 0 && seen.calls == 0, "silent");
    CHECK(reactor_numerus_fd(reactor) == 0, "not counted");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &seen), "registered anew");
    CHECK(reactor_poll(reactor, 0) == 1 && seen.calls == 1, "called anew");
    reactor_destruere(reactor);
    close_both(ends);
}

static void fn_reactor_timer_adicere_gives_ids_from_zero_that_grow(void)
{
    int ticks = 0;
    i32 expected;
    Reactor *reactor = reactor_creare(PISCINA);
    for (expected = 0; expected < 300; expected++) {
        ReactorTimerId id = reactor_timer_adicere(reactor, 100000, expected % 2, on_tick, &ticks);
        CHECK(id == expected, "one more than the last");
        CHECK(reactor_timer_cancellare(reactor, id) == VERUM, "cancelled");
    }
    reactor_destruere(reactor);
}

static void fn_reactor_timer_adicere_fires_a_one_shot_once_and_never_early(void)
{
    int ticks = 0;
    int64_t start = monotonic_ns();
    Reactor *reactor = reactor_creare(PISCINA);
    CHECK(reactor_timer_adicere(reactor, 20, FALSUM, on_tick, &ticks) == 0, "a timer");
    CHECK(reactor_numerus_timer(reactor) == 1, "active");
    CHECK(reactor_poll(reactor, 0xFFFFFFFFu) == 1 && ticks == 1, "fired");
    CHECK(monotonic_ns() - start >= 20 * 1000000, "not early");
    CHECK(reactor_numerus_timer(reactor) == 0, "not active any more");
    CHECK(reactor_poll(reactor, 0) == 0 && ticks == 1, "only once");
    reactor_destruere(reactor);
}

static void fn_reactor_timer_adicere_repeats(void)
{
    int ticks = 0;
    int64_t start = monotonic_ns();
    Reactor *reactor = reactor_creare(PISCINA);
    ReactorTimerId id = reactor_timer_adicere(reactor, 5, VERUM, on_tick, &ticks);
    while (ticks < 4)
        CHECK(reactor_poll(reactor, 0xFFFFFFFFu) == 1, "one timer per poll");
    CHECK(monotonic_ns() - start >= 4 * 5 * 1000000, "not early");
    CHECK(reactor_numerus_timer(reactor) == 1, "still active");
    CHECK(reactor_timer_cancellare(reactor, id) == VERUM, "until it is cancelled");
    reactor_destruere(reactor);
}

static void fn_reactor_timer_adicere_with_no_time_fires_on_the_next_poll(void)
{
    int once = 0, again = 0, poll;
    Reactor *reactor = reactor_creare(PISCINA);
    reactor_timer_adicere(reactor, 0, FALSUM, on_tick, &once);
    reactor_timer_adicere(reactor, 0, VERUM, on_tick, &again);
    CHECK(reactor_poll(reactor, 0) == 2 && once == 1 && again == 1, "both are due at once");
    for (poll = 2; poll < 10; poll++)
        CHECK(reactor_poll(reactor, 0xFFFFFFFFu) == 1 && again == poll, "the repeating one on every poll");
    CHECK(once == 1, "the other only once");
    reactor_destruere(reactor);
}

static void fn_reactor_timer_adicere_takes_the_longest_timeout(void)
{
    int ticks = 0;
    Reactor *reactor = reactor_creare(PISCINA);
    CHECK(reactor_timer_adicere(reactor, 0xFFFFFFFFu, VERUM, on_tick, &ticks) == 0, "49 days");
    CHECK(reactor_poll(reactor, 0) == 0 && ticks == 0, "not yet");
    reactor_destruere(reactor);
}

static void fn_reactor_timer_cancellare_keeps_a_timer_from_firing(void)
{
    int ticks = 0;
    Reactor *reactor = reactor_creare(PISCINA);
    ReactorTimerId id = reactor_timer_adicere(reactor, 0, FALSUM, on_tick, &ticks);
    CHECK(reactor_timer_cancellare(reactor, id) == VERUM, "cancelled");
    CHECK(reactor_timer_cancellare(reactor, id) == FALSUM, "cancelled once");
    CHECK(reactor_poll(reactor, 0) == 0 && ticks == 0, "it does not fire");
    id = reactor_timer_adicere(reactor, 0, FALSUM, on_tick, &ticks);
    CHECK(reactor_poll(reactor, 0) == 1 && ticks == 1, "another does");
    CHECK(reactor_timer_cancellare(reactor, id) == FALSUM, "too late");
    reactor_destruere(reactor);
}

static void fn_reactor_poll_counts_descriptors_and_timers(void)
{
    int first[2], second[2], ticks = 0;
    struct seen seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(first);
    make_pipe(second);
    write_byte(first[1]);
    write_byte(second[1]);
    reactor_adicere(reactor, first[0], REACTOR_LEGERE, on_event, &seen);
    reactor_adicere(reactor, second[0], REACTOR_LEGERE, on_event, &seen);
    reactor_timer_adicere(reactor, 0, FALSUM, on_tick, &ticks);
    CHECK(reactor_poll(reactor, 0) == 3, "two descriptors and a timer");
    CHECK(seen.calls == 2 && ticks == 1, "all of them called");
    reactor_destruere(reactor);
    close_both(first);
    close_both(second);
}

static void fn_reactor_poll_waits_as_long_as_asked(void)
{
    int64_t start = monotonic_ns();
    Reactor *reactor = reactor_creare(PISCINA);
    CHECK(reactor_poll(reactor, 0) == 0, "not at all");
    CHECK(reactor_poll(reactor, 25) == 0, "a while");
    CHECK(monotonic_ns() - start >= 25 * 1000000, "not less");
    reactor_destruere(reactor);
}

static int fds_called, timers_called_before_fds;

static vacuum on_ordered_event(integer fd, i32 eventus, vacuum *data)
{
    (void)fd;
    (void)eventus;
    (void)data;
    fds_called++;
}

static vacuum on_ordered_tick(vacuum *data)
{
    (void)data;
    if (fds_called == 0)
        timers_called_before_fds++;
}

static void fn_reactor_poll_calls_descriptors_before_timers(void)
{
    int ends[2];
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    reactor_timer_adicere(reactor, 0, FALSUM, on_ordered_tick, NIHIL);
    reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_ordered_event, NIHIL);
    write_byte(ends[1]);
    CHECK(reactor_poll(reactor, 0) == 2, "both");
    CHECK(timers_called_before_fds == 0, "the descriptor first");
    reactor_destruere(reactor);
    close_both(ends);
}

static vacuum on_tick_look(vacuum *data)
{
    CHECK(reactor_est_currens(data) == VERUM, "running, as seen from a callback");
}

static void fn_reactor_currere_runs_until_sistere(void)
{
    Reactor *reactor = reactor_creare(PISCINA);
    reactor_timer_adicere(reactor, 1, FALSUM, on_tick_look, reactor);
    reactor_timer_adicere(reactor, 10, FALSUM, on_tick_stop, reactor);
    reactor_currere(reactor);
    CHECK(reactor_est_currens(reactor) == FALSUM, "stopped again");
    CHECK(reactor_numerus_timer(reactor) == 0, "after both timers");
    reactor_destruere(reactor);
}

/* A program that has closed the loop's descriptors, with its standard error in a pipe. */
static void run_without_descriptors(int messages)
{
    int fd;
    Reactor *reactor = reactor_creare(PISCINA);
    CHECK(dup2(messages, 2) == 2, "standard error");
    for (fd = 3; fd < 64; fd++)
        close(fd);
    reactor_currere(reactor);
    _exit(7);
}

static void fn_reactor_currere_says_why_it_ends_unasked(void)
{
    char text[4096];
    int ends[2], status = 0;
    size_t length = 0;
    ssize_t count;
    pid_t child;
    CHECK(pipe(ends) == 0, "a pipe");
    child = fork();
    CHECK(child >= 0, "a child");
    if (child == 0)
        run_without_descriptors(ends[1]);
    close(ends[1]);
    while (length < sizeof text - 1 && (count = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)count;
    text[length] = '\0';
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "it returned");
    CHECK(strstr(text, "reactor_currere: ") != NULL && strstr(text, "failed") != NULL, "and said why");
}

static void *stop_from_elsewhere(void *reactor)
{
    reactor_sistere(reactor);
    return NULL;
}

static void fn_reactor_sistere_works_from_another_thread(void)
{
    pthread_t thread;
    Reactor *reactor = reactor_creare(PISCINA);
    CHECK(pthread_create(&thread, NULL, stop_from_elsewhere, reactor) == 0, "a thread");
    reactor_currere(reactor);
    pthread_join(thread, NULL);
    CHECK(reactor_est_currens(reactor) == FALSUM, "stopped");
    reactor_destruere(reactor);
}

static void fn_reactor_est_currens_is_false_outside_currere(void)
{
    Reactor *reactor = reactor_creare(PISCINA);
    CHECK(reactor_est_currens(reactor) == FALSUM, "before");
    reactor_sistere(reactor);
    reactor_currere(reactor);
    CHECK(reactor_est_currens(reactor) == FALSUM, "after");
    reactor_destruere(reactor);
}

static void fn_reactor_numerus_fd_and_timer_count_what_is_active(void)
{
    int ends[2], ticks = 0;
    struct seen seen = {0};
    ReactorTimerId id;
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(ends);
    reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, &seen);
    reactor_adicere(reactor, ends[1], REACTOR_SCRIBERE, on_event, &seen);
    CHECK(reactor_numerus_fd(reactor) == 2, "two descriptors");
    reactor_removere(reactor, ends[1]);
    CHECK(reactor_numerus_fd(reactor) == 1, "one descriptor");
    id = reactor_timer_adicere(reactor, 1000, VERUM, on_tick, &ticks);
    reactor_timer_adicere(reactor, 0, FALSUM, on_tick, &ticks);
    CHECK(reactor_numerus_timer(reactor) == 2, "two timers");
    reactor_poll(reactor, 0);
    CHECK(reactor_numerus_timer(reactor) == 1, "the one-shot has fired");
    reactor_timer_cancellare(reactor, id);
    CHECK(reactor_numerus_timer(reactor) == 0, "none");
    reactor_destruere(reactor);
    close_both(ends);
}

static void example_basic_fd_monitoring_with_poll(void)
{
    int pipe_fds[2];
    struct seen seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    make_pipe(pipe_fds);
    reactor_adicere(reactor, pipe_fds[0], REACTOR_LEGERE, on_event, &seen);
    CHECK(write(pipe_fds[1], "Salve", 5) == 5, "written");
    CHECK(reactor_poll(reactor, 100) == 1 && seen.eventus == REACTOR_LEGERE, "on_data was called");
    reactor_destruere(reactor);
    close_both(pipe_fds);
}

static void example_self_stopping_event_loop(void)
{
    int64_t start = monotonic_ns();
    Reactor *reactor = reactor_creare(PISCINA);
    reactor_timer_adicere(reactor, 50, FALSUM, on_tick_stop, reactor);
    reactor_currere(reactor);
    CHECK(monotonic_ns() - start >= 50 * 1000000, "it ran for 50 ms");
    reactor_destruere(reactor);
}

static void example_combined_fd_and_timer(void)
{
    int pipe_fds[2];
    struct seen seen = {0};
    Reactor *reactor = reactor_creare(PISCINA);
    seen.drains = 1;
    make_pipe(pipe_fds);
    reactor_adicere(reactor, pipe_fds[0], REACTOR_LEGERE, on_event, &seen);
    CHECK(write(pipe_fds[1], "Probatio", 8) == 8, "written");
    reactor_timer_adicere(reactor, 20, FALSUM, on_tick_stop, reactor);
    reactor_currere(reactor);
    CHECK(seen.calls == 1, "on_data was called, and the timer stopped the loop");
    reactor_destruere(reactor);
    close_both(pipe_fds);
}

int main(void)
{
    RUN(fn_reactor_creare_starts_stopped_and_empty);
    RUN(fn_reactor_creare_without_an_arena_fails);
    RUN(fn_reactor_destruere_of_null_is_fine);
    RUN(fn_reactor_destruere_gives_every_descriptor_back);
    RUN(fn_reactor_adicere_reports_readable_and_writable);
    RUN(fn_reactor_adicere_again_updates_events_callback_and_data);
    RUN(fn_reactor_adicere_takes_every_documented_event);
    RUN(fn_reactor_adicere_reports_clausum_and_error);
    RUN(fn_reactor_modificare_changes_the_events);
    RUN(fn_reactor_removere_ends_a_registration);
    RUN(fn_reactor_timer_adicere_gives_ids_from_zero_that_grow);
    RUN(fn_reactor_timer_adicere_fires_a_one_shot_once_and_never_early);
    RUN(fn_reactor_timer_adicere_repeats);
    RUN(fn_reactor_timer_adicere_with_no_time_fires_on_the_next_poll);
    RUN(fn_reactor_timer_adicere_takes_the_longest_timeout);
    RUN(fn_reactor_timer_cancellare_keeps_a_timer_from_firing);
    RUN(fn_reactor_poll_counts_descriptors_and_timers);
    RUN(fn_reactor_poll_waits_as_long_as_asked);
    RUN(fn_reactor_poll_calls_descriptors_before_timers);
    RUN(fn_reactor_currere_runs_until_sistere);
    RUN(fn_reactor_currere_says_why_it_ends_unasked);
    RUN(fn_reactor_sistere_works_from_another_thread);
    RUN(fn_reactor_est_currens_is_false_outside_currere);
    RUN(fn_reactor_numerus_fd_and_timer_count_what_is_active);
    RUN(example_basic_fd_monitoring_with_poll);
    RUN(example_self_stopping_event_loop);
    RUN(example_combined_fd_and_timer);
    return 0;
}
