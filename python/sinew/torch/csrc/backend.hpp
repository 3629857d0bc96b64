#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "group.hpp"
#include "worlds.hpp"

namespace sinew::torch_backend {

inline constexpr const char* kBackendName = "sinew";

/// What a user may say about a process group.
struct SinewOptions final : c10d::Backend::Options {
  explicit SinewOptions(std::chrono::milliseconds timeout = kBackendDefaultTimeout)
      : c10d::Backend::Options(kBackendName, timeout) {}
  // Overrides a function of torch 2.15 that 2.11 does not have.
  c10::intrusive_ptr<c10d::Backend::Options> clone() const { return c10::make_intrusive<SinewOptions>(*this); }
};

/// A process group of torch.distributed over sinew, for tensors in CPU memory and on the CUDA device of this rank.
/// The functions check their arguments, say which memory sinew is to use, and leave the rest to Group.
/// Some virtual functions have other names in other versions of torch: both are declared, and `override` is left out.
class SinewBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  /// Joins the group; all members must do so.
  SinewBackend(const Membership& membership, c10::intrusive_ptr<SinewOptions> options);
  ~SinewBackend() override;

  Group& group() noexcept { return *group_; }

  const std::string getBackendName() const override { return kBackendName; }
  c10::intrusive_ptr<Options> getBackendOptions() { return options_; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;

  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr all_gather_single(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts);
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override {
    return all_gather_single(output, input, opts);
  }
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr all_gather_single_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts);
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override {
    return all_gather_single_coalesced(outputs, inputs, opts);
  }
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& opts);
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;

  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_single(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts);
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override {
    return reduce_scatter_single(output, input, opts);
  }
  WorkPtr reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts);
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override {
    return reduce_scatter_single_coalesced(outputs, inputs, opts);
  }

  using Splits = std::vector<std::int64_t>;
  WorkPtr all_to_all_single(at::Tensor& output, at::Tensor& input, Splits& output_splits, Splits& input_splits,
                            const c10d::AllToAllOptions& opts);
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_splits, Splits& input_splits,
                        const c10d::AllToAllOptions& opts) override {
    return all_to_all_single(output, input, output_splits, input_splits, opts);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;

  WorkPtr send(Tensors& tensors, int to_rank, int tag) override;
  WorkPtr recv(Tensors& tensors, int from_rank, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  /// Also waits until the collectives that this rank has in flight have ended, as Gloo does.
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool all_missing) override;

  std::uint64_t getSequenceNumberForGroup() override { return group_->sequence(); }
  void setSequenceNumberForGroup() override {}  // numbers begin at 0 on every rank
  void enableCollectivesTiming() override {}    // sinew times its calls itself if SINEW_STATS asks for it

  void setTimeout(std::chrono::milliseconds timeout);
  void addEphemeralTimeout(const std::chrono::milliseconds& timeout) { group_->timeouts().extend(timeout); }
  c10d::ErrorType getError() override { return group_->completion().error(); }

  /// A tensor of `size` elements, not initialized, in memory that the ranks of this host read without copies. In
  /// ordinary memory where there is none left, and on a device. It may outlive the group. DistributedDataParallel takes
  /// its buckets from here, and FSDP2 its buffers if it is told to.
  at::Tensor allocateTensor(long size, at::TensorOptions options);
  bool supportsTensorAlloc(c10::DeviceIndex /*device*/) { return true; }

  /// Ends all pending and later calls of the group on this rank. Those of other ranks that need this rank fail.
  void abort() override;
  void shutdown() override { group_->shut_down(kPatience); }

#ifdef C10D_BACKEND_HAS_HOOKS
  bool supportsAbortHooks() const override { return true; }
  void registerAbortHook(std::int64_t id, c10d::AbortHook hook) override;
  void unregisterAbortHook(std::int64_t id) override { group_->completion().on_abort().remove(id); }
  bool supportsCompletionHooks() const override { return true; }
  void registerCompletionHook(std::int64_t id, c10d::CompletionHook hook) override;
  void unregisterCompletionHook(std::int64_t id) override { group_->completion().on_success().remove(id); }
#endif

 private:
  /// How long calls that are in flight have to end when their group is destroyed.
  static constexpr std::chrono::seconds kPatience{5};

  /// One all_gather, or reduce_scatter, for each input, which count as one call.
  WorkPtr all_gather_each(Submission&& s, at::TensorList outputs, at::TensorList inputs);
  WorkPtr reduce_scatter_each(Submission&& s, at::TensorList outputs, at::TensorList inputs,
                              const c10d::ReduceOp& reduce_op);

  const c10::intrusive_ptr<SinewOptions> options_;
  const std::shared_ptr<Group> group_;
};

}  // namespace sinew::torch_backend
