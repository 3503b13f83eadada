/* A ring all-reduce in C, as a simulator of its own would send it: pyxsim carries the messages.
 *
 * Every NPU sends one share of the buffer to the next NPU, and another one when it has received one: 2(n - 1) steps.
 * The end is compared with the closed form, 2(n - 1) times the time of one message.
 *
 *     pyxsim library -o lib
 *     cc examples/ring_all_reduce.c $(PKG_CONFIG_PATH=lib/lib/pkgconfig pkg-config --cflags --libs pyxsim) -o ring
 *     ./ring */

#include <pyxsim.h>
#include <stdio.h>
#include <stdlib.h>

enum { NPUS = 8, STEPS = 2 * (NPUS - 1), SHARE = 1 << 20 };

/* A link carries 100 bytes per cycle of 1 ns; the way of a message to its neighbor takes 500 cycles. */
static const char *const settings = "[network]\n"
                                    "topology = 'ring'\n"
                                    "shape = [8]\n"
                                    "bandwidth = '100 GB/s'\n"
                                    "latency = '500 ns'\n";

typedef struct {
    pyxsim_simulator *network;
    int npu, step;
} rank;

static void check(int code) {
    if (code != PYXSIM_OK) {
        fprintf(stderr, "pyxsim: %s\n", pyxsim_error());
        exit(code);
    }
}

/* Send the share of a step, and continue with the next one when that of the NPU before is there. */
static void step(void *argument) {
    rank *self = argument;
    int number = self->step++;
    if (number == STEPS)
        return;
    check(pyxsim_send(self->network, self->npu, (self->npu + 1) % NPUS, SHARE, number, NULL, NULL));
    check(pyxsim_recv(self->network, (self->npu + NPUS - 1) % NPUS, self->npu, SHARE, number, step, self));
}

int main(void) {
    pyxsim_simulator *network;
    rank ranks[NPUS];
    check(pyxsim_create(settings, "analytical", &network));
    for (int npu = 0; npu < NPUS; npu++) {
        ranks[npu] = (rank){network, npu, 0};
        step(&ranks[npu]);
    }
    check(pyxsim_run(network));
    long long simulated = pyxsim_now(network), expected = STEPS * (500LL + SHARE / 100);
    printf("simulated %lld ns, closed form %lld ns\n", simulated, expected);
    pyxsim_destroy(network);
    return simulated != expected;
}
