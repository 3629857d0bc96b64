#include "peer_contestant.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/tools/common/command_line.hpp>

#include "peer_module.hpp"

namespace sinew::tools {
namespace {

bench::PeerCall call_of(Exercise exercise) {
  switch (exercise) {
    case Exercise::AllReduce: return bench::PeerCall::AllReduce;
    case Exercise::AllGather: return bench::PeerCall::AllGather;
    case Exercise::ReduceScatter: return bench::PeerCall::ReduceScatter;
    case Exercise::AllToAll: return bench::PeerCall::AllToAll;
    case Exercise::Broadcast: return bench::PeerCall::Broadcast;
    case Exercise::Barrier: return bench::PeerCall::Barrier;
    case Exercise::Reduce: return bench::PeerCall::Reduce;
    case Exercise::Gather: return bench::PeerCall::Gather;
    case Exercise::Scatter: return bench::PeerCall::Scatter;
    case Exercise::AllGatherV: return bench::PeerCall::AllGatherV;
    case Exercise::ReduceScatterV: return bench::PeerCall::ReduceScatterV;
    case Exercise::AllToAllV: return bench::PeerCall::AllToAllV;
    case Exercise::SendRecv: return bench::PeerCall::SendRecv;
    case Exercise::Latency: return bench::PeerCall::Latency;
    case Exercise::Bandwidth: return bench::PeerCall::Bandwidth;
  }
  return bench::PeerCall::Barrier;
}

/// 0: no launcher of an MPI started this process.
int ranks_by_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* const size = std::getenv(name)) return std::atoi(size);
  }
  return 0;
}

}  // namespace

LoadedPeer::LoadedPeer(const std::string& which) {
  const std::filesystem::path path = peer_module(which);
  // The library's own plugins look its symbols up globally; it is never unloaded, for it leaves handlers behind.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (module == nullptr) throw Error(Code::Unavailable, fmt::format("--peer {}: {}", which, dlerror()));
  const auto entry = reinterpret_cast<bench::PeerEntry>(dlsym(module, bench::kPeerEntryName));
  if (entry == nullptr) throw Error(Code::Unavailable, fmt::format("--peer {}: {}", which, dlerror()));
  if (entry()->abi != bench::kPeerAbi) {
    throw Error(Code::Unavailable, fmt::format("--peer {}: {} has interface {}, expected {}", which, path.string(),
                                               entry()->abi, bench::kPeerAbi));
  }
  peer_ = entry();
  peer_->start();
  const int ranks = ranks_by_launcher();
  if (ranks > 0 && ranks != peer_->size())
    throw Error(Code::InvalidArgument,
                fmt::format("--peer {}: {} has {} rank{}, but this job has {}; expected the mpiexec of that MPI as its "
                            "launcher",
                            which, peer_->name(), peer_->size(), peer_->size() == 1 ? "" : "s", ranks));
}

LoadedPeer::~LoadedPeer() { peer_->stop(); }

Exchange LoadedPeer::exchange() const {
  const auto gather = [peer = peer_](const Bytes& mine) {
    std::vector<Bytes> all;
    peer->all_gather(mine.data(), mine.size(), &all, [](void* context, const void* data, std::size_t bytes) {
      const auto* first = static_cast<const std::byte*>(data);
      static_cast<std::vector<Bytes>*>(context)->emplace_back(first, first + bytes);
    });
    return all;
  };
  return {peer_->rank(), peer_->size(), gather};
}

void PeerContestant::require(const LoadedPeer& peer, const BenchOptions& options, std::uint64_t count) {
  const bench::Peer& f = peer.functions();
  const std::vector<std::uint64_t> counts = skewed_counts(*options.what, f.rank(), f.size(), count);
  const char* lacking =
      f.prepare(call_of(options.what->exercise), std::string(name_of(options.dtype)).c_str(),
                std::string(name_of(options.op)).c_str(), count, counts.data(), options.root, options.in_place);
  if (lacking == nullptr) return;
  throw UsageError(fmt::format("--peer {}: {} does not offer {} ({}, {}{})", options.peer, peer.functions().name(),
                               lacking, name_of(options.dtype), name_of(options.op),
                               options.in_place ? ", in place" : ""));
}

PeerContestant::PeerContestant(const LoadedPeer& peer, const BenchOptions& options, std::uint64_t count,
                               const BufferRing& ring)
    : peer_(peer.functions()), ring_(ring) {
  require(peer, options, count);
}

void PeerContestant::run(std::size_t first_slot, std::size_t calls) {
  for (std::size_t c = 0; c < calls; ++c) peer_.run(ring_.in(first_slot + c).data, ring_.out(first_slot + c).data);
  peer_.finish();
}

}  // namespace sinew::tools
