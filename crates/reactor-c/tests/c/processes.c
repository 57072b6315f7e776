/* Signals, child processes and fork. */
#include "english.h"

struct got {
    int calls;
    int number;
    unsigned count;
    int status;
};

static void on_signal(ms_reactor *reactor, int signal_number, unsigned count, void *data)
{
    struct got *got = data;
    (void)reactor;
    got->calls++;
    got->number = signal_number;
    got->count += count;
}

static void a_signal_calls_everyone_who_asked(int backend)
{
    struct got first = {0}, second = {0};
    ms_reactor_signal one, other;
    ms_reactor *reactor = new_reactor(backend);
    OK(ms_reactor_on_signal(reactor, SIGUSR1, on_signal, &first, &one));
    OK(ms_reactor_on_signal(reactor, SIGUSR1, on_signal, &second, &other));
    CHECK(one != 0 && other != 0 && one != other, "two names");
    kill(getpid(), SIGUSR1);
    while (first.calls == 0)
        CHECK(ms_reactor_poll(reactor, -1) >= 0, "a turn");
    CHECK(first.number == SIGUSR1 && first.count == 1 && second.calls == 1, "both are told");
    CHECK(ms_reactor_unwatch_signal(reactor, one) == 1 && ms_reactor_unwatch_signal(reactor, one) == 0, "once");
    kill(getpid(), SIGUSR1);
    while (second.calls == 1)
        CHECK(ms_reactor_poll(reactor, -1) >= 0, "a turn");
    CHECK(first.calls == 1, "only the other is told");
    ms_reactor_destroy(reactor);
}

static volatile sig_atomic_t handled;

static void own_handler(int signal_number)
{
    (void)signal_number;
    handled++;
}

static void a_signal_does_again_what_it_did_before(int backend)
{
    struct got got = {0};
    ms_reactor_signal name;
    ms_reactor *reactor = new_reactor(backend);
    handled = 0;
    signal(SIGUSR2, own_handler);
    OK(ms_reactor_on_signal(reactor, SIGUSR2, on_signal, &got, &name));
    CHECK(ms_reactor_unwatch_signal(reactor, name) == 1, "ended");
    raise(SIGUSR2);
    CHECK(handled == 1 && got.calls == 0, "the program's own handler");
    ms_reactor_destroy(reactor);
    signal(SIGUSR2, SIG_DFL);
}

static void bad_signals_are_refused(int backend)
{
    struct got got = {0};
    ms_reactor *reactor = new_reactor(backend), *other = new_reactor(backend);
    int bad = MS_REACTOR_ERROR_BAD_SIGNAL;
    CHECK(ms_reactor_on_signal(reactor, SIGKILL, on_signal, &got, NULL) == bad, "SIGKILL");
    CHECK(ms_reactor_on_signal(reactor, SIGSTOP, on_signal, &got, NULL) == bad, "SIGSTOP");
    CHECK(ms_reactor_on_signal(reactor, 0, on_signal, &got, NULL) == bad, "none");
    CHECK(ms_reactor_on_signal(reactor, -5, on_signal, &got, NULL) == bad, "negative");
    CHECK(ms_reactor_on_signal(reactor, 1000, on_signal, &got, NULL) == bad, "huge");
    OK(ms_reactor_on_signal(reactor, SIGHUP, on_signal, &got, NULL));
    CHECK(ms_reactor_on_signal(other, SIGHUP, on_signal, &got, NULL) == MS_REACTOR_ERROR_SIGNAL_TAKEN, "taken");
    ms_reactor_destroy(reactor);
    OK(ms_reactor_on_signal(other, SIGHUP, on_signal, &got, NULL));
    ms_reactor_destroy(other);
}

static void on_child(ms_reactor *reactor, int pid, int status, void *data)
{
    struct got *got = data;
    (void)reactor;
    got->calls++;
    got->number = pid;
    got->status = status;
}

static pid_t spawn(int exit_code)
{
    pid_t pid = fork();
    CHECK(pid >= 0, "a child");
    if (pid == 0)
        _exit(exit_code);
    return pid;
}

