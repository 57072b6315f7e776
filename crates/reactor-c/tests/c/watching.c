/* Watching descriptors: both forms, all modes, changes, and what ends a watch. */
#include "english.h"

#define WATCH(reactor, fd, interest, mode, seen, out) \
    OK(ms_reactor_watch(reactor, fd, interest, mode, on_ready, seen, out))

static void a_callback_gets_the_whole_readiness_set(int backend)
{
    int ends[2];
    struct seen seen = {0};
    ms_reactor_watcher watcher = 0;
    ms_reactor *reactor = new_reactor(backend);
    make_sockets(ends);
    write_byte(ends[1]);
    WATCH(reactor, ends[0], MS_REACTOR_READ | MS_REACTOR_WRITE, MS_REACTOR_LEVEL, &seen, &watcher);
    CHECK(watcher != 0, "a name");
    CHECK(ms_reactor_poll(reactor, -1) == 1 && seen.calls == 1, "one call");
    CHECK(seen.readiness == (MS_REACTOR_READ | MS_REACTOR_WRITE), "for both");
    CHECK(seen.reactor == reactor && seen.watcher == watcher && seen.fd == ends[0], "told who is meant");
    CHECK(ms_reactor_watcher_of(reactor, ends[0]) == watcher, "found by its descriptor");
    CHECK(ms_reactor_watcher_of(reactor, ends[1]) == 0, "the other is not watched");
    CHECK(ms_reactor_is_watching(reactor, watcher) == 1, "there");
    shutdown(ends[1], SHUT_WR);
    CHECK(ms_reactor_poll(reactor, -1) == 1, "half closed");
    CHECK((seen.readiness & (MS_REACTOR_READ_CLOSED | MS_REACTOR_HANGUP)) == MS_REACTOR_READ_CLOSED, "half");
    close(ends[1]);
    CHECK(ms_reactor_poll(reactor, -1) == 1 && (seen.readiness & MS_REACTOR_HANGUP), "closed");
    ms_reactor_destroy(reactor);
    close(ends[0]);
}

static void level_reports_again_and_again(int backend)
{
    int ends[2];
    struct seen seen = {0};
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    write_byte(ends[1]);
    WATCH(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, &seen, NULL);
    CHECK(ms_reactor_poll(reactor, 0) == 1 && ms_reactor_poll(reactor, 0) == 1, "while it is readable");
    drain(ends[0]);
    CHECK(ms_reactor_poll(reactor, 0) == 0 && seen.calls == 2, "and no longer");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void edge_reports_changes_only(void)
{
    int ends[2];
    struct seen seen = {0};
    ms_reactor *reactor = new_reactor(MS_REACTOR_BACKEND_EPOLL);
    make_pipe(ends);
    write_byte(ends[1]);
    WATCH(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_EDGE, &seen, NULL);
    CHECK(ms_reactor_poll(reactor, 0) == 1 && ms_reactor_poll(reactor, 0) == 0, "once");
    write_byte(ends[1]);
    CHECK(ms_reactor_poll(reactor, 0) == 1 && ms_reactor_poll(reactor, 0) == 0, "and once for what is new");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void edge_on_poll_is_refused_at_once(void)
{
    int ends[2];
    struct seen seen = {0};
    ms_reactor *reactor = new_reactor(MS_REACTOR_BACKEND_POLL);
    make_pipe(ends);
    CHECK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_EDGE, on_ready, &seen, NULL) ==
              MS_REACTOR_ERROR_UNSUPPORTED,
          "edge");
    CHECK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_EDGE_ONESHOT, on_ready, &seen, NULL) ==
              MS_REACTOR_ERROR_UNSUPPORTED,
          "edge and oneshot");
    CHECK(ms_reactor_watcher_count(reactor) == 0, "nothing is watched");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void oneshot_in_mode(int backend, int mode)
{
    int ends[2];
    struct seen seen = {0};
    ms_reactor_watcher watcher;
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    write_byte(ends[1]);
    WATCH(reactor, ends[0], MS_REACTOR_READ, mode, &seen, &watcher);
    CHECK(ms_reactor_poll(reactor, 0) == 1 && ms_reactor_poll(reactor, 0) == 0, "once");
    CHECK(ms_reactor_is_watching(reactor, watcher) == 1, "it is still there");
    OK(ms_reactor_rearm(reactor, watcher));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && ms_reactor_poll(reactor, 0) == 0, "once more");
    OK(ms_reactor_modify(reactor, watcher, MS_REACTOR_READ));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && seen.calls == 3, "and once more");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void oneshot_reports_once_until_it_is_armed_again(int backend)
{
    oneshot_in_mode(backend, MS_REACTOR_ONESHOT);
}

