#include <sinew/transports/nccl/launch_order.hpp>

namespace sinew::nccl {

LaunchOrder::LaunchOrder(DeviceRuntime& runtime, int device)
    : runtime_(runtime), stream_(runtime.make_stream(device)), scratch_(runtime, device) {}

LaunchOrder::~LaunchOrder() { runtime_.release(stream_); }

int LaunchOrder::advance() noexcept {
  int steps = 0;
  while (Launch* next = issued_ != nullptr ? issued_ : waiting_.front()) {
    Issuer& issuer = *next->issuer;
    Issuer::Answer answer = issuer.ready(*next);
    if (answer == Issuer::Answer::NotYet) break;
    ++steps;
    if (answer == Issuer::Answer::Failed) continue;
    if (issued_ == nullptr) {
      issued_ = &waiting_.pop();
      answer = issuer.issue(*next);
    }
    if (answer == Issuer::Answer::NotYet) break;
    if (answer == Issuer::Answer::Failed) continue;
    issued_ = nullptr;
    issuer.started(*next);
  }
  return steps;
}

bool LaunchOrder::drop(const Issuer& issuer, LaunchList& to) noexcept {
  const bool with_nccl = issued_ != nullptr && issued_->issuer == &issuer;
  if (with_nccl) to.push(*std::exchange(issued_, nullptr));
  LaunchList others;
  while (waiting_.front() != nullptr) {
    Launch& launch = waiting_.pop();
    (launch.issuer == &issuer ? to : others).push(launch);
  }
  waiting_ = others;
  return with_nccl;
}

}  // namespace sinew::nccl
