// A client of PyxsimAstraNetwork as ASTRA-sim is one: tests/compat/astra/test_adapter.py compiles it with an interface of
// the same shape. Ranks send around a ring and stop after some rounds, with a delay before each answer.

#include <pyxsim_astra_network.hh>

#include <cstdio>
#include <memory>

struct Rank {
    PyxsimAstraNetwork *network;
    int number, ranks, left;
};

static void received(void *argument);

static void begin(void *argument) {
    auto *self = static_cast<Rank *>(argument);
    if (self->left-- == 0)
        return;
    AstraSim::sim_request request{};
    auto next = (self->number + 1) % self->ranks, before = (self->number + self->ranks - 1) % self->ranks;
    self->network->sim_send(nullptr, 10000, 0, next, self->left, &request, [](void *) {}, nullptr);
    self->network->sim_recv(nullptr, 10000, 0, before, self->left, &request, received, self);
}

static void received(void *argument) {
    auto *self = static_cast<Rank *>(argument);
    self->network->sim_schedule({AstraSim::NS, 10.75L}, begin, self);
}

int main() {
    pyxsim_simulator *simulator = nullptr;
    const char *settings = "network = { topology = 'ring', shape = [4], bandwidth = '100 GB/s', latency = '50 ns' }";
    if (pyxsim_create(settings, "analytical", &simulator) != PYXSIM_OK)
        return 2;
    std::vector<std::unique_ptr<PyxsimAstraNetwork>> networks;
    std::vector<Rank> ranks;
    for (int rank = 0; rank < 4; rank++) {
        networks.push_back(std::make_unique<PyxsimAstraNetwork>(simulator, rank, std::vector<double>{100}));
        ranks.push_back({networks.back().get(), rank, 4, 5});
    }
    for (auto &rank : ranks)
        begin(&rank);
    if (pyxsim_run(simulator) != PYXSIM_OK)
        return 3;
    AstraSim::AstraNetworkAPI &one = *networks[0];
    std::printf("%.0Lf %g %g\n", one.sim_get_time().time_val, one.get_BW_at_dimension(0), one.get_BW_at_dimension(1));
    networks.clear();
    pyxsim_destroy(simulator);
}
