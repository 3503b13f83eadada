// ns-3: a point-to-point channel for each pair of neighbours, packets forwarded from device to device by a table, no IP.
//
// In, on stdin: nodes, ports of each; bytes of a packet, bytes per ns of a link, ns of a link; for each node its
// neighbours by port; for each node and destination the port (-1: there already); packets, then the cycle, the source
// and the destination of each. Out: packets that arrived, their mean latency in ns, CPU seconds of the run, events.

#include <cstdint>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace
{

const uint16_t PROTOCOL = 0x0800; // a point-to-point device takes those of IP only
const uint32_t FRAME = 2;         // bytes that it puts in front

// Where a packet goes to, and when it was created; takes no room in it.
class Label : public Tag
{
  public:
    uint32_t dst = 0;
    uint64_t created = 0;

    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("Label").SetParent<Tag>().AddConstructor<Label>();
        return id;
    }

    TypeId GetInstanceTypeId() const override
    {
        return GetTypeId();
    }

    uint32_t GetSerializedSize() const override
    {
        return 12;
    }

    void Serialize(TagBuffer i) const override
    {
        i.WriteU32(dst);
        i.WriteU64(created);
    }

    void Deserialize(TagBuffer i) override
    {
        dst = i.ReadU32();
        created = i.ReadU64();
    }

    void Print(std::ostream& os) const override
    {
        os << dst;
    }
};

struct Torus
{
    uint32_t nodes, ports;
    std::vector<std::vector<Ptr<NetDevice>>> out; // of each node, by port
    std::vector<int> table;                       // port, by node and destination
    uint64_t arrived = 0, latency = 0;

    void Forward(uint32_t node, Ptr<Packet> packet, uint32_t dst)
    {
        Ptr<NetDevice> device = out[node][table[node * nodes + dst]];
        device->Send(packet, device->GetBroadcast(), PROTOCOL);
    }

    bool Receive(uint32_t node, Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
    {
        Label label;
        packet->PeekPacketTag(label);
        if (label.dst == node)
        {
            arrived++;
            latency += Simulator::Now().GetNanoSeconds() - label.created;
        }
        else
        {
            Forward(node, packet->Copy(), label.dst);
        }
        return true;
    }

    void Create(uint32_t src, uint32_t dst, uint32_t bytes)
    {
        Ptr<Packet> packet = ns3::Create<Packet>(bytes);
        Label label;
        label.dst = dst;
        label.created = Simulator::Now().GetNanoSeconds();
        packet->AddPacketTag(label);
        Forward(src, packet, dst);
    }
};

} // namespace

int
main()
{
    std::ios::sync_with_stdio(false);
    Torus torus;
    uint32_t bytes, width, hop;
    std::cin >> torus.nodes >> torus.ports >> bytes >> width >> hop;
    std::vector<std::vector<uint32_t>> neighbour(torus.nodes, std::vector<uint32_t>(torus.ports));
    for (auto& each : neighbour)
    {
        for (auto& other : each)
        {
            std::cin >> other;
        }
    }
    torus.table.resize(torus.nodes * torus.nodes);
    for (auto& port : torus.table)
    {
        std::cin >> port;
    }

    NodeContainer nodes;
    nodes.Create(torus.nodes);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(std::to_string(8 * width) + "Gbps"));
    link.SetChannelAttribute("Delay", StringValue(std::to_string(hop) + "ns"));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000000p"));
    torus.out.assign(torus.nodes, std::vector<Ptr<NetDevice>>(torus.ports));
    // Ports come in pairs, up and down: a channel up is the way down for its other end.
    for (uint32_t node = 0; node < torus.nodes; node++)
    {
        for (uint32_t up = 0; up < torus.ports; up += 2)
        {
            const uint32_t other = neighbour[node][up];
            NetDeviceContainer ends = link.Install(nodes.Get(node), nodes.Get(other));
            torus.out[node][up] = ends.Get(0);
            torus.out[other][up + 1] = ends.Get(1);
            ends.Get(0)->SetReceiveCallback(MakeCallback(&Torus::Receive, &torus).Bind(node));
            ends.Get(1)->SetReceiveCallback(MakeCallback(&Torus::Receive, &torus).Bind(other));
        }
    }
    uint64_t packets;
    std::cin >> packets;
    for (uint64_t i = 0; i < packets; i++)
    {
        uint64_t cycle;
        uint32_t src, dst;
        std::cin >> cycle >> src >> dst;
        Simulator::ScheduleWithContext(src, NanoSeconds(cycle), &Torus::Create, &torus, src, dst, bytes - FRAME);
    }
    const std::clock_t begin = std::clock();
    Simulator::Run();
    const double cpu = double(std::clock() - begin) / CLOCKS_PER_SEC;
    std::cout.precision(17);
    std::cout << torus.arrived << " " << double(torus.latency) / torus.arrived << " " << cpu << " "
              << Simulator::GetEventCount() << std::endl;
    Simulator::Destroy();
}