static void edge_oneshot_reports_once_until_it_is_armed_again(void)
{
    oneshot_in_mode(MS_REACTOR_BACKEND_EPOLL, MS_REACTOR_EDGE_ONESHOT);
}

static void on_ready_rearm(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    on_ready(reactor, watcher, fd, readiness, data);
    OK(ms_reactor_rearm(reactor, watcher));
}

static void a_oneshot_armed_in_its_own_callback_stays_armed(int backend)
{
    int ends[2];
    struct seen seen = {0};
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    write_byte(ends[1]);
    OK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_ONESHOT, on_ready_rearm, &seen, NULL));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && ms_reactor_poll(reactor, 0) == 1, "on every turn");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void modify_changes_the_interest_and_nothing_pauses(int backend)
{
    int ends[2];
    struct seen seen = {0};
    ms_reactor_watcher watcher;
    ms_reactor *reactor = new_reactor(backend);
    make_sockets(ends);
    WATCH(reactor, ends[0], MS_REACTOR_WRITE, MS_REACTOR_LEVEL, &seen, &watcher);
    OK(ms_reactor_modify(reactor, watcher, MS_REACTOR_READ));
    CHECK(ms_reactor_poll(reactor, 0) == 0, "writable is of no interest");
    OK(ms_reactor_modify(reactor, watcher, MS_REACTOR_WRITE));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && seen.readiness == MS_REACTOR_WRITE, "now it is");
    OK(ms_reactor_modify(reactor, watcher, 0));
    close(ends[1]);
    CHECK(ms_reactor_poll(reactor, 0) == 0, "paused: not even a hang-up is told");
    CHECK(ms_reactor_watcher_count(reactor) == 1, "but it is still there");
    OK(ms_reactor_modify(reactor, watcher, MS_REACTOR_READ));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && (seen.readiness & MS_REACTOR_HANGUP), "and told when it resumes");
    CHECK(ms_reactor_modify(reactor, watcher, 64) == MS_REACTOR_ERROR_INVALID, "unknown bits");
    CHECK(ms_reactor_modify(reactor, watcher, MS_REACTOR_HANGUP) == MS_REACTOR_ERROR_INVALID, "told only");
    ms_reactor_destroy(reactor);
    close(ends[0]);
}

