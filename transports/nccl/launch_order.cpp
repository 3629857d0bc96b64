#include <sinew/transports/nccl/launch_order.hpp>

namespace sinew::nccl {

LaunchOrder::LaunchOrder(DeviceRuntime& runtime, int device, bool orders_itself)
    : runtime_(runtime), device_(device), orders_itself_(orders_itself) {}

LaunchOrder::~LaunchOrder() {
  if (start_) runtime_.release(*start_);
  if (captured_) runtime_.release(*captured_);
}

void LaunchOrder::start_on(StreamRef stream) {
  if (issuers_ < 2 || orders_itself_) return;
  if (start_ && last_.stream != stream.stream) runtime_.wait(stream, *start_);
  const DeviceRuntime::Event start = runtime_.record(stream);
  if (start_) runtime_.release(*start_);
  start_ = start;
  last_ = stream;
}

void LaunchOrder::capture_on(StreamRef stream, std::uint64_t capture) {
  if (captured_ && capture_ == capture) runtime_.wait(stream, *captured_);
}

void LaunchOrder::captured_on(StreamRef stream, std::uint64_t capture) {
  const DeviceRuntime::Event event = runtime_.record(stream);
  if (captured_) runtime_.release(*captured_);
  captured_ = event;
  capture_ = capture;
}

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
