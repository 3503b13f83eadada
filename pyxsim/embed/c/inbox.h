/* What other simulators ask of pyxsim, on its way from their threads to the loop of exchange.pyx.
 *
 * A request is appended under a lock and without Python's lock; the loop takes all of them at once. */

#ifndef PYXSIM_INBOX_H
#define PYXSIM_INBOX_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define PYXSIM_INBOX "pyxsim.embed.inbox 1" /* name of the capsule; its number changes with these structures */
#define PYXSIM_AT_ONCE (-1)                 /* as a time: the current cycle */

typedef void (*pyxsim_function)(void *argument);

enum pyxsim_kind { PYXSIM_SEND, PYXSIM_SUBMIT, PYXSIM_RECV, PYXSIM_SCHEDULE };

typedef struct {
    int64_t at, size, tag;
    pyxsim_function call; /* NULL: `argument` is the number of a Python function, or 0 */
    void *argument;
    int32_t src, dst, kind;
} pyxsim_request;

typedef struct {
    pthread_mutex_t lock;
    pyxsim_request *items;
    int64_t count, capacity;
    int64_t messages; /* sent so far: the number of the next one */
    int64_t now;
    int32_t npus;
    int32_t advancing, stopping, closed;
} pyxsim_inbox;

enum pyxsim_refusal {
    PYXSIM_ACCEPTED = 0,
    PYXSIM_NO_NPU = -1,
    PYXSIM_ITSELF = -2,
    PYXSIM_SIZE = -3,
    PYXSIM_PAST = -4,
    PYXSIM_CLOSED = -5,
    PYXSIM_MEMORY = -6
};

static inline pyxsim_inbox *pyxsim_inbox_new(int32_t npus) {
    pyxsim_inbox *inbox = calloc(1, sizeof *inbox);
    if (inbox != NULL) {
        inbox->npus = npus;
        pthread_mutex_init(&inbox->lock, NULL);
    }
    return inbox;
}

static inline void pyxsim_inbox_free(pyxsim_inbox *inbox) {
    if (inbox != NULL) {
        pthread_mutex_destroy(&inbox->lock);
        free(inbox->items);
        free(inbox);
    }
}

/* Append without the lock. Returns the number of a message, 0 for other requests, or a refusal. */
static inline int64_t pyxsim_inbox_add(pyxsim_inbox *inbox, const pyxsim_request *request) {
    if (inbox->closed)
        return PYXSIM_CLOSED;
    if (request->at != PYXSIM_AT_ONCE && request->at < inbox->now)
        return PYXSIM_PAST;
    if (request->kind != PYXSIM_SCHEDULE) {
        if (request->src < 0 || request->dst < 0 || request->src >= inbox->npus || request->dst >= inbox->npus)
            return PYXSIM_NO_NPU;
        if (request->src == request->dst)
            return PYXSIM_ITSELF;
        if (request->size < 1 || request->size > INT64_C(1) << 62)
            return PYXSIM_SIZE;
    }
    if (inbox->count == inbox->capacity) {
        int64_t capacity = inbox->capacity ? 2 * inbox->capacity : 64;
        pyxsim_request *items = realloc(inbox->items, (size_t)capacity * sizeof *items);
        if (items == NULL)
            return PYXSIM_MEMORY;
        inbox->items = items;
        inbox->capacity = capacity;
    }
    inbox->items[inbox->count++] = *request;
    return request->kind <= PYXSIM_SUBMIT ? inbox->messages++ : 0;
}

static inline int64_t pyxsim_inbox_put(pyxsim_inbox *inbox, const pyxsim_request *request) {
    pthread_mutex_lock(&inbox->lock);
    int64_t answer = pyxsim_inbox_add(inbox, request);
    pthread_mutex_unlock(&inbox->lock);
    return answer;
}

#endif
