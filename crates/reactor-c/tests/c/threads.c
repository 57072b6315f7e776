/* What other threads may do to a reactor, and what they may not. */
#include "english.h"

#define THREADS 4
#define CALLS_PER_THREAD 500

struct work {
    ms_reactor *reactor;
    ms_reactor_wakeup wakeup;
    int calls;
    int expected;
};

static void on_call_count(ms_reactor *reactor, void *data)
{
    struct work *work = data;
    CHECK(reactor == work->reactor, "on its own reactor");
    CHECK(ms_reactor_watcher_count(reactor) == 0, "and on its own thread");
    if (++work->calls == work->expected)
        ms_reactor_stop(reactor);
}

static void *call_often(void *data)
{
    struct work *work = data;
    int index;
    for (index = 0; index < CALLS_PER_THREAD; index++)
        OK(ms_reactor_call(work->reactor, on_call_count, work));
    return NULL;
}

static void calls_from_other_threads_all_run_on_the_loops_own(int backend)
{
    pthread_t threads[THREADS];
    struct work work = {0};
    int index;
    work.reactor = new_reactor(backend);
    work.expected = THREADS * CALLS_PER_THREAD;
    for (index = 0; index < THREADS; index++)
        CHECK(pthread_create(&threads[index], NULL, call_often, &work) == 0, "a thread");
    OK(ms_reactor_run(work.reactor));
    for (index = 0; index < THREADS; index++)
        pthread_join(threads[index], NULL);
    CHECK(work.calls == work.expected, "every one of them");
    ms_reactor_destroy(work.reactor);
}

static void *wake_it(void *reactor)
{
    OK(ms_reactor_wake(reactor));
    return NULL;
}

static void wake_ends_a_wait_without_a_callback(int backend)
{
    pthread_t thread;
    ms_reactor *reactor = new_reactor(backend);
    CHECK(pthread_create(&thread, NULL, wake_it, reactor) == 0, "a thread");
    CHECK(ms_reactor_poll(reactor, -1) == 0, "woken, with nothing to do");
    pthread_join(thread, NULL);
    ms_reactor_destroy(reactor);
}

static void *stop_it(void *reactor)
{
    OK(ms_reactor_stop(reactor));
    return NULL;
}

static void stop_from_another_thread_ends_the_run(int backend)
{
    pthread_t thread;
    ms_reactor *reactor = new_reactor(backend);
    CHECK(pthread_create(&thread, NULL, stop_it, reactor) == 0, "a thread");
    OK(ms_reactor_run(reactor));
    pthread_join(thread, NULL);
    ms_reactor_destroy(reactor);
}

static void on_wakeup(ms_reactor *reactor, void *data)
{
    struct work *work = data;
    work->calls++;
    ms_reactor_stop(reactor);
}

static void *signal_often(void *data)
{
    struct work *work = data;
    int index;
    for (index = 0; index < 1000; index++)
        OK(ms_reactor_wakeup_signal(work->wakeup));
    return NULL;
}

static void signals_of_a_wakeup_fold_into_few_calls(int backend)
{
    pthread_t thread;
    struct work work = {0};
    work.reactor = new_reactor(backend);
    OK(ms_reactor_wakeup_create(work.reactor, on_wakeup, &work, &work.wakeup));
    CHECK(work.wakeup != 0, "a name");
    CHECK(pthread_create(&thread, NULL, signal_often, &work) == 0, "a thread");
    pthread_join(thread, NULL);
    CHECK(ms_reactor_poll(work.reactor, -1) == 1 && work.calls == 1, "a thousand signals, one call");
    CHECK(ms_reactor_poll(work.reactor, 0) == 0, "and no more");
    ms_reactor_destroy(work.reactor);
}

static void a_destroyed_wakeup_is_not_called_even_if_it_was_signalled(int backend)
{
    struct work work = {0};
    work.reactor = new_reactor(backend);
    OK(ms_reactor_wakeup_create(work.reactor, on_wakeup, &work, &work.wakeup));
    OK(ms_reactor_wakeup_signal(work.wakeup));
    CHECK(ms_reactor_wakeup_destroy(work.wakeup) == 1, "it was there");
    CHECK(ms_reactor_wakeup_destroy(work.wakeup) == 0, "it is not");
    CHECK(ms_reactor_wakeup_signal(work.wakeup) == MS_REACTOR_ERROR_GONE, "gone");
    ms_reactor_poll(work.reactor, 0);
    ms_reactor_poll(work.reactor, 0);
    CHECK(work.calls == 0, "not called");
    ms_reactor_destroy(work.reactor);
}

static void a_wakeup_ends_with_its_reactor(int backend)
{
    struct work work = {0};
    int round;
    ms_reactor_wakeup kept[3];
    work.reactor = new_reactor(backend);
    for (round = 0; round < 300; round++) {
        OK(ms_reactor_wakeup_create(work.reactor, on_wakeup, &work, &work.wakeup));
        if (round < 3)
            kept[round] = work.wakeup;
        else
            CHECK(ms_reactor_wakeup_destroy(work.wakeup) == 1, "it was there");
    }
    OK(ms_reactor_wakeup_signal(kept[2]));
    ms_reactor_destroy(work.reactor);
    for (round = 0; round < 3; round++)
        CHECK(ms_reactor_wakeup_signal(kept[round]) == MS_REACTOR_ERROR_GONE, "gone");
    CHECK(work.calls == 0, "never called");
}

