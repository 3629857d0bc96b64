#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sinew/core/fabric.hpp>
#include <sinew/transports/cuda/runtime.hpp>

namespace sinew::cuda_ipc {

/// The most bytes in a fragment of one rank's contribution, all blocks together.
inline constexpr std::size_t kFragmentBytes = std::size_t{8} << 20;

/// The scratch memory of all ranks of a group, mapped by each of them. Every rank's scratch memory is device memory
/// with two halves of kFragmentBytes each.
class Scratch {
 public:
  /// This rank's own. Errors: Error{System} with the driver's words.
  Scratch(cuda::Runtime& runtime, int device);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// What another rank needs to map it.
  Bytes card() const;
  /// The next rank's; by its address where it is a thread of this process.
  /// Errors: Error{System} where the device cannot reach it.
  void join(const Bytes& card, bool same_process, bool self);

  int device() const noexcept { return own_.place.device; }
  /// How many processes have their ranks' memory on one device, at most. Those take turns on it.
  int processes_on_a_device() const;
  /// Where a rank's contribution to a fragment lies.
  std::byte* of(std::size_t rank, std::uint64_t fragment) const noexcept {
    return ranks_[rank] + fragment % 2 * kFragmentBytes;
  }

 private:
  struct Card {
    std::uint64_t address;
    cuda::IpcMemory handle;
    std::int64_t process;
    char bus_id[32];
  };

  cuda::Runtime& runtime_;
  Buffer own_;
  std::vector<std::byte*> ranks_;
  std::vector<std::byte*> mapped_;
  std::map<std::string, std::set<std::int64_t>> processes_;  // by the device's bus id
};

}  // namespace sinew::cuda_ipc
