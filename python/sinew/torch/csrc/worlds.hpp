#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include <sinew/collectives/communicator.hpp>

namespace sinew::torch_backend {

/// Who this process is in a process group, and how the members meet.
struct Membership {
  c10::intrusive_ptr<c10d::Store> store;   ///< of this group alone
  std::vector<std::int64_t> global_ranks;  ///< of the members, in the order of their ranks in the group; empty: all
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};
  int device = -1;   ///< as WorldOptions::device
  std::string name;  ///< for errors

  /// This process' number among all processes of the job.
  int global_rank() const noexcept {
    return global_ranks.empty() ? rank : static_cast<int>(global_ranks[static_cast<std::size_t>(rank)]);
  }
};

/// The members of one process group, as they communicate.
/// Lifetime: the destructor leaves the group. It waits for calls that are in flight: see Communicator::abort_here.
class Members {
 public:
  virtual ~Members() = default;
  /// Errors: InvalidArgument in a process that was forked off since.
  virtual Communicator& communicator() = 0;
  /// As World::allocate.
  virtual Memory allocate(std::size_t bytes) = 0;
};

namespace worlds {

/// The only place where a World or a communicator for a process group is made.
/// All members call it, and nobody else. Where they are in one World already, the group is a communicator of it. Else a
/// World is made for exactly these members, which serves later groups of some of them.
/// Errors: sinew::Error; Timeout names the ranks that did not come.
std::unique_ptr<Members> join(const Membership& membership);

}  // namespace worlds
}  // namespace sinew::torch_backend
