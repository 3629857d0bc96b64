#pragma once

#include <ATen/core/ivalue.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "call.hpp"
#include "operation.hpp"
#include "outputs.hpp"

namespace sinew::torch_backend {

/// The handle of a call that c10d gives to its user. The call ends, and keeps its tensors until then, also if the
/// handle is dropped before.
class SinewWork final : public c10d::Work {
 public:
  /// Of a call that has succeeded already.
  explicit SinewWork(Submission&& s, int source = -1)
      : Work(-1, s.operation.type),
        outputs_(std::move(s.outputs)),
        sequence_(s.sequence),
        key_(s.key),
        timeout_(s.timeout),
        source_(source) {}
  /// Of a call in flight.
  SinewWork(c10::intrusive_ptr<Call> call);
  ~SinewWork() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  /// Ends the whole process group, as a call cannot end alone.
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }
  // These two override functions of torch 2.15 that 2.11 does not have.
  std::chrono::milliseconds getTimeout() const { return timeout_; }
  std::uint64_t getCompletionKey() const { return key_; }

 private:
  const Outputs& outputs() const noexcept { return call_ ? call_->submission().outputs : outputs_; }

  const c10::intrusive_ptr<Call> call_;  ///< null: the call has succeeded
  const Outputs outputs_;
  const std::uint64_t sequence_;
  const std::uint64_t key_;
  const std::chrono::milliseconds timeout_;
  const int source_ = -1;
};

}  // namespace sinew::torch_backend
