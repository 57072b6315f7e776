/* Every function with every kind of bad argument: an error each time, and never a crash. */
#include "english.h"

#include "reactor.h"

static int marker;

/* Names that are no reactors: null, odd, made up, an address that exists, all ones. */
static ms_reactor *bad_name(int index)
{
    switch (index) {
    case 0: return NULL;
    case 1: return (ms_reactor *)(uintptr_t)1;
    case 2: return (ms_reactor *)(uintptr_t)0x10;
    case 3: return (ms_reactor *)(uintptr_t)0xdeadbee0;
    case 4: return (ms_reactor *)(void *)&marker;
    case 5: return (ms_reactor *)UINTPTR_MAX;
    default: return NULL;
    }
}

#define BAD_NAMES 6

static void on_signal(ms_reactor *reactor, int signal_number, unsigned count, void *data)
{
    (void)reactor;
    (void)signal_number;
    (void)count;
    (void)data;
}

static void on_child(ms_reactor *reactor, int pid, int status, void *data)
{
    (void)reactor;
    (void)pid;
    (void)status;
    (void)data;
}

static void on_stall(const char *label, uint64_t running_ns, void *data)
{
    (void)label;
    (void)running_ns;
    (void)data;
}

static void refuses_everything(ms_reactor *reactor)
{
    int bad = MS_REACTOR_ERROR_BAD_REACTOR, ticks = 0;
    struct seen seen = {0};
    int64_t ns;
    uint64_t name = 0;
    ms_reactor_stats stats;
    ms_reactor_timing timing;
    CHECK(ms_reactor_backend_of(reactor) == bad, "backend_of");
    CHECK(ms_reactor_watch(reactor, 0, 1, 0, on_ready, &seen, &name) == bad, "watch");
    CHECK(ms_reactor_watch_separate(reactor, 0, 0, on_ready, NULL, NULL, &seen, &name) == bad, "watch_separate");
    CHECK(ms_reactor_modify(reactor, 1, 1) == bad, "modify");
    CHECK(ms_reactor_rearm(reactor, 1) == bad, "rearm");
    CHECK(ms_reactor_unwatch(reactor, 1) == bad, "unwatch");
    CHECK(ms_reactor_watcher_of(reactor, 0) == 0, "watcher_of");
    CHECK(ms_reactor_is_watching(reactor, 1) == bad, "is_watching");
    CHECK(ms_reactor_watcher_count(reactor) == bad, "watcher_count");
    CHECK(ms_reactor_now(reactor, &ns) == bad, "now");
    CHECK(ms_reactor_at(reactor, 0, on_timer, &ticks, &name) == bad, "at");
    CHECK(ms_reactor_after(reactor, 0, on_timer, &ticks, &name) == bad, "after");
    CHECK(ms_reactor_every(reactor, 1, on_timer, &ticks, &name) == bad, "every");
    CHECK(ms_reactor_every_from(reactor, 0, 1, on_timer, &ticks, &name) == bad, "every_from");
    CHECK(ms_reactor_cancel(reactor, 1) == bad, "cancel");
    CHECK(ms_reactor_reschedule_at(reactor, 1, 0) == bad, "reschedule_at");
    CHECK(ms_reactor_reschedule_after(reactor, 1, 0) == bad, "reschedule_after");
    CHECK(ms_reactor_has_timer(reactor, 1) == bad, "has_timer");
    CHECK(ms_reactor_timer_count(reactor) == bad, "timer_count");
    CHECK(ms_reactor_next_deadline(reactor, &ns) == bad, "next_deadline");
    CHECK(ms_reactor_advance(reactor, 1) == bad, "advance");
    CHECK(ms_reactor_poll(reactor, 0) == bad, "poll");
    CHECK(ms_reactor_poll_ns(reactor, 0) == bad, "poll_ns");
    CHECK(ms_reactor_run(reactor) == bad, "run");
    CHECK(ms_reactor_run_until_idle(reactor) == bad, "run_until_idle");
    CHECK(ms_reactor_stop(reactor) == bad, "stop");
    CHECK(ms_reactor_is_running(reactor) == bad, "is_running");
    CHECK(ms_reactor_defer(reactor, on_call, &ticks) == bad, "defer");
    CHECK(ms_reactor_call(reactor, on_call, &ticks) == bad, "call");
    CHECK(ms_reactor_wake(reactor) == bad, "wake");
    CHECK(ms_reactor_wakeup_create(reactor, on_call, &ticks, &name) == bad, "wakeup_create");
    CHECK(ms_reactor_on_signal(reactor, SIGUSR1, on_signal, NULL, &name) == bad, "on_signal");
    CHECK(ms_reactor_unwatch_signal(reactor, 1) == bad, "unwatch_signal");
    CHECK(ms_reactor_on_child_exit(reactor, 1, on_child, NULL, &name) == bad, "on_child_exit");
    CHECK(ms_reactor_unwatch_child(reactor, 1) == bad, "unwatch_child");
    CHECK(ms_reactor_embedding_fd(reactor) == bad, "embedding_fd");
    CHECK(ms_reactor_get_stats(reactor, &stats, sizeof stats) == bad, "get_stats");
    CHECK(ms_reactor_set_timing(reactor, 1) == bad, "set_timing");
    CHECK(ms_reactor_get_timing(reactor, &timing, sizeof timing) == bad, "get_timing");
    CHECK(ms_reactor_label_watcher(reactor, 1, "label") == bad, "label_watcher");
    CHECK(ms_reactor_label_timer(reactor, 1, "label") == bad, "label_timer");
    CHECK(ms_reactor_watch_stalls(reactor, 1, on_stall, NULL) == bad, "watch_stalls");
    CHECK(name == 0 && ticks == 0 && seen.calls == 0, "nothing was stored or called");
}