static void a_child_that_ends_is_reaped_and_told(int backend)
{
    struct got got = {0};
    ms_reactor_child name;
    pid_t pid;
    ms_reactor *reactor = new_reactor(backend);
    pid = spawn(7);
    OK(ms_reactor_on_child_exit(reactor, pid, on_child, &got, &name));
    OK(ms_reactor_run_until_idle(reactor));
    CHECK(got.calls == 1 && got.number == pid, "told once");
    CHECK(WIFEXITED(got.status) && WEXITSTATUS(got.status) == 7, "how it ended");
    CHECK(waitpid(pid, NULL, 0) == -1 && errno == ECHILD, "it has been reaped");
    CHECK(ms_reactor_unwatch_child(reactor, name) == 0, "the watch is over");
    ms_reactor_destroy(reactor);
}

static void a_child_killed_by_a_signal_says_so(int backend)
{
    struct got got = {0};
    pid_t pid = fork();
    ms_reactor *reactor;
    if (pid == 0)
        for (;;)
            pause();
    reactor = new_reactor(backend);
    OK(ms_reactor_on_child_exit(reactor, pid, on_child, &got, NULL));
    kill(pid, SIGTERM);
    OK(ms_reactor_run_until_idle(reactor));
    CHECK(WIFSIGNALED(got.status) && WTERMSIG(got.status) == SIGTERM, "how it ended");
    ms_reactor_destroy(reactor);
}

static void an_unwatched_child_is_left_to_its_parent(int backend)
{
    struct got got = {0};
    ms_reactor_child name;
    pid_t pid;
    ms_reactor *reactor = new_reactor(backend);
    pid = spawn(0);
    OK(ms_reactor_on_child_exit(reactor, pid, on_child, &got, &name));
    CHECK(ms_reactor_unwatch_child(reactor, name) == 1 && ms_reactor_unwatch_child(reactor, name) == 0, "once");
    OK(ms_reactor_run_until_idle(reactor));
    CHECK(got.calls == 0 && waitpid(pid, NULL, 0) == pid, "it is the parent's");
    ms_reactor_destroy(reactor);
}

static void pids_that_are_no_children_are_refused_or_told_as_unknown(int backend)
{
    struct got got = {0};
    pid_t pid;
    ms_reactor *reactor = new_reactor(backend);
    CHECK(ms_reactor_on_child_exit(reactor, 0, on_child, &got, NULL) == MS_REACTOR_ERROR_INVALID, "zero");
    CHECK(ms_reactor_on_child_exit(reactor, -1, on_child, &got, NULL) == MS_REACTOR_ERROR_INVALID, "negative");
    pid = spawn(0);
    waitpid(pid, NULL, 0);
    if (ms_reactor_on_child_exit(reactor, pid, on_child, &got, NULL) < 0) {
        CHECK(ms_reactor_last_error() == MS_REACTOR_ERROR_SYSTEM, "the system knows");
        CHECK(ms_reactor_last_errno() == ESRCH || ms_reactor_last_errno() == ECHILD, "and errno says why");
    } else {
        OK(ms_reactor_run_until_idle(reactor));
        CHECK(got.calls == 1 && got.status == MS_REACTOR_STATUS_UNKNOWN, "told at once");
    }
    ms_reactor_destroy(reactor);
}

