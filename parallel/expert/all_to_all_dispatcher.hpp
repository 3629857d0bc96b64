#pragma once

#include <memory>
#include <vector>

#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/expert/dispatcher.hpp>

namespace sinew::parallel {

/// DispatchKind::AllToAll.
template <class T>
class AllToAllDispatcher final : public Dispatcher<T> {
 public:
  /// experts: of each rank of the group, ascending and without gaps. group: empty for a group of one rank.
  AllToAllDispatcher(CallGroup group, std::vector<Rows> experts, std::vector<int> hosts, DispatchShape shape);

  std::unique_ptr<Dispatch<T>> plan(const Routing<T>& routing) override;
  Rows experts() const noexcept override;
  std::size_t sent_bytes() const noexcept override { return sent_; }
  std::size_t sent_between_hosts() const noexcept override { return sent_between_hosts_; }
  std::size_t held_bytes() const noexcept override { return (tokens_side_.size() + experts_side_.size()) * sizeof(T); }

 private:
  class Handle;

  /// Returns `others` with this dispatcher's label and source line added.
  CallOptions options(CallOptions others = {}) const noexcept { return group_.options(shape_.name.c_str(), others); }

  CallGroup group_;
  std::vector<Rows> experts_;  // by rank
  std::vector<int> hosts_;     // by rank; none: all on one
  DispatchShape shape_;
  std::size_t chunks_;                         // of the rank with the most
  std::vector<T> tokens_side_, experts_side_;  // rows packed for ranks, and as they come from ranks
  std::size_t sent_ = 0, sent_between_hosts_ = 0;
};

extern template class AllToAllDispatcher<float>;
extern template class AllToAllDispatcher<double>;

}  // namespace sinew::parallel