static void no_function_takes_a_bad_reactor(void)
{
    int index;
    for (index = 0; index < BAD_NAMES; index++) {
        refuses_everything(bad_name(index));
        CHECK(ms_reactor_destroy(bad_name(index)) == (index == 0 ? 0 : MS_REACTOR_ERROR_BAD_REACTOR), "destroy");
    }
}

static void no_function_takes_a_destroyed_reactor(void)
{
    ms_reactor *reactor = new_reactor(MS_REACTOR_BACKEND_BEST);
    ms_reactor_destroy(reactor);
    refuses_everything(reactor);
    CHECK(ms_reactor_destroy(reactor) == MS_REACTOR_ERROR_BAD_REACTOR, "destroy");
}

static void no_function_takes_null_where_it_matters(int backend)
{
    int invalid = MS_REACTOR_ERROR_INVALID, ends[2], ticks = 0;
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    CHECK(ms_reactor_watch(reactor, ends[0], 1, 0, NULL, NULL, NULL) == invalid, "watch");
    CHECK(ms_reactor_now(reactor, NULL) == invalid, "now");
    CHECK(ms_reactor_at(reactor, 0, NULL, NULL, NULL) == invalid, "at");
    CHECK(ms_reactor_after(reactor, 0, NULL, NULL, NULL) == invalid, "after");
    CHECK(ms_reactor_every(reactor, 1, NULL, NULL, NULL) == invalid, "every");
    CHECK(ms_reactor_every_from(reactor, 0, 1, NULL, NULL, NULL) == invalid, "every_from");
    CHECK(ms_reactor_next_deadline(reactor, NULL) == invalid, "next_deadline");
    CHECK(ms_reactor_defer(reactor, NULL, NULL) == invalid, "defer");
    CHECK(ms_reactor_call(reactor, NULL, NULL) == invalid, "call");
    CHECK(ms_reactor_wakeup_create(reactor, NULL, NULL, NULL) == invalid, "wakeup_create");
    CHECK(ms_reactor_wakeup_create(reactor, on_call, &ticks, NULL) == invalid, "wakeup_create without a place");
    CHECK(ms_reactor_on_signal(reactor, SIGUSR1, NULL, NULL, NULL) == invalid, "on_signal");
    CHECK(ms_reactor_on_child_exit(reactor, 1, NULL, NULL, NULL) == invalid, "on_child_exit");
    CHECK(ms_reactor_get_stats(reactor, NULL, sizeof(ms_reactor_stats)) == invalid, "get_stats");
    CHECK(ms_reactor_get_timing(reactor, NULL, sizeof(ms_reactor_timing)) == invalid, "get_timing");
    CHECK(ms_reactor_watch(reactor, ends[0], 1, 4, on_ready, NULL, NULL) == invalid, "an unknown mode");
    CHECK(ms_reactor_watch(reactor, ends[0], 1, -1, on_ready, NULL, NULL) == invalid, "a negative mode");
    CHECK(ms_reactor_watch_separate(reactor, ends[0], 4, on_ready, NULL, NULL, NULL, NULL) == invalid, "either");
    CHECK(ms_reactor_watch(reactor, ends[0], ~0u, 0, on_ready, NULL, NULL) == invalid, "unknown bits");
    CHECK(ms_reactor_watcher_count(reactor) == 0 && ms_reactor_timer_count(reactor) == 0, "nothing was begun");
    CHECK(ms_reactor_poll(reactor, 0) == 0, "and nothing runs");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void made_up_names_of_watchers_timers_and_the_rest_reach_nothing(int backend)
{
    static const uint64_t low[] = {0, 1, 2, 77};
    int index, ends[2], ticks = 0;
    struct seen seen = {0};
    ms_reactor_watcher watcher;
    ms_reactor_timer timer;
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    OK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_ready, &seen, &watcher));
    OK(ms_reactor_after(reactor, 0, on_timer, &ticks, &timer));
    for (index = 0; index < 12; index++) {
        uint64_t name = index < 4   ? low[index]
                        : index < 8 ? ~low[index - 4]
                                    : (watcher ^ ((uint64_t)1 << (20 + 4 * (index - 8))));
        CHECK(ms_reactor_modify(reactor, name, 1) == MS_REACTOR_ERROR_GONE, "modify");
        CHECK(ms_reactor_rearm(reactor, name) == MS_REACTOR_ERROR_GONE, "rearm");
        CHECK(ms_reactor_unwatch(reactor, name) == 0, "unwatch");
        CHECK(ms_reactor_is_watching(reactor, name) == 0, "is_watching");
        CHECK(ms_reactor_cancel(reactor, name) == 0, "cancel");
        CHECK(ms_reactor_reschedule_at(reactor, name, 0) == MS_REACTOR_ERROR_GONE, "reschedule_at");
        CHECK(ms_reactor_reschedule_after(reactor, name, 0) == MS_REACTOR_ERROR_GONE, "reschedule_after");
        CHECK(ms_reactor_has_timer(reactor, name) == 0, "has_timer");
        CHECK(ms_reactor_unwatch_signal(reactor, name) == 0, "unwatch_signal");
        CHECK(ms_reactor_unwatch_child(reactor, name) == 0, "unwatch_child");
        CHECK(ms_reactor_wakeup_signal(name) == MS_REACTOR_ERROR_GONE, "wakeup_signal");
        CHECK(ms_reactor_wakeup_destroy(name) == 0, "wakeup_destroy");
        CHECK(ms_reactor_label_watcher(reactor, name, "x") == MS_REACTOR_ERROR_GONE, "label_watcher");
        CHECK(ms_reactor_label_timer(reactor, name, "x") == MS_REACTOR_ERROR_GONE, "label_timer");
    }
    CHECK(ms_reactor_watcher_of(reactor, -1) == 0 && ms_reactor_watcher_of(reactor, 1000000) == 0, "watcher_of");
    CHECK(ms_reactor_is_watching(reactor, watcher) == 1, "the real ones are still there");
    CHECK(ms_reactor_poll(reactor, 0) == 1 && ticks == 1, "and work");
    CHECK(ms_reactor_cancel(reactor, timer) == 0, "an old name is as good as a made-up one");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void on_event(int fd, unsigned int eventus, void *data)
{
    (void)fd;
    (void)eventus;
    (void)data;
}

