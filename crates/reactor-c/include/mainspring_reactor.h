/*
 * mainspring_reactor.h - one event loop, from file descriptor to callback.
 *
 * Descriptors, timers, signals, child exits and calls from other threads, on one thread, with
 * written and tested semantics (docs/contracts/reactor-c.md). Link with -lmainspring_reactor, or
 * ask pkg-config for mainspring_reactor.
 *
 *     static void on_tick(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data)
 *     {
 *         (void)timer; (void)missed; (void)data;
 *         ms_reactor_stop(reactor);
 *     }
 *
 *     ms_reactor *reactor;
 *     if (ms_reactor_create(&reactor, MS_REACTOR_BACKEND_BEST, 0) < 0)
 *         fprintf(stderr, "%s\n", ms_reactor_last_error_text());
 *     ms_reactor_after(reactor, 5 * MS_REACTOR_MILLISECOND, on_tick, NULL, NULL);
 *     ms_reactor_run(reactor);
 *     ms_reactor_destroy(reactor);
 *
 * RULES THAT HOLD FOR EVERY FUNCTION
 *
 * Returns. An int below zero is one of ms_reactor_error. It is also kept, with a text, for the
 * calling thread: ms_reactor_last_error(), ms_reactor_last_error_text(). Zero and above is success;
 * what it means is said below. A failed call changes nothing.
 *
 * Threads. A reactor belongs to the thread that created it. Only the functions marked [any thread]
 * may be called from others; the rest return MS_REACTOR_ERROR_WRONG_THREAD there. A thread that
 * ends destroys its reactors.
 *
 * Callbacks. Unless a function is marked [not from a callback], it may be called from inside any
 * callback, on any object, the one being called included. A callback must return: it must not throw
 * a C++ exception, longjmp out or end its thread. (A C++ exception ends the process.)
 *
 * Names. An ms_reactor is a name, not an address: a null, destroyed or made-up one is an error
 * (MS_REACTOR_ERROR_BAD_REACTOR), never a crash. The same goes for watchers, timers and the rest,
 * whose names are numbers. No name is zero, and none is given out twice (before 2^32 others have
 * been given out in its place).
 *
 * Data. The `data` of a callback is handed back and otherwise left alone. After unwatching or
 * cancelling, no callback runs with it any more, not even for an event that was fetched before; so
 * it may be freed there and then.
 *
 * Out parameters may be null when the name is not wanted.
 *
 * Signals. Nothing here may be called from a signal handler: use ms_reactor_on_signal instead of
 * one.
 *
 * This header is C89 but for <stdint.h>, and C++.
 */
#ifndef MAINSPRING_REACTOR_H
#define MAINSPRING_REACTOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* version -------------------------------------------------------------------------------------- */

#define MS_REACTOR_VERSION_MAJOR 0
#define MS_REACTOR_VERSION_MINOR 1
#define MS_REACTOR_VERSION_PATCH 0

/* The version of the library that was loaded, such as "0.1.0". [any thread] */
const char *ms_reactor_version(void);

/* errors --------------------------------------------------------------------------------------- */

enum ms_reactor_error {
    MS_REACTOR_OK = 0,
    MS_REACTOR_ERROR_INVALID = -1,       /* a null callback or out pointer, an unknown bit, mode, backend or flag */
    MS_REACTOR_ERROR_BAD_REACTOR = -2,   /* null, destroyed, or never made */
    MS_REACTOR_ERROR_WRONG_THREAD = -3,  /* the reactor belongs to another thread */
    MS_REACTOR_ERROR_REENTRANT = -4,     /* polled or run from inside one of its own callbacks */
    MS_REACTOR_ERROR_BAD_FD = -5,        /* negative, or not open */
    MS_REACTOR_ERROR_UNSUPPORTED = -6,   /* the backend cannot do it (edge mode or embedding on poll) */
    MS_REACTOR_ERROR_NO_CALLBACK = -7,   /* an interest that has no callback to go to */
    MS_REACTOR_ERROR_OUT_OF_RANGE = -8,  /* a deadline beyond 292 years */
    MS_REACTOR_ERROR_ZERO_INTERVAL = -9, /* a repeating timer that would never let the loop rest */
    MS_REACTOR_ERROR_GONE = -10,         /* the watcher, timer or other name no longer exists, or never did */
    MS_REACTOR_ERROR_BAD_SIGNAL = -11,   /* not a signal, or one that cannot be caught */
    MS_REACTOR_ERROR_SIGNAL_TAKEN = -12, /* another reactor of this process has the signal */
    MS_REACTOR_ERROR_INBOX_FULL = -13,   /* too many calls from other threads are waiting: try again later */
    MS_REACTOR_ERROR_SYSTEM = -14,       /* the operating system refused: ms_reactor_last_errno() says why */
    MS_REACTOR_ERROR_INTERNAL = -15,     /* a fault of the library: please report it */
    MS_REACTOR_ERROR_LIMIT = -16         /* as many reactors or wake-ups exist as may: 2^28 - 1 (2^12 - 1 on 32 bits) */
};