static void watching_again_replaces_in_one_step(int backend)
{
    int ends[2];
    struct seen old = {0}, new = {0};
    ms_reactor_watcher first, second;
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    write_byte(ends[1]);
    WATCH(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, &old, &first);
    WATCH(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, &new, &second);
    CHECK(first != second && ms_reactor_watcher_count(reactor) == 1, "one watcher, with a new name");
    CHECK(ms_reactor_is_watching(reactor, first) == 0, "the old name is dead");
    CHECK(ms_reactor_unwatch(reactor, first) == 0, "and ends nothing");
    CHECK(ms_reactor_modify(reactor, first, MS_REACTOR_WRITE) == MS_REACTOR_ERROR_GONE, "nor changes anything");
    CHECK(ms_reactor_rearm(reactor, first) == MS_REACTOR_ERROR_GONE, "nor arms anything");
    CHECK(ms_reactor_poll(reactor, 0) == 1 && old.calls == 0 && new.calls == 1, "only the new one is called");
    CHECK(ms_reactor_watch(reactor, ends[0], 128, MS_REACTOR_LEVEL, on_ready, &old, NULL) ==
              MS_REACTOR_ERROR_INVALID,
          "a watch that fails");
    CHECK(ms_reactor_poll(reactor, 0) == 1 && new.calls == 2, "leaves the one that was there");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void unwatching_is_silent_and_can_be_done_twice(int backend)
{
    int ends[2];
    struct seen seen = {0};
    ms_reactor_watcher watcher;
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    write_byte(ends[1]);
    WATCH(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, &seen, &watcher);
    CHECK(ms_reactor_unwatch(reactor, watcher) == 1, "it was there");
    CHECK(ms_reactor_unwatch(reactor, watcher) == 0, "it is not");
    CHECK(ms_reactor_poll(reactor, 0) == 0 && seen.calls == 0, "silent");
    CHECK(ms_reactor_watcher_count(reactor) == 0, "not counted");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static char order[16];

static void on_read(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    (void)fd;
    (void)readiness;
    strcat(order, "r");
    if (data != NULL)
        ms_reactor_unwatch(reactor, watcher);
}

static void on_write(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    (void)reactor;
    (void)watcher;
    (void)fd;
    (void)readiness;
    (void)data;
    strcat(order, "w");
}

static void on_error(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness, void *data)
{
    on_write(reactor, watcher, fd, readiness, data);
    order[strlen(order) - 1] = 'e';
}

static void separate_callbacks_run_in_order_and_stop_when_unwatched(int backend)
{
    int ends[2];
    ms_reactor *reactor = new_reactor(backend);
    make_sockets(ends);
    write_byte(ends[1]);
    order[0] = 0;
    OK(ms_reactor_watch_separate(reactor, ends[0], MS_REACTOR_LEVEL, on_read, on_write, on_error, NULL, NULL));
    CHECK(ms_reactor_poll(reactor, 0) == 2 && strcmp(order, "rw") == 0, "read, then write");
    order[0] = 0;
    OK(ms_reactor_watch_separate(reactor, ends[0], MS_REACTOR_LEVEL, on_read, on_write, NULL, ends, NULL));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && strcmp(order, "r") == 0, "unwatched by read: no write");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void an_error_runs_its_callback_alone_or_counts_as_readiness(int backend)
{
    int ends[2];
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    close(ends[0]);
    order[0] = 0;
    OK(ms_reactor_watch_separate(reactor, ends[1], MS_REACTOR_LEVEL, NULL, on_write, on_error, NULL, NULL));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && strcmp(order, "e") == 0, "error alone");
    order[0] = 0;
    OK(ms_reactor_watch_separate(reactor, ends[1], MS_REACTOR_LEVEL, NULL, on_write, NULL, NULL, NULL));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && strcmp(order, "w") == 0, "the write will report it");
    ms_reactor_destroy(reactor);
    close(ends[1]);
}

static void a_hang_up_runs_the_read_callback(int backend)
{
    int ends[2];
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    close(ends[1]);
    order[0] = 0;
    OK(ms_reactor_watch_separate(reactor, ends[0], MS_REACTOR_LEVEL, on_read, NULL, NULL, NULL, NULL));
    CHECK(ms_reactor_poll(reactor, 0) == 1 && strcmp(order, "r") == 0, "so that it reads the end");
    ms_reactor_destroy(reactor);
    close(ends[0]);
}

