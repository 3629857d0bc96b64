#include <sinew/parallel/mesh/group_maker.hpp>

namespace sinew::parallel {

std::shared_ptr<Communicator> GroupMaker::make(std::span<const int> members, int largest) {
  const auto split = [this](int color) { return std::make_shared<Communicator>(all_->split(color, 0, *options_)); };
  if (largest > 1) return split(members.empty() ? -1 : members.front());
  if (!alone_) alone_ = split(all_->rank());
  return members.empty() ? std::make_shared<Communicator>() : alone_;
}

}  // namespace sinew::parallel