/* What an error code means, in a few words. Never null, whatever the code. [any thread] */
const char *ms_reactor_strerror(int code);

/*
 * The code of the last call on this thread that failed, or MS_REACTOR_OK. Success does not reset
 * it. [any thread]
 */
int ms_reactor_last_error(void);

/*
 * What that call was asked and why it failed, in one line; "" if none has failed. Never null. The
 * text lives until the next failing call on this thread. [any thread]
 */
const char *ms_reactor_last_error_text(void);

/* The errno of that call if its code is MS_REACTOR_ERROR_SYSTEM, else 0. [any thread] */
int ms_reactor_last_errno(void);

/* names ---------------------------------------------------------------------------------------- */

/* A loop. */
typedef struct ms_reactor ms_reactor;

typedef uint64_t ms_reactor_watcher; /* a watched descriptor */
typedef uint64_t ms_reactor_timer;   /* a timer */
typedef uint64_t ms_reactor_signal;  /* a watched signal */
typedef uint64_t ms_reactor_child;   /* a watched child process */
typedef uint64_t ms_reactor_wakeup;  /* a callback for other threads to call */

/* Nanoseconds, for arguments that end in _ns. */
#define MS_REACTOR_MICROSECOND ((int64_t)1000)
#define MS_REACTOR_MILLISECOND ((int64_t)1000000)
#define MS_REACTOR_SECOND ((int64_t)1000000000)

/* life cycle ----------------------------------------------------------------------------------- */

enum ms_reactor_backend {
    MS_REACTOR_BACKEND_BEST = 0,  /* the best one of this system */
    MS_REACTOR_BACKEND_EPOLL = 1, /* Linux: epoll, timerfd, eventfd, pidfd */
    MS_REACTOR_BACKEND_POLL = 2   /* any Unix: poll(2); no edge mode, no embedding */
};

enum ms_reactor_flag {
    /*
     * Time stands still while there is anything to do, and jumps to the next deadline when there is
     * not, so that a test runs hours of timers in milliseconds, always in the same order. See
     * ms_reactor_advance.
     */
    MS_REACTOR_VIRTUAL_CLOCK = 1
};

/*
 * Makes a loop that belongs to the calling thread, and stores its name in *out (null on failure).
 * Errors: INVALID (out is null; unknown backend or flag), UNSUPPORTED, SYSTEM (out of descriptors).
 * [any thread]
 */
int ms_reactor_create(ms_reactor **out, int backend, unsigned flags);

/*
 * Ends everything on the loop and frees it: watchers, timers and waiting calls are dropped without
 * being called, and the name is dead from here on. Descriptors are not closed. Null is fine and
 * does nothing.
 *
 * From inside one of its own callbacks: that callback is the last one that runs, and the poll or
 * run it came from returns as soon as it has returned. Errors: BAD_REACTOR, WRONG_THREAD.
 */
int ms_reactor_destroy(ms_reactor *reactor);

/* The backend in use: MS_REACTOR_BACKEND_EPOLL or MS_REACTOR_BACKEND_POLL. */
int ms_reactor_backend_of(ms_reactor *reactor);

/* watching ------------------------------------------------------------------------------------- */

/*
 * What a watcher waits for, and what it is told. The first four may be asked for. Errors and
 * hang-ups are told whatever was asked for. Asking for nothing (0) pauses the watcher: it is told
 * nothing at all. (The values are those of Linux's poll(2), so that nothing needs to be translated;
 * use the names.)
 */