static void on_tick(void *data)
{
    (void)data;
}

static void the_original_names_fail_on_bad_reactors(void)
{
    int index;
    for (index = 0; index < BAD_NAMES; index++) {
        Reactor *reactor = (Reactor *)bad_name(index);
        reactor_destruere(reactor);
        CHECK(reactor_adicere(reactor, 0, REACTOR_LEGERE, on_event, NULL) == 0, "adicere");
        CHECK(reactor_modificare(reactor, 0, REACTOR_LEGERE) == 0, "modificare");
        CHECK(reactor_removere(reactor, 0) == 0, "removere");
        CHECK(reactor_timer_adicere(reactor, 0, 0, on_tick, NULL) == REACTOR_TIMER_ERROR, "timer_adicere");
        CHECK(reactor_timer_cancellare(reactor, 0) == 0, "timer_cancellare");
        CHECK(reactor_poll(reactor, 0) == 0 && reactor_poll(reactor, 0xFFFFFFFFu) == 0, "poll");
        reactor_currere(reactor);
        reactor_sistere(reactor);
        CHECK(reactor_est_currens(reactor) == 0, "est_currens");
        CHECK(reactor_numerus_fd(reactor) == 0 && reactor_numerus_timer(reactor) == 0, "numerus");
    }
}

static void the_original_names_fail_on_bad_arguments(void)
{
    int ends[2];
    Reactor *reactor = reactor_creare((Piscina *)(void *)&marker);
    make_pipe(ends);
    CHECK(reactor_adicere(reactor, -1, REACTOR_LEGERE, on_event, NULL) == 0, "a negative descriptor");
    CHECK(reactor_adicere(reactor, 999999, REACTOR_LEGERE, on_event, NULL) == 0, "a closed one");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, NULL, NULL) == 0, "no callback");
    CHECK(reactor_adicere(reactor, ends[0], 0x10, on_event, NULL) == 0, "unknown events");
    CHECK(reactor_adicere(reactor, ends[0], 0xFFFFFFFFu, on_event, NULL) == 0, "all events there could be");
    CHECK(reactor_numerus_fd(reactor) == 0, "nothing is registered");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, NULL) == 1, "registered");
    CHECK(reactor_modificare(reactor, ends[0], 0x100) == 0, "unknown events");
    CHECK(reactor_modificare(reactor, -1, REACTOR_LEGERE) == 0, "a negative descriptor");
    CHECK(reactor_removere(reactor, -1) == 0, "a negative descriptor");
    CHECK(reactor_removere(reactor, ends[1]) == 0, "one that is not registered");
    CHECK(reactor_timer_adicere(reactor, 1, 1, NULL, NULL) == REACTOR_TIMER_ERROR, "no callback");
    CHECK(reactor_timer_cancellare(reactor, 0) == 0, "no such timer");
    CHECK(reactor_timer_cancellare(reactor, 0xFFFFFFFFu) == 0, "nor this");
    CHECK(reactor_numerus_fd(reactor) == 1 && reactor_numerus_timer(reactor) == 0, "and all is as it was");
    reactor_destruere(reactor);
    close_both(ends);
}

