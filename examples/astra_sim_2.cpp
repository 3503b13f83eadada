// ASTRA-sim 2 with pyxsim as its network: a front end beside those in astra-sim/network_frontend.
//
//     astra_sim_2 NETWORK.toml BACKEND WORKLOAD SYSTEM.json MEMORY.json COMM_GROUP|empty QUEUES NPUS...
//
// NPUS: per dimension; their product is that of the network. WORKLOAD: PREFIX of the traces PREFIX.0.et, PREFIX.1.et, ...
// docs/library.md says how to compile it, and what the files must not contain.

#include <pyxsim_astra_network.hh>

#include <cstdio>
#include <memory>
#include <remote_memory_backend/analytical/AnalyticalRemoteMemory.hh>
#include <string>
#include <vector>

#include "astra-sim/common/Logging.hh"
#include "astra-sim/system/Sys.hh"

int main(int count, char **words) {
    pyxsim_simulator *simulator = nullptr;
    if (count < 9 || pyxsim_create_from_file(words[1], words[2], &simulator) != PYXSIM_OK) {
        std::fprintf(stderr, "%s\n", count < 9 ? "arguments are missing" : pyxsim_error());
        return 2;
    }
    std::vector<int> dims, queues;
    int npus = 1;
    for (int i = 8; i < count; i++) {
        dims.push_back(std::stoi(words[i]));
        queues.push_back(std::stoi(words[7]));
        npus *= dims.back();
    }
    if (npus != pyxsim_npus(simulator)) {
        std::fprintf(stderr, "NPUS has %d NPUs, and the network %d\n", npus, (int)pyxsim_npus(simulator));
        pyxsim_destroy(simulator);
        return 2;
    }
    AstraSim::LoggerFactory::init("empty", "log");
    Analytical::AnalyticalRemoteMemory memory(words[5]);
    std::vector<std::unique_ptr<PyxsimAstraNetwork>> networks;
    std::vector<AstraSim::Sys *> systems;
    for (int rank = 0; rank < pyxsim_npus(simulator); rank++) {
        networks.push_back(std::make_unique<PyxsimAstraNetwork>(simulator, rank, std::vector<double>(dims.size(), 1)));
        systems.push_back(new AstraSim::Sys(
            rank, words[3], words[6], words[4], &memory, networks.back().get(), dims, queues, 1, 1, false));
    }
    for (auto *system : systems)
        system->workload->fire();
    int code = pyxsim_run(simulator);
    if (code != PYXSIM_OK)
        std::fprintf(stderr, "%s\n", pyxsim_error());
    int unfinished = 0;
    for (auto *system : systems)
        unfinished += !system->workload->is_finished;
    if (code == PYXSIM_OK && unfinished) {
        std::fprintf(stderr, "%d of %d ranks did not finish\n", unfinished, npus);
        code = 3;
    }
    for (auto *system : systems)
        delete system;
    networks.clear();
    pyxsim_destroy(simulator);
    AstraSim::LoggerFactory::shutdown();
    return code;
}
