#include <fmt/format.h>

#include <sinew/topology/discover/nvml_peers.hpp>

namespace sinew {
namespace {

PeerStatus status_of(int answer) {
  switch (answer) {
    case nvml::kPeerOk: return PeerStatus::Ok;
    case nvml::kPeerChipsetNotSupported: return PeerStatus::ChipsetNotSupported;
    case nvml::kPeerGpuNotSupported: return PeerStatus::GpuNotSupported;
    case nvml::kPeerTopologyNotSupported: return PeerStatus::TopologyNotSupported;
    case nvml::kPeerDisabledByRegistry: return PeerStatus::Disabled;
    case nvml::kPeerNotSupported: return PeerStatus::NotSupported;
    default: return PeerStatus::Unknown;
  }
}

/// `why` gets the reason if the answer is Unknown.
PeerStatus ask(const nvml::Library& nvml, nvml::Device from, nvml::Device to, int asked, std::string& why) {
  int answer = nvml::kPeerUnknown;
  const nvml::Result result = nvml.peer_status(from, to, asked, &answer);
  if (result != nvml::kSuccess) {
    why = fmt::format("nvmlDeviceGetP2PStatus: {}", nvml.text_of(result));
    return PeerStatus::Unknown;
  }
  const PeerStatus status = status_of(answer);
  if (status == PeerStatus::Unknown) why = fmt::format("nvmlDeviceGetP2PStatus answers {}", answer);
  return status;
}

}  // namespace

void read_gpu_peers(const nvml::Library& nvml, std::span<const nvml::KnownGpu> gpus, Machine& machine) {
  if (gpus.size() < 2) return;
  if (nvml.peer_status == nullptr) {
    machine.unseen.push_back({"peer access between GPUs", "the driver is too old: it has no nvmlDeviceGetP2PStatus"});
    return;
  }
  for (const nvml::KnownGpu& from : gpus) {
    for (const nvml::KnownGpu& to : gpus) {
      if (from.index == to.index) continue;
      GpuPeer peer{.from = from.index, .to = to.index};
      peer.read = ask(nvml, from.device, to.device, nvml::kPeerRead, peer.why);
      peer.write = ask(nvml, from.device, to.device, nvml::kPeerWrite, peer.why);
      peer.nvlink = ask(nvml, from.device, to.device, nvml::kPeerNvLink, peer.why);
      peer.atomics = ask(nvml, from.device, to.device, nvml::kPeerAtomics, peer.why);
      machine.gpu_peers.push_back(std::move(peer));
    }
  }
}

}  // namespace sinew