static int reentered;

static void on_tick_reenter(void *data)
{
    reentered++;
    CHECK(reactor_poll(data, 0) == 0, "poll returns at once");
    CHECK(reactor_poll(data, 0xFFFFFFFFu) == 0, "however long it was to wait");
    reactor_currere(data);
    CHECK(ms_reactor_last_error() == MS_REACTOR_ERROR_REENTRANT, "and the reason can be asked for");
    CHECK(reactor_est_currens(data) == 1, "the run that is in progress goes on");
    reactor_sistere(data);
}

static void the_original_names_return_at_once_when_re_entered(void)
{
    Reactor *reactor = reactor_creare((Piscina *)(void *)&marker);
    reactor_timer_adicere(reactor, 0, 0, on_tick_reenter, reactor);
    reactor_currere(reactor);
    CHECK(reentered == 1, "once");
    reactor_destruere(reactor);
}

static void on_tick_destroy(void *data)
{
    reentered++;
    reactor_destruere(data);
    CHECK(reactor_numerus_timer(data) == 0, "dead at once");
}

static void the_original_names_allow_destruction_in_a_callback(void)
{
    int before = open_descriptors();
    Reactor *reactor = reactor_creare((Piscina *)(void *)&marker);
    reentered = 0;
    reactor_timer_adicere(reactor, 0, 1, on_tick_destroy, reactor);
    reactor_timer_adicere(reactor, 0, 1, on_tick_destroy, reactor);
    reactor_currere(reactor);
    CHECK(reentered == 1, "it was the last callback");
    CHECK(open_descriptors() == before, "nothing is left open");
}

static void both_sets_of_names_work_on_one_reactor(void)
{
    int ends[2], ticks = 0;
    struct seen seen = {0};
    Reactor *reactor = reactor_creare((Piscina *)(void *)&marker);
    ms_reactor *same = (ms_reactor *)reactor;
    make_pipe(ends);
    write_byte(ends[1]);
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, NULL) == 1, "registered");
    CHECK(ms_reactor_watcher_count(same) == 1, "seen by the other names");
    OK(ms_reactor_watch(same, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_ready, &seen, NULL));
    CHECK(reactor_poll(reactor, 0) == 1 && seen.calls == 1, "replaced by them");
    CHECK(reactor_adicere(reactor, ends[0], REACTOR_LEGERE, on_event, NULL) == 1, "and back");
    CHECK(reactor_poll(reactor, 0) == 1 && seen.calls == 1, "called under the original name");
    CHECK(ms_reactor_unwatch(same, ms_reactor_watcher_of(same, ends[0])) == 1, "unwatched by the other names");
    CHECK(reactor_removere(reactor, ends[0]) == 0, "so it is not registered");
    OK(ms_reactor_after(same, 0, on_timer, &ticks, NULL));
    CHECK(reactor_numerus_timer(reactor) == 1 && reactor_poll(reactor, 0) == 1 && ticks == 1, "timers too");
    OK(ms_reactor_destroy(same));
    reactor_destruere(reactor);
    close_both(ends);
}

int main(void)
{
    RUN(no_function_takes_a_bad_reactor);
    RUN(no_function_takes_a_destroyed_reactor);
    RUN_ON_BOTH(no_function_takes_null_where_it_matters);
    RUN_ON_BOTH(made_up_names_of_watchers_timers_and_the_rest_reach_nothing);
    RUN(the_original_names_fail_on_bad_reactors);
    RUN(the_original_names_fail_on_bad_arguments);
    RUN(the_original_names_return_at_once_when_re_entered);
    RUN(the_original_names_allow_destruction_in_a_callback);
    RUN(both_sets_of_names_work_on_one_reactor);
    return 0;
}
