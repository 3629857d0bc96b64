#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <sinew/collectives/communicator.hpp>

namespace sinew::parallel {

/// Makes this rank's communicators of one arrangement of ranks after another, all ranks in the same order.
/// Groups that are one rank each cost nothing but the first of them: they share a communicator, on which a rank can
/// only agree with itself. Two kinds of groups of more than one rank never share: calls on different communicators
/// may come in any order, and who names two groups relies on that.
class GroupMaker {
 public:
  /// `all` outlives the maker.
  GroupMaker(Communicator& all, const CallOptions& options) : all_(&all), options_(&options) {}

  Communicator& all() const noexcept { return *all_; }
  const CallOptions& options() const noexcept { return *options_; }

  /// `members`: the ranks of this rank's group, ascending, the same on all of them; empty: it is in none, and gets an
  /// empty communicator. `largest`: the most that any group has, equal on all ranks. name: the
  /// communicator's name in errors, such as "tp".
  /// Cost: a split, collective over `all`; none where `largest` is 1 and has been before.
  std::shared_ptr<Communicator> make(std::span<const int> members, int largest, std::string_view name);

 private:
  Communicator* all_;
  const CallOptions* options_;
  std::shared_ptr<Communicator> alone_;
};

}  // namespace sinew::parallel
