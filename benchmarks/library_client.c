/* The client of benchmarks/library.py: rounds of messages between neighbors on a ring, over libpyxsim.
 *
 *     library_client MODE BACKEND NPUS ROUNDS
 *
 * MODE: chain (each arrival sends the next message), match (the same with receptions), array (pyxsim_submit).
 * Prints the CPU seconds from the first message to the end, and the last cycle. */

#include <pyxsim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 4096 };

typedef struct {
    pyxsim_simulator *network;
    long long npus, npu, left;
    int matched;
} rank;

static void check(int code) {
    if (code != PYXSIM_OK) {
        fprintf(stderr, "%s\n", pyxsim_error());
        exit(code);
    }
}

static void next(void *argument) {
    rank *self = argument;
    long long to = (self->npu + 1) % self->npus, from = (self->npu + self->npus - 1) % self->npus;
    if (self->left-- == 0)
        return;
    if (self->matched) {
        check(pyxsim_send(self->network, self->npu, to, SIZE, self->left, NULL, NULL));
        check(pyxsim_recv(self->network, from, self->npu, SIZE, self->left, next, self));
    } else {
        check(pyxsim_send(self->network, self->npu, to, SIZE, PYXSIM_NO_RECEPTION, next, self));
    }
}

static void send_arrays(pyxsim_simulator *network, long long npus, long long rounds) {
    pyxsim_message *messages = malloc((size_t)npus * sizeof *messages);
    pyxsim_arrival *arrivals = malloc((size_t)npus * sizeof *arrivals);
    for (long long round = 0; round < rounds; round++) {
        int64_t count = 0;
        for (long long npu = 0; npu < npus; npu++)
            messages[npu] = (pyxsim_message){npu, (npu + 1) % npus, SIZE, -1};
        check(pyxsim_submit(network, messages, npus, NULL));
        check(pyxsim_run(network));
        check(pyxsim_take_arrivals(network, arrivals, npus, &count));
        if (count != npus)
            exit(1);
    }
    free(messages);
    free(arrivals);
}

int main(int count, char **words) {
    if (count != 5)
        return 2;
    char settings[200];
    long long npus = atoll(words[3]), rounds = atoll(words[4]);
    pyxsim_simulator *network;
    snprintf(settings, sizeof settings, "network = { topology = 'ring', shape = [%lld] }\n", npus);
    check(pyxsim_create(settings, words[2], &network));
    rank *ranks = calloc((size_t)npus, sizeof *ranks);
    clock_t begin = clock();
    if (strcmp(words[1], "array") == 0) {
        send_arrays(network, npus, rounds);
    } else {
        for (long long npu = 0; npu < npus; npu++) {
            ranks[npu] = (rank){network, npus, npu, rounds, strcmp(words[1], "match") == 0};
            next(&ranks[npu]);
        }
        check(pyxsim_run(network));
    }
    printf("%.9f %lld\n", (double)(clock() - begin) / CLOCKS_PER_SEC, (long long)pyxsim_now(network));
    pyxsim_destroy(network);
    free(ranks);
    return 0;
}
