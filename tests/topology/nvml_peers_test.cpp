#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/topology/discover.hpp>
#include <sinew/topology/discover/nvml_peers.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/format/text/text.hpp>

namespace sinew {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr PeerStatus kOk = PeerStatus::Ok;

/// The GPUs of the fake libnvidia-ml.so.1, see tests/fakes/fake_nvml.cpp.
Machine machine_with_peers(const char* fake) {
  setenv("FAKE_NVML", fake, 1);
  Machine machine = discover(Config{});
  unsetenv("FAKE_NVML");
  return machine;
}

GpuPeer pair_of(const Machine& machine, int from, int to) {
  for (const GpuPeer& peer : machine.gpu_peers) {
    if (peer.from == from && peer.to == to) return peer;
  }
  ADD_FAILURE() << "no pair " << from << " " << to;
  return {};
}

TEST(NvmlPeers, AreAllPairsOfADgxH100_EachWay) {
  const Machine m = machine_with_peers("dgx-h100");
  ASSERT_EQ(m.gpu_peers.size(), 8u * 7);
  for (int from = 0; from < 8; ++from) {
    for (int to = 0; to < 8; ++to) {
      if (from != to) {
        EXPECT_EQ(pair_of(m, from, to), (GpuPeer{from, to, kOk, kOk, kOk, kOk, ""}));
      }
    }
  }
  EXPECT_EQ(machine_from_json(to_json(m)), m);
}

TEST(NvmlPeers, SayWhatTheDriverRefuses_AndWhyItIsSilent) {
  const Machine m = machine_with_peers("pair");
  ASSERT_EQ(m.gpu_peers.size(), 8u * 7);
  const PeerStatus disabled = PeerStatus::Disabled;
  const PeerStatus unknown = PeerStatus::Unknown;
  EXPECT_EQ(pair_of(m, 2, 5), (GpuPeer{2, 5, disabled, disabled, disabled, disabled, ""}));
  EXPECT_EQ(pair_of(m, 5, 2),
            (GpuPeer{5, 2, unknown, unknown, unknown, unknown, "nvmlDeviceGetP2PStatus: Unknown Error"}));
  EXPECT_EQ(std::ranges::count(m.gpu_peers, kOk, &GpuPeer::read), 54);
  EXPECT_EQ(machine_from_json(to_json(m)), m);
}

TEST(NvmlPeers, AreOneTable_WhenAllIsAlike) {
  const std::string text = to_text(machine_with_peers("pair"));
  EXPECT_THAT(text, HasSubstr("peer access between GPUs: read, write, NVLink, atomics\n"));
  EXPECT_THAT(text, HasSubstr("GPU2    OK    OK     X    OK    OK    DR    OK    OK\n"));
  EXPECT_THAT(text, HasSubstr("GPU5    OK    OK     U    OK    OK     X    OK    OK\n"));
  EXPECT_THAT(text, HasSubstr("U: unknown (nvmlDeviceGetP2PStatus: Unknown Error); DR: disabled by a setting of the "
                              "driver\n"));
}

TEST(NvmlPeers, AreATableEach_WhereCapabilitiesDiffer) {
  const Machine m = machine_with_peers("bridged");
  EXPECT_THAT(m.gpu_peers, testing::SizeIs(2));
  EXPECT_THAT(m.gpu_peers, Each(testing::Field(&GpuPeer::atomics, PeerStatus::NotSupported)));
  const std::string text = to_text(m);
  EXPECT_THAT(text, HasSubstr("peer access between GPUs: read, write, NVLink\n"));
  EXPECT_THAT(text, HasSubstr("peer access between GPUs: atomics\n"));
  EXPECT_THAT(text, HasSubstr("NS: not supported\n"));
}

TEST(NvmlPeers, AreOfTheOthers_WhenAGpuIsLost) {
  const Machine m = machine_with_peers("lost");
  EXPECT_EQ(m.gpus.size(), 7u);
  EXPECT_EQ(m.gpu_peers.size(), 7u * 6);
}

TEST(NvmlPeers, AreNone_WhereThereIsOneGpu) {
  const Machine m = machine_with_peers("half");
  EXPECT_TRUE(m.gpu_peers.empty());
  EXPECT_THAT(m.unseen, testing::Not(testing::Contains(testing::Field(&Unseen::what, "peer access between GPUs"))));
}

/// Functions of a driver, as far as they are asked here; each GPU's handle is its number and one.
nvml::Functions functions(nvml::Result (*peer_status)(nvml::Device, nvml::Device, int, int*)) {
  nvml::Functions f;
  f.shutdown = [] { return nvml::kSuccess; };
  f.error_text = [](nvml::Result) { return "said so"; };
  f.peer_status = peer_status;
  return f;
}

const std::vector<nvml::KnownGpu> kTwo{{reinterpret_cast<nvml::Device>(std::size_t{1}), 0},
                                       {reinterpret_cast<nvml::Device>(std::size_t{2}), 1}};

TEST(NvmlPeers, AreUnseen_WhereTheDriverIsOlderThanTheQuestion) {
  Machine m;
  read_gpu_peers(nvml::Library(functions(nullptr)), kTwo, m);
  EXPECT_TRUE(m.gpu_peers.empty());
  EXPECT_THAT(m.unseen, testing::ElementsAre(Unseen{"peer access between GPUs",
                                                    "the driver is too old: it has no nvmlDeviceGetP2PStatus"}));
}

/// The numbers of nvmlGpuP2PCapsIndex_t and nvmlGpuP2PStatus_t in NVML's API reference: here the answer is the number
/// of what was asked for, and above all that are known to the second GPU.
TEST(NvmlPeers, ReadTheNumbersOfNvmlsReference) {
  Machine m;
  read_gpu_peers(nvml::Library(functions([](nvml::Device, nvml::Device to, int asked, int* status) {
                   *status = reinterpret_cast<std::size_t>(to) == 2 ? asked : 4 + asked;
                   return nvml::kSuccess;
                 })),
                 kTwo, m);
  EXPECT_EQ(pair_of(m, 0, 1), (GpuPeer{0, 1, kOk, PeerStatus::ChipsetNotSupported, PeerStatus::GpuNotSupported,
                                       PeerStatus::TopologyNotSupported, ""}));
  EXPECT_EQ(pair_of(m, 1, 0), (GpuPeer{1, 0, PeerStatus::Disabled, PeerStatus::NotSupported, PeerStatus::Unknown,
                                       PeerStatus::Unknown, "nvmlDeviceGetP2PStatus answers 7"}));
}

}  // namespace
}  // namespace sinew
