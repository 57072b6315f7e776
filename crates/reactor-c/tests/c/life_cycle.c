/* Making and ending reactors, versions and errors. */
#include "english.h"

static void a_reactor_starts_empty_and_stopped(int backend)
{
    ms_reactor *reactor = new_reactor(backend);
    CHECK(ms_reactor_backend_of(reactor) == backend, "on the backend that was asked for");
    CHECK(ms_reactor_watcher_count(reactor) == 0 && ms_reactor_timer_count(reactor) == 0, "empty");
    CHECK(ms_reactor_is_running(reactor) == 0, "stopped");
    OK(ms_reactor_destroy(reactor));
}

static void the_best_backend_is_epoll_on_linux(void)
{
    ms_reactor *reactor = new_reactor(MS_REACTOR_BACKEND_BEST);
    CHECK(ms_reactor_backend_of(reactor) == MS_REACTOR_BACKEND_EPOLL, "epoll");
    ms_reactor_destroy(reactor);
}

static void destroying_gives_every_descriptor_back_and_closes_none_of_the_callers(int backend)
{
    int before = open_descriptors(), ends[2], ticks = 0;
    struct seen seen = {0};
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    OK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_ready, &seen, NULL));
    OK(ms_reactor_every(reactor, 1, on_timer, &ticks, NULL));
    OK(ms_reactor_defer(reactor, on_call, &ticks));
    OK(ms_reactor_destroy(reactor));
    CHECK(fcntl(ends[0], F_GETFD) >= 0, "the caller's descriptors stay open");
    CHECK(ticks == 0, "nothing was called");
    close_both(ends);
    CHECK(open_descriptors() == before, "nothing is left open");
}

static void a_destroyed_reactor_is_dead_for_ever(void)
{
    int round;
    ms_reactor *first = new_reactor(MS_REACTOR_BACKEND_BEST);
    OK(ms_reactor_destroy(first));
    CHECK(ms_reactor_destroy(first) == MS_REACTOR_ERROR_BAD_REACTOR, "a second time is an error");
    for (round = 0; round < 100; round++) {
        ms_reactor *next = new_reactor(MS_REACTOR_BACKEND_BEST);
        CHECK(next != first, "a new reactor has a new name");
        CHECK(ms_reactor_watcher_count(first) == MS_REACTOR_ERROR_BAD_REACTOR, "the old name reaches nothing");
        OK(ms_reactor_destroy(next));
    }
}

static void many_reactors_live_side_by_side(void)
{
    ms_reactor *reactors[50];
    int index, ticks = 0;
    for (index = 0; index < 50; index++) {
        reactors[index] = new_reactor(backends[index % 2]);
        OK(ms_reactor_after(reactors[index], 0, on_timer, &ticks, NULL));
    }
    for (index = 0; index < 50; index++)
        CHECK(ms_reactor_poll(reactors[index], -1) == 1, "each has its own timer");
    CHECK(ticks == 50, "all of them fired");
    for (index = 49; index >= 0; index -= 2)
        OK(ms_reactor_destroy(reactors[index]));
    for (index = 48; index >= 0; index -= 2)
        OK(ms_reactor_destroy(reactors[index]));
}

static void creating_with_bad_arguments_fails_and_leaves_null(void)
{
    int marker;
    ms_reactor *reactor = (ms_reactor *)(void *)&marker;
    CHECK(ms_reactor_create(NULL, 0, 0) == MS_REACTOR_ERROR_INVALID, "nowhere to put it");
    CHECK(ms_reactor_create(&reactor, 3, 0) == MS_REACTOR_ERROR_INVALID && reactor == NULL, "no such backend");
    CHECK(ms_reactor_create(&reactor, -1, 0) == MS_REACTOR_ERROR_INVALID, "nor this");
    CHECK(ms_reactor_create(&reactor, 0, 2) == MS_REACTOR_ERROR_INVALID, "no such flag");
    CHECK(strstr(ms_reactor_last_error_text(), "flags") != NULL, "the text says which");
}

static void creating_without_descriptors_left_is_a_system_error(void)
{
    struct rlimit limit, none;
    ms_reactor *reactor = NULL;
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    CHECK(ms_reactor_create(&reactor, 0, 0) == MS_REACTOR_ERROR_SYSTEM && reactor == NULL, "refused");
    CHECK(ms_reactor_last_errno() == EMFILE, "and errno says why");
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void every_error_has_a_text(void)
{
    int code;
    for (code = MS_REACTOR_OK; code >= MS_REACTOR_ERROR_LIMIT; code--) {
        CHECK(strlen(ms_reactor_strerror(code)) > 3, "a text");
        CHECK(strcmp(ms_reactor_strerror(code), "unknown error") != 0, "of its own");
    }
    CHECK(strcmp(ms_reactor_strerror(1), "unknown error") == 0, "no such code");
    CHECK(strcmp(ms_reactor_strerror(-1000), "unknown error") == 0, "nor this one");
}

static void *look_at_errors(void *unused)
{
    (void)unused;
    CHECK(ms_reactor_last_error() == MS_REACTOR_OK, "another thread's errors are not ours");
    CHECK(strcmp(ms_reactor_last_error_text(), "") == 0, "nor their text");
    CHECK(ms_reactor_last_errno() == 0, "nor their errno");
    return NULL;
}

static void the_last_error_is_kept_by_thread_and_not_reset_by_success(void)
{
    pthread_t thread;
    ms_reactor *reactor;
    CHECK(ms_reactor_poll(NULL, 0) == MS_REACTOR_ERROR_BAD_REACTOR, "an error");
    reactor = new_reactor(MS_REACTOR_BACKEND_BEST);
    CHECK(ms_reactor_last_error() == MS_REACTOR_ERROR_BAD_REACTOR, "kept");
    CHECK(ms_reactor_last_errno() == 0, "it was not the system's");
    CHECK(strlen(ms_reactor_last_error_text()) > 10, "with its text");
    CHECK(pthread_create(&thread, NULL, look_at_errors, NULL) == 0, "a thread");
    pthread_join(thread, NULL);
    ms_reactor_destroy(reactor);
}

static void the_version_is_that_of_the_header(void)
{
    char expected[32];
    sprintf(expected, "%d.%d.%d", MS_REACTOR_VERSION_MAJOR, MS_REACTOR_VERSION_MINOR, MS_REACTOR_VERSION_PATCH);
    CHECK(strcmp(ms_reactor_version(), expected) == 0, "the same");
}

int main(void)
{
    RUN(the_last_error_is_kept_by_thread_and_not_reset_by_success);
    RUN_ON_BOTH(a_reactor_starts_empty_and_stopped);
    RUN(the_best_backend_is_epoll_on_linux);
    RUN_ON_BOTH(destroying_gives_every_descriptor_back_and_closes_none_of_the_callers);
    RUN(a_destroyed_reactor_is_dead_for_ever);
    RUN(many_reactors_live_side_by_side);
    RUN(creating_with_bad_arguments_fails_and_leaves_null);
    RUN(creating_without_descriptors_left_is_a_system_error);
    RUN(every_error_has_a_text);
    RUN(the_version_is_that_of_the_header);
    return 0;
}
