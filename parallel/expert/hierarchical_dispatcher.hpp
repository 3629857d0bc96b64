#pragma once

#include <memory>
#include <vector>

#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/expert/all_to_all_dispatcher.hpp>
#include <sinew/parallel/expert/dispatcher.hpp>

namespace sinew::parallel {

/// DispatchKind::Hierarchical. A token goes to one rank of each host that has any of its experts: the rank whose place
/// on its host is the sender's place, modulo the ranks there. From that rank it goes to the ranks of the experts. The
/// sum for a token is made over its experts of a host, ascending, then over hosts in the order of their first ranks.
template <class T>
class HierarchicalDispatcher final : public Dispatcher<T> {
 public:
  HierarchicalDispatcher(CallGroup group, const std::vector<Rows>& experts, std::vector<int> hosts,
                         const DispatchShape& shape);

  std::unique_ptr<Dispatch<T>> plan(const Routing<T>& routing) override;
  Rows experts() const noexcept override { return experts_[me_]; }
  std::size_t sent_bytes() const noexcept override { return sent_ + inner_->sent_bytes(); }
  std::size_t sent_between_hosts() const noexcept override { return sent_between_hosts_; }
  std::size_t held_bytes() const noexcept override {
    return (here_.size() + there_.size() + summed_.size()) * sizeof(T) + inner_->held_bytes();
  }

 private:
  class Handle;
  /// A host with the ranks of the group on it.
  struct Host {
    int number = 0;
    std::vector<std::size_t> ranks;
  };

  /// Numbers the experts of a host from 0, in the order of its ranks. Returns the experts of each rank.
  static std::vector<Rows> experts_on(const Host& host, const std::vector<Rows>& experts);
  const Host& host_of(std::size_t rank) const;

  /// Returns `others` with this dispatcher's label and source line added.
  CallOptions options(CallOptions others = {}) const noexcept { return group_.options(shape_.name.c_str(), others); }

  CallGroup group_;
  std::size_t me_;
  std::vector<Rows> experts_;  // by rank
  std::vector<int> hosts_;     // by rank
  DispatchShape shape_;
  std::vector<Host> all_;                    // in the order of their first ranks
  std::vector<std::size_t> entries_;         // by host: the rank that this one's tokens go to
  std::vector<std::size_t> host_of_expert_;  // by expert: among all_
  std::vector<std::int32_t> number_there_;   // by expert: on its host
  Communicator on_host_;
  std::unique_ptr<AllToAllDispatcher<T>> inner_;
  std::vector<T> here_, there_, summed_;  // rows for other hosts, rows for this one, sums of these
  std::size_t sent_ = 0, sent_between_hosts_ = 0;
};

extern template class HierarchicalDispatcher<float>;
extern template class HierarchicalDispatcher<double>;

}  // namespace sinew::parallel