static void separate_callbacks_bound_what_modify_may_ask_for(int backend)
{
    int ends[2];
    ms_reactor_watcher watcher;
    ms_reactor *reactor = new_reactor(backend);
    make_sockets(ends);
    CHECK(ms_reactor_watch_separate(reactor, ends[0], MS_REACTOR_LEVEL, NULL, NULL, NULL, NULL, NULL) ==
              MS_REACTOR_ERROR_NO_CALLBACK,
          "none at all");
    OK(ms_reactor_watch_separate(reactor, ends[0], MS_REACTOR_LEVEL, on_read, NULL, NULL, NULL, &watcher));
    CHECK(ms_reactor_modify(reactor, watcher, MS_REACTOR_WRITE) == MS_REACTOR_ERROR_NO_CALLBACK, "nowhere to go");
    OK(ms_reactor_modify(reactor, watcher, MS_REACTOR_READ));
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void bad_descriptors_are_refused(int backend)
{
    int ends[2];
    struct seen seen = {0};
    ms_reactor_watcher watcher = 77;
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    close_both(ends);
    CHECK(ms_reactor_watch(reactor, -1, 1, 0, on_ready, &seen, &watcher) == MS_REACTOR_ERROR_BAD_FD, "negative");
    CHECK(ms_reactor_watch(reactor, -2147483647 - 1, 1, 0, on_ready, &seen, NULL) == MS_REACTOR_ERROR_BAD_FD,
          "as negative as can be");
    CHECK(ms_reactor_watch(reactor, 2147483647, 1, 0, on_ready, &seen, NULL) == MS_REACTOR_ERROR_BAD_FD, "huge");
    CHECK(ms_reactor_watch(reactor, ends[0], 1, 0, on_ready, &seen, NULL) == MS_REACTOR_ERROR_BAD_FD, "closed");
    CHECK(ms_reactor_watch(reactor, ends[0], 0, 0, on_ready, &seen, NULL) == MS_REACTOR_ERROR_BAD_FD,
          "closed, with no interest");
    CHECK(ms_reactor_watch_separate(reactor, ends[0], 0, on_ready, NULL, NULL, NULL, NULL) ==
              MS_REACTOR_ERROR_BAD_FD,
          "closed, with separate callbacks");
    CHECK(watcher == 77 && ms_reactor_watcher_count(reactor) == 0, "nothing was changed");
    ms_reactor_destroy(reactor);
}

static void a_descriptor_closed_behind_our_back_is_never_reported(int backend)
{
    int ends[2], other[2];
    struct seen old = {0}, new = {0};
    ms_reactor_watcher watcher;
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    write_byte(ends[1]);
    WATCH(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, &old, &watcher);
    close(ends[0]);
    CHECK(ms_reactor_poll(reactor, 5) == 0 && old.calls == 0, "silent");
    CHECK(ms_reactor_modify(reactor, watcher, MS_REACTOR_WRITE) == MS_REACTOR_ERROR_BAD_FD, "a change tells");
    make_pipe(other);
    CHECK(other[0] == ends[0], "the number is reused");
    WATCH(reactor, other[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, &new, NULL);
    write_byte(other[1]);
    CHECK(ms_reactor_poll(reactor, -1) == 1 && new.calls == 1 && old.calls == 0, "by its new watcher");
    ms_reactor_destroy(reactor);
    close_both(other);
    close(ends[1]);
}

static void regular_files_are_always_ready(int backend)
{
    struct seen seen = {0};
    FILE *file = tmpfile();
    ms_reactor *reactor = new_reactor(backend);
    CHECK(file != NULL, "a file");
    WATCH(reactor, fileno(file), MS_REACTOR_READ | MS_REACTOR_WRITE, MS_REACTOR_LEVEL, &seen, NULL);
    CHECK(ms_reactor_poll(reactor, -1) == 1, "ready");
    CHECK(seen.readiness == (MS_REACTOR_READ | MS_REACTOR_WRITE), "for both");
    CHECK(ms_reactor_poll(reactor, -1) == 1, "always");
    ms_reactor_destroy(reactor);
    fclose(file);
}

int main(void)
{
    RUN_ON_BOTH(a_callback_gets_the_whole_readiness_set);
    RUN_ON_BOTH(level_reports_again_and_again);
    RUN(edge_reports_changes_only);
    RUN(edge_on_poll_is_refused_at_once);
    RUN_ON_BOTH(oneshot_reports_once_until_it_is_armed_again);
    RUN(edge_oneshot_reports_once_until_it_is_armed_again);
    RUN_ON_BOTH(a_oneshot_armed_in_its_own_callback_stays_armed);
    RUN_ON_BOTH(modify_changes_the_interest_and_nothing_pauses);
    RUN_ON_BOTH(watching_again_replaces_in_one_step);
    RUN_ON_BOTH(unwatching_is_silent_and_can_be_done_twice);
    RUN_ON_BOTH(separate_callbacks_run_in_order_and_stop_when_unwatched);
    RUN_ON_BOTH(an_error_runs_its_callback_alone_or_counts_as_readiness);
    RUN_ON_BOTH(a_hang_up_runs_the_read_callback);
    RUN_ON_BOTH(separate_callbacks_bound_what_modify_may_ask_for);
    RUN_ON_BOTH(bad_descriptors_are_refused);
    RUN_ON_BOTH(a_descriptor_closed_behind_our_back_is_never_reported);
    RUN_ON_BOTH(regular_files_are_always_ready);
    return 0;
}