enum ms_reactor_readiness {
    MS_REACTOR_READ = 0x1,          /* a read makes progress: bytes, a connection, or the end */
    MS_REACTOR_PRIORITY = 0x2,      /* out-of-band data and the like */
    MS_REACTOR_WRITE = 0x4,         /* a write makes progress, or a connect has finished */
    MS_REACTOR_ERROR = 0x8,         /* the descriptor has an error; asked for alone, nothing else wakes the loop */
    MS_REACTOR_HANGUP = 0x10,       /* told only: both directions are closed */
    MS_REACTOR_READ_CLOSED = 0x2000 /* told only: the peer will send no more */
};

/* When a ready descriptor is reported again. */
enum ms_reactor_mode {
    MS_REACTOR_LEVEL = 0,       /* on every turn while it is ready */
    MS_REACTOR_EDGE = 1,        /* once for each change: read or write until EAGAIN. Not on poll */
    MS_REACTOR_ONESHOT = 2,     /* once, then silent until modified, re-armed or watched again */
    MS_REACTOR_EDGE_ONESHOT = 3 /* both. Not on poll */
};

/* A watched descriptor is ready. `readiness` is a set of ms_reactor_readiness, never empty. */
typedef void (*ms_reactor_fd_callback)(ms_reactor *reactor, ms_reactor_watcher watcher, int fd, unsigned readiness,
                                       void *data);

/*
 * Watches a descriptor with one callback that gets the whole readiness set.
 *
 * There is one watcher per descriptor: watching it again replaces the one that was there, in one
 * step and silently; its name is dead from then on. If this fails, the old one stays. Regular files
 * are always ready.
 *
 * Unwatch before closing. A descriptor that is closed first is never reported again, but counts
 * until it is unwatched; if its number is reused, watch it again (on the poll backend, which knows
 * numbers only, the old watcher would report it). Errors: INVALID (null callback, unknown bits or
 * mode), BAD_FD, UNSUPPORTED, SYSTEM.
 */
int ms_reactor_watch(ms_reactor *reactor, int fd, unsigned interest, int mode, ms_reactor_fd_callback callback, void *data,
                     ms_reactor_watcher *out);

/*
 * Watches a descriptor with separate callbacks, each of which may be null, but not all; those given
 * are the interest.
 *
 * For each event they run in the order error, read, write, each only if the watcher is still there.
 * An error runs on_error alone; without one it counts as readiness, and the next read or write
 * reports it. A hang-up runs on_read. Errors: NO_CALLBACK (all null), INVALID (mode), BAD_FD,
 * UNSUPPORTED, SYSTEM.
 */
int ms_reactor_watch_separate(ms_reactor *reactor, int fd, int mode, ms_reactor_fd_callback on_read,
                              ms_reactor_fd_callback on_write, ms_reactor_fd_callback on_error, void *data,
                              ms_reactor_watcher *out);

/*
 * Changes what a watcher waits for, and arms it again if it is oneshot. 0 pauses it. Errors: GONE,
 * INVALID (unknown bits), NO_CALLBACK (no callback for that interest), BAD_FD (closed meanwhile),
 * SYSTEM.
 */
int ms_reactor_modify(ms_reactor *reactor, ms_reactor_watcher watcher, unsigned interest);

/* Arms a oneshot watcher again with the interest it has. Errors: as ms_reactor_modify. */
int ms_reactor_rearm(ms_reactor *reactor, ms_reactor_watcher watcher);

/*
 * Ends a watch. Returns 1 if it was there, 0 if not: ending it twice is fine. The descriptor stays
 * open.
 */
int ms_reactor_unwatch(ms_reactor *reactor, ms_reactor_watcher watcher);

/* The watcher of a descriptor, or 0 if there is none (or no such reactor). */
ms_reactor_watcher ms_reactor_watcher_of(ms_reactor *reactor, int fd);

/* 1 if the watch is still there, armed or not; 0 if not. */
int ms_reactor_is_watching(ms_reactor *reactor, ms_reactor_watcher watcher);

/* How many descriptors are watched. */
int ms_reactor_watcher_count(ms_reactor *reactor);

/* timers --------------------------------------------------------------------------------------- */

/*
 * A timer is due. `missed` is 0 for a one-shot; for a repeating timer, how many further ticks had
 * become due and are folded into this call. A one-shot's name is dead already.
 */
