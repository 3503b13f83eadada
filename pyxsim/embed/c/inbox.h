/* What other simulators ask of pyxsim, on its way from their threads to the loop of exchange.pyx.
 *
 * A request is appended under a lock and without Python's lock; the loop takes all of them at once. */

#ifndef PYXSIM_INBOX_H
#define PYXSIM_INBOX_H

#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PYXSIM_INBOX "pyxsim.embed.inbox 1" /* name of the capsule; its number changes with these structures */
#define PYXSIM_AT_ONCE INT64_C(-1)          /* as a time: the current cycle */
#ifndef PYXSIM_NO_RECEPTION
#define PYXSIM_NO_RECEPTION INT64_MIN /* as the tag of a message: no reception takes it */
#endif
#define PYXSIM_MOST (INT64_C(1) << 62) /* bytes of a message, and cycles */

typedef void (*pyxsim_function)(void *argument);

enum pyxsim_kind { PYXSIM_SEND, PYXSIM_SUBMIT, PYXSIM_RECV, PYXSIM_SCHEDULE };

typedef struct {
    int64_t at, src, dst, size, tag;
    pyxsim_function call; /* NULL: `argument` is the number of a Python function, or 0 */
    void *argument;
    int64_t kind;
} pyxsim_request;

typedef struct {
    pthread_mutex_t lock;
    pyxsim_request *items;
    int64_t count, capacity;
    int64_t messages; /* sent so far: the number of the next one */
    int64_t now, npus;
    int32_t advancing, stopping, closed;
} pyxsim_inbox;

enum pyxsim_refusal {
    PYXSIM_NO_SENDER = -1,
    PYXSIM_NO_RECEIVER = -2,
    PYXSIM_ITSELF = -3,
    PYXSIM_SIZE = -4,
    PYXSIM_PAST = -5,
    PYXSIM_CLOSED = -6,
    PYXSIM_MEMORY = -7,
    PYXSIM_TAG = -8,
    PYXSIM_FAR = -9
};

static inline pyxsim_inbox *pyxsim_inbox_new(int64_t npus) {
    pyxsim_inbox *inbox = (pyxsim_inbox *)calloc(1, sizeof *inbox);
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

/* Whether a request can be accepted: 0, or a refusal. */
static inline int64_t pyxsim_inbox_check(const pyxsim_inbox *inbox, const pyxsim_request *request) {
    if (inbox->closed)
        return PYXSIM_CLOSED;
    if (request->at != PYXSIM_AT_ONCE && request->at < inbox->now)
        return PYXSIM_PAST;
    if (request->at > PYXSIM_MOST)
        return PYXSIM_FAR;
    if (request->kind == PYXSIM_SCHEDULE)
        return 0;
    if (request->src < 0 || request->src >= inbox->npus)
        return PYXSIM_NO_SENDER;
    if (request->dst < 0 || request->dst >= inbox->npus)
        return PYXSIM_NO_RECEIVER;
    if (request->src == request->dst)
        return PYXSIM_ITSELF;
    if (request->kind == PYXSIM_RECV && request->tag == PYXSIM_NO_RECEPTION)
        return PYXSIM_TAG;
    return request->size < 1 || request->size > PYXSIM_MOST ? PYXSIM_SIZE : 0;
}

/* Append requests that were checked, all or none. Returns the number of the first message, or a refusal. */
static inline int64_t pyxsim_inbox_add(pyxsim_inbox *inbox, const pyxsim_request *requests, int64_t count) {
    int64_t first = inbox->messages, needed = inbox->count + count, i;
    if (needed > inbox->capacity) {
        int64_t capacity = needed > 2 * inbox->capacity ? needed + 63 : 2 * inbox->capacity;
        pyxsim_request *items = (pyxsim_request *)realloc(inbox->items, (size_t)capacity * sizeof *items);
        if (items == NULL)
            return PYXSIM_MEMORY;
        inbox->items = items;
        inbox->capacity = capacity;
    }
    for (i = 0; i < count; i++) {
        inbox->items[inbox->count++] = requests[i];
        inbox->messages += requests[i].kind <= PYXSIM_SUBMIT;
    }
    return first;
}

/* Check and append requests from any thread; see above. `wrong`: which one was refused. */
static inline int64_t pyxsim_inbox_put(
    pyxsim_inbox *inbox, const pyxsim_request *requests, int64_t count, int64_t *wrong
) {
    int64_t answer = 0, i;
    pthread_mutex_lock(&inbox->lock);
    for (i = 0; i < count && !answer; i++) {
        answer = pyxsim_inbox_check(inbox, &requests[i]);
        *wrong = i;
    }
    if (!answer)
        answer = pyxsim_inbox_add(inbox, requests, count);
    pthread_mutex_unlock(&inbox->lock);
    return answer;
}

/* Say in words why a request was refused. */
static inline void pyxsim_refusal_text(
    const pyxsim_inbox *inbox, const pyxsim_request *request, int64_t refusal, char problem[128], char allowed[128]
) {
    *allowed = 0;
    switch (refusal) {
    case PYXSIM_NO_SENDER:
    case PYXSIM_NO_RECEIVER:
        snprintf(problem, 128, "there is no NPU %" PRId64, refusal == PYXSIM_NO_SENDER ? request->src : request->dst);
        snprintf(allowed, 128, "NPUs 0 to %" PRId64, inbox->npus - 1);
        break;
    case PYXSIM_ITSELF:
        snprintf(problem, 128, "NPU %" PRId64 " cannot send a message to itself", request->src);
        snprintf(allowed, 128, "another NPU");
        break;
    case PYXSIM_SIZE:
        snprintf(problem, 128, "a message of %" PRId64 " bytes is not possible", request->size);
        snprintf(allowed, 128, "1 to 2^62 bytes");
        break;
    case PYXSIM_PAST:
        snprintf(problem, 128, "cycle %" PRId64 " is in the past", request->at);
        snprintf(allowed, 128, "cycle %" PRId64 " or later", inbox->now);
        break;
    case PYXSIM_FAR:
        snprintf(problem, 128, "cycle %" PRId64 " is too late", request->at);
        snprintf(allowed, 128, "cycles up to 2^62");
        break;
    case PYXSIM_TAG:
        snprintf(problem, 128, "no message has this tag");
        snprintf(allowed, 128, "every other integer");
        break;
    case PYXSIM_CLOSED:
        snprintf(problem, 128, "the simulator is closed");
        break;
    default:
        snprintf(problem, 128, "no memory");
    }
}

#endif
