#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sinew/core/deadline.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// What every rank of a host gives to the others.
inline constexpr std::size_t kDescriptorsPerRank = 3;
using DescriptorSet = std::array<FileDescriptor, kDescriptorsPerRank>;

/// All-gather of descriptors among the processes of one host: the leader's abstract UNIX socket, SCM_RIGHTS.
/// Every rank makes one and publishes its name before anybody knows who leads; only the leader's is used.
/// Abstract names vanish with their socket, so nothing is left behind. Other users are refused (SO_PEERCRED).
class DescriptorExchange {
 public:
  /// Listens at once on a random name. Errors: Error{System}.
  DescriptorExchange();

  const std::string& name() const noexcept { return name_; }

  /// The sets of all `ranks` (world ranks of this host, for messages), in that order; this rank leads and is the first.
  /// Once: it listens no more then. Errors: Timeout naming the ranks that did not come; System, also where this process
  /// may open too few descriptors; what `check` throws while it waits for them.
  std::vector<DescriptorSet> lead(std::span<const int> ranks, const DescriptorSet& mine, Deadline deadline,
                                  const std::function<void()>& check);
  /// The same on the others. Errors: Timeout or System naming the leader.
  std::vector<DescriptorSet> follow(const std::string& leader_name, std::span<const int> ranks, std::size_t index,
                                    const DescriptorSet& mine, Deadline deadline);

 private:
  std::string name_;
  FileDescriptor listener_;
};

}  // namespace sinew