typedef void (*ms_reactor_timer_callback)(ms_reactor *reactor, ms_reactor_timer timer, uint64_t missed, void *data);

/*
 * Timers never fire early. They fire in the order of their deadlines, and among equals in the order
 * in which they were set. One that is set from a callback fires on a later turn, even if it is due
 * at once. The clock is monotonic: setting the time of day moves no timer.
 */

/*
 * The time on the loop's clock, in nanoseconds since an origin of its own. Errors: INVALID (out is
 * null).
 */
int ms_reactor_now(ms_reactor *reactor, int64_t *out_ns);

/*
 * Calls once, at an instant of the loop's clock. One in the past is due at once. Errors: INVALID
 * (null callback).
 */
int ms_reactor_at(ms_reactor *reactor, int64_t deadline_ns, ms_reactor_timer_callback callback, void *data,
                  ms_reactor_timer *out);

/* Calls once, after a delay. Errors: INVALID (null callback, negative delay), OUT_OF_RANGE. */
int ms_reactor_after(ms_reactor *reactor, int64_t delay_ns, ms_reactor_timer_callback callback, void *data,
                     ms_reactor_timer *out);

/*
 * Calls every interval, first after one interval. The rate is fixed: ticks are due at whole
 * intervals from the first deadline, however late a call was; missed ones fold into one call.
 * Errors: INVALID (null callback, negative interval), ZERO_INTERVAL, OUT_OF_RANGE.
 */
int ms_reactor_every(ms_reactor *reactor, int64_t interval_ns, ms_reactor_timer_callback callback, void *data,
                     ms_reactor_timer *out);

/* As ms_reactor_every, first at an instant of the loop's clock. */
int ms_reactor_every_from(ms_reactor *reactor, int64_t first_deadline_ns, int64_t interval_ns,
                          ms_reactor_timer_callback callback, void *data, ms_reactor_timer *out);

/* Cancels a timer. Returns 1 if it was still to fire, 0 if not: cancelling twice is fine. */
int ms_reactor_cancel(ms_reactor *reactor, ms_reactor_timer timer);

/*
 * Moves a timer, due or not, to another deadline; a repeating one keeps its interval. Errors: GONE.
 */
int ms_reactor_reschedule_at(ms_reactor *reactor, ms_reactor_timer timer, int64_t deadline_ns);

/* Moves a timer to a delay from now. Errors: GONE, INVALID (negative), OUT_OF_RANGE. */
int ms_reactor_reschedule_after(ms_reactor *reactor, ms_reactor_timer timer, int64_t delay_ns);

/* 1 if the timer has yet to fire, or to fire again; 0 if not. */
int ms_reactor_has_timer(ms_reactor *reactor, ms_reactor_timer timer);

/* How many timers have yet to fire, or to fire again. */
int ms_reactor_timer_count(ms_reactor *reactor);

/*
 * Stores the earliest deadline and returns 1, or returns 0 if there is no timer. Errors: INVALID
 * (out is null).
 */
int ms_reactor_next_deadline(ms_reactor *reactor, int64_t *out_ns);

/* Moves a virtual clock forward. Errors: UNSUPPORTED (the clock is real), INVALID (negative). */
int ms_reactor_advance(ms_reactor *reactor, int64_t by_ns);

/* running -------------------------------------------------------------------------------------- */

/*
 * Waits until something happens, for at most timeout_ms milliseconds (0: do not wait; negative: for
 * ever), and makes one turn of it: descriptors, calls from wake-ups, timers, deferred calls.
 * Returns how many callbacks ran; 0 when the time was up or another thread woke or stopped the
 * loop. A signal handler that runs meanwhile does not end the wait. Errors: REENTRANT, SYSTEM. [not
 * from a callback of the same reactor]
 */
int ms_reactor_poll(ms_reactor *reactor, int timeout_ms);

/* The same with a timeout in nanoseconds. [not from a callback of the same reactor] */
int ms_reactor_poll_ns(ms_reactor *reactor, int64_t timeout_ns);

/*
 * Runs until ms_reactor_stop. With nothing to wait for it waits all the same, without using the
 * processor. Errors: REENTRANT, SYSTEM. [not from a callback of the same reactor]
 */
int ms_reactor_run(ms_reactor *reactor);

