#pragma once

#include <memory>
#include <vector>

#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/expert/dispatcher.hpp>

namespace sinew::parallel {

/// Gives each rank that shares an expert (etp) the rows of all these ranks. It gathers the rows of an inner dispatcher,
/// and reduce-scatters the ranks' results for these rows.
template <class T>
class TensorDispatcher final : public Dispatcher<T> {
 public:
  TensorDispatcher(CallGroup group, std::unique_ptr<Dispatcher<T>> inner, DispatchShape shape);

  std::unique_ptr<Dispatch<T>> plan(const Routing<T>& routing) override;
  Rows experts() const noexcept override { return inner_->experts(); }
  std::size_t sent_bytes() const noexcept override { return sent_ + inner_->sent_bytes(); }
  std::size_t sent_between_hosts() const noexcept override { return inner_->sent_between_hosts(); }
  std::size_t held_bytes() const noexcept override {
    return (own_.size() + all_.size()) * sizeof(T) + inner_->held_bytes();
  }

 private:
  class Handle;

  /// Returns `others` with this dispatcher's label and source line added.
  CallOptions options(CallOptions others = {}) const noexcept { return group_.options(shape_.name.c_str(), others); }

  CallGroup group_;
  std::unique_ptr<Dispatcher<T>> inner_;
  DispatchShape shape_;
  std::vector<T> own_, all_;  // rows of this rank's inner dispatcher; of all ranks, by rank
  std::size_t sent_ = 0;
};

extern template class TensorDispatcher<float>;
extern template class TensorDispatcher<double>;

}  // namespace sinew::parallel