static void a_forked_child_may_use_the_loop_without_disturbing_its_parent(int backend)
{
    int ends[2], status = 0;
    struct seen seen = {0};
    pid_t pid;
    ms_reactor *reactor = new_reactor(backend);
    make_pipe(ends);
    write_byte(ends[1]);
    OK(ms_reactor_watch(reactor, ends[0], MS_REACTOR_READ, MS_REACTOR_LEVEL, on_ready, &seen, NULL));
    pid = fork();
    if (pid == 0) {
        int turned = ms_reactor_poll(reactor, -1) == 1 && seen.calls == 1;
        int ended = ms_reactor_unwatch(reactor, seen.watcher) == 1 && ms_reactor_destroy(reactor) == 0;
        _exit(turned && ended ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's loop");
    CHECK(ms_reactor_poll(reactor, -1) == 1 && seen.calls == 1, "and the parent's");
    ms_reactor_destroy(reactor);
    close_both(ends);
}

static void on_wakeup(ms_reactor *reactor, void *data)
{
    (void)reactor;
    (void)data;
}

struct busy {
    ms_reactor *reactor;
    ms_reactor_wakeup wakeup;
    int end[2];
};

static void *wake_until_told_to_end(void *data)
{
    struct busy *busy = data;
    char byte;
    while (read(busy->end[0], &byte, 1) < 0) {
        int turn;
        for (turn = 0; turn < 1000; turn++) {
            OK(ms_reactor_wake(busy->reactor));
            OK(ms_reactor_wakeup_signal(busy->wakeup));
        }
    }
    return NULL;
}

#define BUSY_THREADS 2
#define BUSY_FORKS 40

static void a_fork_while_other_threads_wake_the_loop_hangs_no_child(int backend)
{
    pthread_t threads[BUSY_THREADS];
    struct busy busy;
    int index, status = 0;
    busy.reactor = new_reactor(backend);
    OK(ms_reactor_wakeup_create(busy.reactor, on_wakeup, NULL, &busy.wakeup));
    make_pipe(busy.end);
    for (index = 0; index < BUSY_THREADS; index++)
        CHECK(pthread_create(&threads[index], NULL, wake_until_told_to_end, &busy) == 0, "a thread");
    for (index = 0; index < BUSY_FORKS; index++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "a child");
        if (pid == 0) {
            ms_reactor *own = NULL;
            int made;
            alarm(20);
            made = ms_reactor_create(&own, backend, 0) == 0 && ms_reactor_destroy(own) == 0;
            made = made && ms_reactor_poll(busy.reactor, 0) >= 0 && ms_reactor_destroy(busy.reactor) == 0;
            /*
             * No ordinary end: what the parent's threads held at the fork is nobody's here, which
             * valgrind would report.
             */
            if (made)
                kill(getpid(), SIGKILL);
            _exit(1);
        }
        CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child's loops");
    }
    for (index = 0; index < BUSY_THREADS; index++)
        write_byte(busy.end[1]);
    for (index = 0; index < BUSY_THREADS; index++)
        pthread_join(threads[index], NULL);
    ms_reactor_destroy(busy.reactor);
    close_both(busy.end);
}

static void a_forked_child_that_ends_leaves_the_parents_signals_alone(int backend)
{
    struct got got = {0};
    int status = 0;
    pid_t pid;
    ms_reactor *reactor = new_reactor(backend);
    OK(ms_reactor_on_signal(reactor, SIGTERM, on_signal, &got, NULL));
    pid = fork();
    if (pid == 0)
        _exit(ms_reactor_destroy(reactor) == 0 ? 0 : 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child's loop");
    kill(getpid(), SIGTERM);
    CHECK(ms_reactor_poll(reactor, 10000) == 1, "the parent hears its signal");
    CHECK(got.calls == 1 && got.count == 1, "once");
    ms_reactor_destroy(reactor);
}

int main(void)
{
    RUN_ON_BOTH(a_signal_calls_everyone_who_asked);
    RUN_ON_BOTH(a_signal_does_again_what_it_did_before);
    RUN_ON_BOTH(bad_signals_are_refused);
    RUN_ON_BOTH(a_child_that_ends_is_reaped_and_told);
    RUN_ON_BOTH(a_child_killed_by_a_signal_says_so);
    RUN_ON_BOTH(an_unwatched_child_is_left_to_its_parent);
    RUN_ON_BOTH(pids_that_are_no_children_are_refused_or_told_as_unknown);
    RUN_ON_BOTH(a_forked_child_may_use_the_loop_without_disturbing_its_parent);
    RUN_ON_BOTH(a_fork_while_other_threads_wake_the_loop_hangs_no_child);
    RUN_ON_BOTH(a_forked_child_that_ends_leaves_the_parents_signals_alone);
    return 0;
}