/*
 * Runs until ms_reactor_stop, or until nothing is left that could lead to a callback: no armed
 * watcher, timer, deferred call or child. Signals and wake-ups do not keep it running. Errors:
 * REENTRANT, SYSTEM. [not from a callback of the same reactor]
 */
int ms_reactor_run_until_idle(ms_reactor *reactor);

/*
 * Has the run return once its turn is over. If none is in progress, the next one makes a single
 * turn that does not wait, and returns: a stop is never lost. [any thread]
 */
int ms_reactor_stop(ms_reactor *reactor);

/* 1 while ms_reactor_run or ms_reactor_run_until_idle is in progress, else 0. [any thread] */
int ms_reactor_is_running(ms_reactor *reactor);

/* calls, now and from afar --------------------------------------------------------------------- */

typedef void (*ms_reactor_call_callback)(ms_reactor *reactor, void *data);

/*
 * Calls back on a later turn, never from inside this call: after descriptors and timers, in the
 * order of asking. A call deferred by a deferred call waits for the turn after. Calls that have not
 * run when the reactor is destroyed do not run. Errors: INVALID (null callback).
 */
int ms_reactor_defer(ms_reactor *reactor, ms_reactor_call_callback callback, void *data);

/*
 * Has the loop make a call on its own thread, among its deferred calls, in the order of asking.
 * Errors: INVALID (null callback), INBOX_FULL, BAD_REACTOR (destroyed meanwhile: the call will not
 * run). [any thread]
 */
int ms_reactor_call(ms_reactor *reactor, ms_reactor_call_callback callback, void *data);

/* Makes a waiting loop take a turn. Several wakes before it looks count as one. [any thread] */
int ms_reactor_wake(ms_reactor *reactor);

/*
 * Makes a callback that any thread can have called, without memory being allocated when it does.
 * Signals that arrive before the loop gets to it fold into one call. Errors: INVALID (null callback
 * or out).
 */
int ms_reactor_wakeup_create(ms_reactor *reactor, ms_reactor_call_callback callback, void *data, ms_reactor_wakeup *out);

/*
 * Has the callback called on the loop's next turn. Errors: GONE (destroyed, or its reactor is).
 * [any thread]
 */
int ms_reactor_wakeup_signal(ms_reactor_wakeup wakeup);

/*
 * Ends a wake-up. Returns 1 if it was there, 0 if not. On the loop's thread its callback does not
 * run after this; from another thread, one call may still be on its way. [any thread]
 */
int ms_reactor_wakeup_destroy(ms_reactor_wakeup wakeup);

/* signals, children ---------------------------------------------------------------------------- */

/* The process has received a signal; `count` have arrived since the loop last looked. */
typedef void (*ms_reactor_signal_callback)(ms_reactor *reactor, int signal_number, unsigned count, void *data);

/*
 * Calls back whenever the process receives a signal; what it would otherwise do does not happen.
 * Several callbacks may watch one signal. It is taken by a handler, in any thread, and blocked in
 * none; programs that are started meanwhile find its default action. One that every thread blocks
 * arrives when one of them lets it through. Errors: INVALID (null callback), BAD_SIGNAL,
 * SIGNAL_TAKEN, SYSTEM.
 */
int ms_reactor_on_signal(ms_reactor *reactor, int signal_number, ms_reactor_signal_callback callback, void *data,
                         ms_reactor_signal *out);

/*
 * Ends it. Returns 1 if it was there, 0 if not. After the last one, the signal does again what it
 * did before; what has arrived and was not delivered goes to nobody.
 */
int ms_reactor_unwatch_signal(ms_reactor *reactor, ms_reactor_signal signal);

/* The status of a child that somebody else has waited for. */
#define MS_REACTOR_STATUS_UNKNOWN (-1)

/*
 * A child has ended. `status` is what waitpid(2) reports (WIFEXITED and so on), or
 * MS_REACTOR_STATUS_UNKNOWN.
 */
typedef void (*ms_reactor_child_callback)(ms_reactor *reactor, int pid, int status, void *data);

