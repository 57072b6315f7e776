/*
 * A header as programs of the original library saw it: its Latin types, and nothing of ours.
 *
 * Written from the signatures and values in the document. i32 and i64 are unsigned there; b32 and
 * integer are int.
 */
#ifndef REACTOR_H
#define REACTOR_H

#define nomen typedef
#define vacuum void
#define structura struct
#define NIHIL ((void *)0)
#define VERUM 1
#define FALSUM 0

typedef unsigned int i32;
typedef int b32;
typedef int integer;

nomen structura Piscina Piscina;
nomen structura Reactor Reactor;
nomen i32 ReactorTimerId;

#define REACTOR_LEGERE 0x01u
#define REACTOR_SCRIBERE 0x02u
#define REACTOR_ERROR 0x04u
#define REACTOR_CLAUSUM 0x08u
#define REACTOR_FD_MAXIMA 1000
#define REACTOR_TIMER_MAXIMA 128
#define REACTOR_TIMER_ERROR 0xFFFFFFFFu

nomen vacuum (*ReactorCallback)(integer fd, i32 eventus, vacuum *data);
nomen vacuum (*ReactorTimerCallback)(vacuum *data);

Reactor *reactor_creare(Piscina *piscina);
vacuum reactor_destruere(Reactor *reactor);
b32 reactor_adicere(Reactor *reactor, integer fd, i32 eventus, ReactorCallback callback, vacuum *data);
b32 reactor_modificare(Reactor *reactor, integer fd, i32 eventus);
b32 reactor_removere(Reactor *reactor, integer fd);
ReactorTimerId reactor_timer_adicere(Reactor *reactor, i32 timeout_ms, b32 repetere, ReactorTimerCallback callback,
                                     vacuum *data);
b32 reactor_timer_cancellare(Reactor *reactor, ReactorTimerId id);
i32 reactor_poll(Reactor *reactor, i32 timeout_ms);
vacuum reactor_currere(Reactor *reactor);
vacuum reactor_sistere(Reactor *reactor);
b32 reactor_est_currens(Reactor *reactor);
i32 reactor_numerus_fd(Reactor *reactor);
i32 reactor_numerus_timer(Reactor *reactor);

/* The arena is opaque to the reactor: anything that is not null will do. */
static char arena_of_the_test[1];
#define PISCINA ((Piscina *)(void *)arena_of_the_test)

#endif
