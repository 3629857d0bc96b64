#pragma once

#include <memory>
#include <vector>

#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/expert/dispatcher.hpp>

namespace sinew::parallel {

/// DispatchKind::AllGather. The sum for a token is made over its experts of one rank, ascending, then over ranks.
template <class T>
class AllGatherDispatcher final : public Dispatcher<T> {
 public:
  AllGatherDispatcher(CallGroup group, Rows experts, std::vector<int> hosts, DispatchShape shape);

  std::unique_ptr<Dispatch<T>> plan(const Routing<T>& routing) override;
  Rows experts() const noexcept override { return experts_; }
  std::size_t sent_bytes() const noexcept override { return sent_; }
  std::size_t sent_between_hosts() const noexcept override { return sent_between_hosts_; }
  std::size_t held_bytes() const noexcept override { return tokens_.size() * sizeof(T); }

 private:
  class Handle;

  /// Returns `others` with this dispatcher's label and source line added.
  CallOptions options(CallOptions others = {}) const noexcept { return group_.options(shape_.name.c_str(), others); }

  CallGroup group_;
  Rows experts_;
  std::vector<int> hosts_;
  DispatchShape shape_;
  std::vector<T> tokens_;  // of all ranks
  std::size_t sent_ = 0, sent_between_hosts_ = 0;
};

extern template class AllGatherDispatcher<float>;
extern template class AllGatherDispatcher<double>;

}  // namespace sinew::parallel
