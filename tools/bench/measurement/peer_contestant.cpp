#include "peer_contestant.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/tools/common/command_line.hpp>

namespace sinew::tools {
namespace {

/// The module's name by what the launcher left in the environment.
std::string module_name() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return "libsinew_peer_openmpi.so";
  if (std::getenv("PMI_RANK") != nullptr) return "libsinew_peer_mpich.so";
  throw Error(Code::InvalidArgument,
              "--peer mpi: start the ranks with mpirun of Open MPI or MPICH (neither OMPI_COMM_WORLD_SIZE nor PMI_RANK "
              "is set)");
}

/// Beside the program: PREFIX/lib of the build tree, or the folder of modules of an installation.
std::filesystem::path module_path(const std::string& name) {
  const std::filesystem::path prefix = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  const std::filesystem::path built = prefix / "lib" / name;
  std::error_code error;
  return std::filesystem::exists(built, error) ? built : prefix / SINEW_LIBRARY_FOLDER / name;
}

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

}  // namespace

LoadedPeer::LoadedPeer() {
  const std::filesystem::path path = module_path(module_name());
  // The library's own plugins look its symbols up globally; it is never unloaded, for it leaves handlers behind.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (module == nullptr) throw Error(Code::Unavailable, fmt::format("--peer mpi: {}", dlerror()));
  const auto entry = reinterpret_cast<bench::PeerEntry>(dlsym(module, bench::kPeerEntryName));
  if (entry == nullptr) throw Error(Code::Unavailable, fmt::format("--peer mpi: {}", dlerror()));
  if (entry()->abi != bench::kPeerAbi) {
    throw Error(Code::Unavailable, fmt::format("--peer mpi: {} has interface {}, expected {}", path.string(),
                                               entry()->abi, bench::kPeerAbi));
  }
  peer_ = entry();
  peer_->start();
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
