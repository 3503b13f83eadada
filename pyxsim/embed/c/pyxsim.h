/* pyxsim as a library: a network that another simulator drives (docs/library.md).
 *
 * Times are cycles of the network's clock, by default 1 GHz. Functions that return int return PYXSIM_OK or an error code;
 * pyxsim_error() then has the text, one for each thread. All functions may be called from any thread. Only one thread at
 * a time may advance a simulator, and none may use one that is destroyed. */

#ifndef PYXSIM_H
#define PYXSIM_H

#include <stdint.h>

#if defined(__GNUC__)
#define PYXSIM_API __attribute__((visibility("default")))
#else
#define PYXSIM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Error codes; 1 to 3 are the exit codes of the command. */
enum pyxsim_error_code {
    PYXSIM_OK = 0,
    PYXSIM_BUG = 1,    /* of pyxsim */
    PYXSIM_INPUT = 2,  /* settings or arguments */
    PYXSIM_FAILED = 3, /* the simulated network, for example in a deadlock */
    PYXSIM_NO_PYTHON = 4
};

typedef struct pyxsim_simulator pyxsim_simulator;

/* Called in the cycle in which something ends, in the thread that advances. It may call every function of the simulator
 * but those that create, destroy and advance. */
typedef void (*pyxsim_callback)(void *argument);

/* The text of the last error of this thread, "" without any. */
PYXSIM_API const char *pyxsim_error(void);

/* -- a simulator -- */

/* Create one from settings as TOML, or as JSON if the text begins with a brace. `backend`: packet (NULL), analytical,
 * analytical-congestion, flow, ethernet, or a registered one. */
PYXSIM_API int pyxsim_create(const char *settings, const char *backend, pyxsim_simulator **simulator);

/* The same from a file .toml or .json; relative paths in it start at its folder. */
PYXSIM_API int pyxsim_create_from_file(const char *path, const char *backend, pyxsim_simulator **simulator);

PYXSIM_API void pyxsim_destroy(pyxsim_simulator *simulator);

PYXSIM_API int64_t pyxsim_npus(const pyxsim_simulator *simulator);
PYXSIM_API double pyxsim_clock_hz(const pyxsim_simulator *simulator);

/* -- messages -- */

#define PYXSIM_NO_RECEPTION INT64_MIN

/* Send a message in the current cycle; callback (or NULL): it has arrived. A message with a tag then waits for its
 * pyxsim_recv, one with the tag PYXSIM_NO_RECEPTION does not. */
PYXSIM_API int pyxsim_send(
    pyxsim_simulator *simulator, int64_t src, int64_t dst, int64_t bytes, int64_t tag, pyxsim_callback callback,
    void *argument
);

/* The same in a later cycle. */
PYXSIM_API int pyxsim_send_at(
    pyxsim_simulator *simulator, int64_t cycle, int64_t src, int64_t dst, int64_t bytes, int64_t tag,
    pyxsim_callback callback, void *argument
);

/* Receive the message with this source, destination, size and tag: first come, first served. If it has arrived before,
 * the callback is called in the current cycle. */
PYXSIM_API int pyxsim_recv(
    pyxsim_simulator *simulator, int64_t src, int64_t dst, int64_t bytes, int64_t tag, pyxsim_callback callback,
    void *argument
);

/* Call a function after a delay in cycles. */
PYXSIM_API int pyxsim_schedule(pyxsim_simulator *simulator, int64_t delay, pyxsim_callback callback, void *argument);

typedef struct {
    int64_t src, dst, bytes;
    int64_t cycle; /* when it is sent; -1: in the current cycle */
} pyxsim_message;

typedef struct {
    int64_t message, cycle;
} pyxsim_arrival;

/* Send messages without callbacks and receptions, all or none. `first` (or NULL): number of the first one; the others
 * follow it. */
PYXSIM_API int pyxsim_submit(
    pyxsim_simulator *simulator, const pyxsim_message *messages, int64_t count, int64_t *first
);

/* Take out the messages of pyxsim_submit that have arrived, at most `most`; `count`: how many. */
PYXSIM_API int pyxsim_take_arrivals(
    pyxsim_simulator *simulator, pyxsim_arrival *arrivals, int64_t most, int64_t *count
);

/* -- time -- */

/* Let time pass to a cycle: everything due in it has then happened, and it is the current cycle. */
PYXSIM_API int pyxsim_advance_until(pyxsim_simulator *simulator, int64_t cycle);

/* Let time pass until nothing is left to do. */
PYXSIM_API int pyxsim_run(pyxsim_simulator *simulator);

/* Let the functions above return at the end of the current cycle. */
PYXSIM_API void pyxsim_stop(pyxsim_simulator *simulator);

PYXSIM_API int64_t pyxsim_now(const pyxsim_simulator *simulator);
PYXSIM_API double pyxsim_now_ns(const pyxsim_simulator *simulator);

/* Messages that have not arrived, and receptions without their message. */
PYXSIM_API int64_t pyxsim_messages_in_flight(pyxsim_simulator *simulator);
PYXSIM_API int64_t pyxsim_receptions_waiting(pyxsim_simulator *simulator);

/* -- links -- */

typedef struct {
    int64_t flits, bytes; /* carried so far */
    double busy;          /* cycles */
} pyxsim_link;

PYXSIM_API int64_t pyxsim_link_count(const pyxsim_simulator *simulator);

/* The name of a link, NULL if there is none; it lives as long as the simulator. */
PYXSIM_API const char *pyxsim_link_name(const pyxsim_simulator *simulator, int64_t link);

/* Write the counters of the first `count` links. */
PYXSIM_API int pyxsim_link_statistics(pyxsim_simulator *simulator, pyxsim_link *links, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
