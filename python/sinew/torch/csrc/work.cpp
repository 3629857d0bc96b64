#include "work.hpp"

#include <c10/util/Exception.h>

#include "device.hpp"
#include "errors.hpp"

namespace sinew::torch_backend {

SinewWork::SinewWork(c10::intrusive_ptr<Call> call)
    : Work(-1, call->submission().operation.type),
      call_(std::move(call)),
      sequence_(call_->submission().sequence),
      key_(call_->submission().key),
      timeout_(call_->submission().timeout) {}

SinewWork::~SinewWork() {
  if (call_) call_->let_go();
}

bool SinewWork::isCompleted() { return !call_ || call_->poll(); }

bool SinewWork::isSuccess() const { return !call_ || !call_->failure(); }

std::exception_ptr SinewWork::exception() const { return call_ ? call_->failure() : nullptr; }

int SinewWork::sourceRank() const {
  if (opType_ != c10d::OpType::RECV && opType_ != c10d::OpType::RECVANYSOURCE) return Work::sourceRank();
  return call_ ? call_->source() : source_;
}

std::vector<at::Tensor> SinewWork::result() {
  TORCH_CHECK(isCompleted(), "result() of a call that has not ended: call wait() first");
  TORCH_CHECK(outputs().lists.empty(), "result() of a call that results in a list of lists: use get_future().value()");
  return outputs().list;
}

bool SinewWork::wait(std::chrono::milliseconds timeout) {
  if (!call_) return true;
  const bool limited = timeout > kNoTimeout;
  if (call_->device()) call_->order(device::current_stream(*call_->device()));
  // Work on a device is not waited for by the host, unless the host says how long.
  const bool on_host = limited || !call_->device();
  if (on_host && !call_->wait(limited ? Deadline::after(bounded(timeout)) : Deadline::never())) {
    const std::string why = c10::str("this wait was to last ", timeout.count(), " ms; the call itself goes on");
    throw error_of(Status(Code::Timeout, why), call_->submission().operation.name());
  }
  if (const std::exception_ptr failure = call_->failure()) std::rethrow_exception(failure);
  return true;
}

void SinewWork::abort() {
  if (call_) call_->abort();
}

c10::intrusive_ptr<c10::ivalue::Future> SinewWork::getFuture() {
  if (call_) return call_->future();
  auto future = outputs_.future();
  future->markCompleted(outputs_.value());
  return future;
}

}  // namespace sinew::torch_backend
