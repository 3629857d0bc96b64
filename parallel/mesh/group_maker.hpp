#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <sinew/collectives/communicator.hpp>

namespace sinew::parallel {

/// Makes this rank's communicators for one arrangement of ranks after another, on all ranks in the same order.
/// Groups of one rank each share a communicator, so that only the first of them costs a split. Two kinds of groups with
/// more than one rank never share a communicator: calls on different communicators may come in any order, and users of
/// two groups rely on that.
class GroupMaker {
 public:
  /// `all` outlives the maker.
  GroupMaker(Communicator& all, const CallOptions& options) : all_(&all), options_(&options) {}

  Communicator& all() const noexcept { return *all_; }
  const CallOptions& options() const noexcept { return *options_; }

  /// `members`: the ranks of this rank's group, ascending, the same on all of them. Empty: this rank is in no group,
  /// and gets an empty communicator. `largest`: the most ranks that any group has, equal on all ranks. name: the
  /// communicator's name in errors, such as "tp".
  /// Cost: a split, collective over `all`. None if `largest` is 1 and was 1 in an earlier call.
  std::shared_ptr<Communicator> make(std::span<const int> members, int largest, std::string_view name);

 private:
  Communicator* all_;
  const CallOptions* options_;
  std::shared_ptr<Communicator> alone_;
};

}  // namespace sinew::parallel