/*
 * Waits for a child process of this one, and calls back once when it has ended, even if it had
 * already. Do not wait for it yourself as well. On the poll backend, and where the system has no
 * pidfds, this takes SIGCHLD. Errors: INVALID (null callback, pid below 1), SIGNAL_TAKEN (SIGCHLD
 * is another reactor's), SYSTEM (errno ESRCH or ECHILD: no such process. Where this cannot be seen
 * at once, the callback is told MS_REACTOR_STATUS_UNKNOWN).
 */
int ms_reactor_on_child_exit(ms_reactor *reactor, int pid, ms_reactor_child_callback callback, void *data,
                             ms_reactor_child *out);

/* Ends it; the child is then yours to wait for. Returns 1 if it was there, 0 if not. */
int ms_reactor_unwatch_child(ms_reactor *reactor, ms_reactor_child child);

/* embedding ------------------------------------------------------------------------------------ */

/*
 * A descriptor that is readable whenever the loop has something to do: watch it in another loop,
 * and when it is readable call ms_reactor_poll(reactor, 0). It stays the same while the reactor
 * lives. Do not read or close it. Returns the descriptor. Errors: UNSUPPORTED (poll backend),
 * SYSTEM.
 */
int ms_reactor_embedding_fd(ms_reactor *reactor);

/* introspection -------------------------------------------------------------------------------- */

/* What the loop has done so far. */
typedef struct ms_reactor_stats {
    uint64_t turns;        /* turns made */
    uint64_t events;       /* events fetched from the kernel, the loop's own included */
    uint64_t callbacks;    /* callbacks run */
    uint64_t timers;       /* timers fired */
    uint64_t wakeups;      /* times another thread woke the loop */
    uint64_t stale_events; /* events of registrations that no longer exist, discarded */
    uint64_t rebuilds;     /* times the kernel's set was rebuilt to get rid of one that kept reporting */
} ms_reactor_stats;

/*
 * Fills *out with counts that are always kept. Pass sizeof *out as size: programs and libraries of
 * different versions then agree on what to fill. Errors: INVALID (out is null).
 */
int ms_reactor_get_stats(ms_reactor *reactor, ms_reactor_stats *out, size_t size);

/* The longest label that ms_reactor_timing has room for, its end included; longer ones are cut. */
#define MS_REACTOR_LABEL_SIZE 64

/* Where the time went since timing was switched on. */
typedef struct ms_reactor_timing {
    uint64_t busy_ns;                          /* in callbacks, and in the loop between two waits */
    uint64_t idle_ns;                          /* waiting */
    uint64_t lag_last_ns;                      /* how late the latest timer was called */
    uint64_t lag_max_ns;                       /* how late the latest of all was */
    uint64_t slowest_ns;                       /* the longest callback */
    char slowest_label[MS_REACTOR_LABEL_SIZE]; /* its watcher's or timer's label, "" if it has none */
} ms_reactor_timing;

/* Starts timing, from zero (1), or ends it (0). It costs two looks at the clock per callback. */
int ms_reactor_set_timing(ms_reactor *reactor, int on);

/* Fills *out and returns 1, or returns 0 while timing is off. Errors: INVALID (out is null). */
int ms_reactor_get_timing(ms_reactor *reactor, ms_reactor_timing *out, size_t size);

/*
 * Names a watcher for ms_reactor_timing and stall reports; the text is copied. Errors: GONE,
 * INVALID (null, not UTF-8).
 */
int ms_reactor_label_watcher(ms_reactor *reactor, ms_reactor_watcher watcher, const char *label);

/* Names a timer. Errors: GONE, INVALID (null, not UTF-8). */
int ms_reactor_label_timer(ms_reactor *reactor, ms_reactor_timer timer, const char *label);

/*
 * A callback has been running for too long, and still is. Called on a thread of the watch's own:
 * `label` is null if the watcher or timer has none, and valid during the call only.
 */
typedef void (*ms_reactor_stall_callback)(const char *label, uint64_t running_ns, void *data);

/*
 * Reports every callback that runs longer than threshold_ns: once each, while it runs. A second
 * call replaces the first; a null callback ends it, and once that has returned no report runs any
 * more. Errors: INVALID (threshold below 1), SYSTEM (no thread). Must not be called from the stall
 * callback itself.
 */
int ms_reactor_watch_stalls(ms_reactor *reactor, int64_t threshold_ns, ms_reactor_stall_callback callback, void *data);

#ifdef __cplusplus
}
#endif

#endif