static void *try_everything(void *data)
{
    ms_reactor *reactor = data;
    struct seen seen = {0};
    int ticks = 0;
    ms_reactor_stats stats;
    int64_t now;
    int wrong = MS_REACTOR_ERROR_WRONG_THREAD;
    CHECK(ms_reactor_watch(reactor, 0, 1, 0, on_ready, &seen, NULL) == wrong, "watch");
    CHECK(ms_reactor_unwatch(reactor, 1) == wrong, "unwatch");
    CHECK(ms_reactor_after(reactor, 0, on_timer, &ticks, NULL) == wrong, "after");
    CHECK(ms_reactor_poll(reactor, 0) == wrong, "poll");
    CHECK(ms_reactor_run(reactor) == wrong, "run");
    CHECK(ms_reactor_now(reactor, &now) == wrong, "now");
    CHECK(ms_reactor_watcher_count(reactor) == wrong, "count");
    CHECK(ms_reactor_watcher_of(reactor, 0) == 0, "watcher of");
    CHECK(ms_reactor_get_stats(reactor, &stats, sizeof stats) == wrong, "stats");
    CHECK(ms_reactor_destroy(reactor) == wrong, "destroy");
    CHECK(ms_reactor_is_running(reactor) == 0, "what any thread may ask");
    return NULL;
}

static void everything_else_is_refused_on_another_thread(int backend)
{
    pthread_t thread;
    ms_reactor *reactor = new_reactor(backend);
    CHECK(pthread_create(&thread, NULL, try_everything, reactor) == 0, "a thread");
    pthread_join(thread, NULL);
    CHECK(ms_reactor_poll(reactor, 0) == 0, "the reactor is as it was");
    ms_reactor_destroy(reactor);
}

static ms_reactor *left_behind;

static void *leave_a_reactor_behind(void *data)
{
    OK(ms_reactor_create(&left_behind, MS_REACTOR_BACKEND_BEST, 0));
    OK(ms_reactor_after(left_behind, 0, on_timer, data, NULL));
    OK(ms_reactor_stop(left_behind));
    return NULL;
}

static void a_thread_that_ends_destroys_its_reactors(void)
{
    pthread_t thread;
    int ticks = 0, before = open_descriptors();
    CHECK(pthread_create(&thread, NULL, leave_a_reactor_behind, &ticks) == 0, "a thread");
    pthread_join(thread, NULL);
    CHECK(ms_reactor_stop(left_behind) == MS_REACTOR_ERROR_BAD_REACTOR, "gone");
    CHECK(ms_reactor_call(left_behind, on_call, &ticks) == MS_REACTOR_ERROR_BAD_REACTOR, "for all");
    CHECK(open_descriptors() == before && ticks == 0, "nothing is left");
}

static void *use_own_reactor(void *data)
{
    int index, ticks = 0;
    (void)data;
    for (index = 0; index < 50; index++) {
        ms_reactor *reactor = new_reactor(backends[index % 2]);
        OK(ms_reactor_after(reactor, 0, on_timer, &ticks, NULL));
        CHECK(ms_reactor_poll(reactor, -1) == 1, "its own timer");
        OK(ms_reactor_destroy(reactor));
    }
    CHECK(ticks == 50, "all of them");
    return NULL;
}

static void threads_with_reactors_of_their_own_do_not_disturb_each_other(void)
{
    pthread_t threads[THREADS];
    int index;
    for (index = 0; index < THREADS; index++)
        CHECK(pthread_create(&threads[index], NULL, use_own_reactor, NULL) == 0, "a thread");
    for (index = 0; index < THREADS; index++)
        pthread_join(threads[index], NULL);
}

static void *call_until_gone(void *data)
{
    struct work *work = data;
    while (ms_reactor_call(work->reactor, on_call, &work->calls) != MS_REACTOR_ERROR_BAD_REACTOR)
        ms_reactor_wakeup_signal(work->wakeup);
    return NULL;
}

static void destroying_while_other_threads_call_is_safe(int backend)
{
    pthread_t thread;
    struct work work = {0};
    work.reactor = new_reactor(backend);
    OK(ms_reactor_wakeup_create(work.reactor, on_call, &work.calls, &work.wakeup));
    CHECK(pthread_create(&thread, NULL, call_until_gone, &work) == 0, "a thread");
    while (work.calls < 100)
        CHECK(ms_reactor_poll(work.reactor, -1) >= 0, "a turn");
    OK(ms_reactor_destroy(work.reactor));
    pthread_join(thread, NULL);
}

static void the_inbox_is_bounded(int backend)
{
    int calls = 0, accepted = 0;
    ms_reactor *reactor = new_reactor(backend);
    while (accepted < 1000000 && ms_reactor_call(reactor, on_call, &calls) == MS_REACTOR_OK)
        accepted++;
    CHECK(ms_reactor_last_error() == MS_REACTOR_ERROR_INBOX_FULL && accepted == 65536, "at its bound");
    while (calls < accepted)
        CHECK(ms_reactor_poll(reactor, -1) > 0, "what was accepted runs");
    OK(ms_reactor_call(reactor, on_call, &calls));
    ms_reactor_destroy(reactor);
}

int main(void)
{
    RUN_ON_BOTH(calls_from_other_threads_all_run_on_the_loops_own);
    RUN_ON_BOTH(wake_ends_a_wait_without_a_callback);
    RUN_ON_BOTH(stop_from_another_thread_ends_the_run);
    RUN_ON_BOTH(signals_of_a_wakeup_fold_into_few_calls);
    RUN_ON_BOTH(a_destroyed_wakeup_is_not_called_even_if_it_was_signalled);
    RUN_ON_BOTH(a_wakeup_ends_with_its_reactor);
    RUN_ON_BOTH(everything_else_is_refused_on_another_thread);
    RUN(a_thread_that_ends_destroys_its_reactors);
    RUN(threads_with_reactors_of_their_own_do_not_disturb_each_other);
    RUN_ON_BOTH(destroying_while_other_threads_call_is_safe);
    RUN_ON_BOTH(the_inbox_is_bounded);
    return 0;
}
