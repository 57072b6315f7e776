/*
 * reactor.h - the names of the library that Mainspring's callback API comes from, in plain C types.
 *
 * For programs that use those names and want to compile against Mainspring. Programs that were
 * compiled against that library's own header link against libmainspring_reactor as they are: the
 * functions, types and values are the same. New programs are better served by mainspring_reactor.h,
 * which has all of the loop and no limits.
 *
 * Rules that hold for every function
 * - A Reactor belongs to the thread that created it. From other threads, only reactor_sistere and
 *   reactor_est_currens work; the others fail.
 * - Everything may be called from inside any callback, except that reactor_poll and reactor_currere
 *   of the same reactor return at once there.
 * - A null, destroyed or made-up Reactor is a failure, never a crash. Why a call failed:
 *   ms_reactor_last_error_text() of mainspring_reactor.h, all of which works on a Reactor as well:
 *   (ms_reactor *)reactor.
 *
 * C89 and C++.
 */
#ifndef MAINSPRING_ORIGINAL_REACTOR_H
#define MAINSPRING_ORIGINAL_REACTOR_H

#ifdef __cplusplus
extern "C" {
#endif

/* A loop, and the arena it once came from: anything but null. */
typedef struct Reactor Reactor;
typedef struct Piscina Piscina;

/* What a descriptor is monitored for, and what a callback is told. */
#define REACTOR_LEGERE 0x01u   /* ready to read */
#define REACTOR_SCRIBERE 0x02u /* ready to write */
#define REACTOR_ERROR 0x04u    /* an error; always told */
#define REACTOR_CLAUSUM 0x08u  /* closed by the peer; always told */

/* The most that may be active at the same time. */
#define REACTOR_FD_MAXIMA 1000
#define REACTOR_TIMER_MAXIMA 128

/* A timer: 0 for the first, then growing. */
typedef unsigned int ReactorTimerId;
#define REACTOR_TIMER_ERROR 0xFFFFFFFFu

typedef void (*ReactorCallback)(int fd, unsigned int eventus, void *data);
typedef void (*ReactorTimerCallback)(void *data);

/*
 * Makes a loop of the calling thread. Null if the arena is null or the system is out of
 * descriptors.
 */
Reactor *reactor_creare(Piscina *piscina);

/*
 * Ends a loop and frees it: nothing of it was in the arena. From inside one of its callbacks, that
 * callback is the last one that runs. Afterwards the Reactor is dead: every function fails on it,
 * and its counts are 0. Null is fine.
 */
void reactor_destruere(Reactor *reactor);

/*
 * Registers a descriptor, or changes the events, callback and data of one that is registered.
 * Events of 0 pause it. Returns 1, or 0: bad reactor, descriptor not open, null callback, unknown
 * events, or 1000 are registered.
 */
int reactor_adicere(Reactor *reactor, int fd, unsigned int eventus, ReactorCallback callback, void *data);

/*
 * Changes the events of a registered descriptor. Returns 1, or 0: not registered, closed meanwhile,
 * unknown events.
 */
int reactor_modificare(Reactor *reactor, int fd, unsigned int eventus);

/* Ends a registration; do so before closing. Returns 1, or 0 if there was none. */
int reactor_removere(Reactor *reactor, int fd);

/*
 * Sets a timer, and repeats it at that interval if `repetere` is not 0: at a fixed rate, late calls
 * folded into one. Returns its id, or REACTOR_TIMER_ERROR: bad reactor, null callback, or 128 are
 * active.
 */
ReactorTimerId reactor_timer_adicere(Reactor *reactor, unsigned int timeout_ms, int repetere,
                                     ReactorTimerCallback callback, void *data);

/*
 * Cancels a timer. Returns 1, or 0 if it is not active: it has fired, was cancelled, or never was.
 */
int reactor_timer_cancellare(Reactor *reactor, ReactorTimerId id);

/*
 * Waits until something happens, at most timeout_ms (0: do not wait; -1, that is 0xFFFFFFFF: for
 * ever), then calls back for the descriptors that are ready and for the timers that are due.
 * Returns how many that was.
 */
unsigned int reactor_poll(Reactor *reactor, unsigned int timeout_ms);

/* Polls until reactor_sistere, without using the processor while nothing happens. If it has to end otherwise, because the
 * system refuses to wait, it says why on standard error (and by ms_reactor_last_error_text). */
void reactor_currere(Reactor *reactor);

/*
 * Ends reactor_currere once its turn is over; asked before it, the next one returns after a single
 * turn. Any thread.
 */
void reactor_sistere(Reactor *reactor);

/* 1 while reactor_currere runs, else 0. Any thread. */
int reactor_est_currens(Reactor *reactor);

/* How many descriptors are registered, and how many timers are active. */
unsigned int reactor_numerus_fd(Reactor *reactor);
unsigned int reactor_numerus_timer(Reactor *reactor);

#ifdef __cplusplus
}
#endif

#endif
