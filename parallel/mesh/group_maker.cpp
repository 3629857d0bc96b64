#include <sinew/core/call/group.hpp>
#include <sinew/parallel/mesh/group_maker.hpp>

namespace sinew::parallel {

std::shared_ptr<Communicator> GroupMaker::make(std::span<const int> members, int largest, std::string_view name) {
  const auto split = [this](int color, std::string_view called) {
    return std::make_shared<Communicator>(all_->split(color, 0, *options_, called.substr(0, kLongestGroupName)));
  };
  if (largest > 1) return split(members.empty() ? -1 : members.front(), name);
  if (!alone_) alone_ = split(all_->rank(), "axes of one rank");
  return members.empty() ? std::make_shared<Communicator>() : alone_;
}

}  // namespace sinew::parallel
