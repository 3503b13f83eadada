/* Threads that use libpyxsim at the same time: tests/embed/test_c_library.py compiles and runs it. */

#include <pthread.h>
#include <pyxsim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, pyxsim_error());                                \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { THREADS = 4, EACH = 2000 };

static const char *const ring = "{\"network\": {\"topology\": \"ring\", \"shape\": [8]}}";

static void count(void *argument) { ++*(int *)argument; }

typedef struct {
    pyxsim_simulator *network;
    int number, arrived;
} sender;

/* Send to the same simulator as the other threads, whose calls come in the thread that advances. */
static void *send_many(void *argument) {
    sender *self = argument;
    for (int i = 0; i < EACH; i++) {
        REQUIRE(pyxsim_send(self->network, self->number, 7, 100, i, count, &self->arrived) == PYXSIM_OK);
        REQUIRE(pyxsim_now(self->network) >= 0);
    }
    REQUIRE(pyxsim_send(self->network, self->number, 50 + self->number, 1, 0, NULL, NULL) == PYXSIM_INPUT);
    char expected[60];
    snprintf(expected, sizeof expected, "there is no NPU %d; allowed: NPUs 0 to 7", 50 + self->number);
    REQUIRE(strcmp(pyxsim_error(), expected) == 0);
    return NULL;
}

/* A simulator of its own in each thread. */
static void *own(void *argument) {
    pyxsim_simulator *network;
    REQUIRE(pyxsim_create(ring, "flow", &network) == PYXSIM_OK);
    int arrived = 0;
    for (int i = 0; i < 50; i++) {
        REQUIRE(pyxsim_send(network, 0, 1, 1000, 0, count, &arrived) == PYXSIM_OK);
        REQUIRE(pyxsim_run(network) == PYXSIM_OK);
    }
    REQUIRE(arrived == 50);
    *(int64_t *)argument = pyxsim_now(network);
    pyxsim_destroy(network);
    return NULL;
}

typedef struct {
    pyxsim_simulator *network;
    int code;
} inner;

static void advance_inside(void *argument) {
    inner *self = argument;
    self->code = pyxsim_run(self->network);
}

int main(void) {
    pthread_t threads[THREADS];
    sender senders[THREADS];
    int64_t ends[THREADS];
    pyxsim_simulator *network;

    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, own, &ends[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    for (int i = 1; i < THREADS; i++)
        REQUIRE(ends[i] == ends[0]);

    REQUIRE(pyxsim_create(ring, "analytical", &network) == PYXSIM_OK);
    for (int i = 0; i < THREADS; i++) {
        senders[i] = (sender){network, i, 0};
        REQUIRE(pthread_create(&threads[i], NULL, send_many, &senders[i]) == 0);
    }
    for (int i = 1; i <= 100; i++)
        REQUIRE(pyxsim_advance_until(network, i * 10) == PYXSIM_OK);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    REQUIRE(pyxsim_run(network) == PYXSIM_OK);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(senders[i].arrived == EACH);
    REQUIRE(pyxsim_messages_in_flight(network) == 0);

    inner nested = {network, 0};
    REQUIRE(pyxsim_schedule(network, 5, advance_inside, &nested) == PYXSIM_OK);
    REQUIRE(pyxsim_run(network) == PYXSIM_OK);
    REQUIRE(nested.code == PYXSIM_INPUT);
    REQUIRE(strstr(pyxsim_error(), "already advancing") != NULL);

    REQUIRE(pyxsim_recv(network, 0, 1, 10, 3, count, &senders[0].arrived) == PYXSIM_OK);
    REQUIRE(pyxsim_run(network) == PYXSIM_OK);
    REQUIRE(pyxsim_receptions_waiting(network) == 1);
    pyxsim_destroy(network); /* with a reception that waits */
    puts("ok");
    return 0;
}
