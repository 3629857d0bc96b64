#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/job/job.hpp>

#include "../model/store.hpp"
#include "parameter_homes.hpp"
#include "stages.hpp"

namespace gpt {

/// The store of a pipeline's stages: what data parallelism holds is there for the whole step, its gradients are
/// reported when all micro-batches are through. The head's copy of the token embeddings lies here.
class StageStore final : public Store {
 public:
  /// list: all parameters of the model. Lifetime: ends before the job.
  StageStore(sinew::parallel::Job& job, const RankStages& stages, const std::vector<ParameterInfo>& list);

  void before_forward(int) override {}
  void after_forward(int) override {}
  void before_backward(int) override {}
  void after_backward(int) override {}
  sinew::Buffer parameter(int p) override;
  sinew::Buffer gradient(int p) override;
  void gradient_ready(int) override {}

  /// Makes parameters and gradients be there.
  void begin();
  /// All gradients are complete. overflows: the first of them becomes infinite before it is reported.
  void end(bool overflows);

  bool has_copy() const noexcept { return !copy_.empty(); }
  /// Of the copy and its gradient.
  std::size_t held_bytes() const noexcept { return copy_.size() + gradient_of_copy_.size(); }
  void clear_gradient_of_copy();

 private:
  std::vector<sinew::parallel::DataParallel*> data_;  // that of dense parameters, that of experts where there are any
  ParameterHomes homes_;
  std::int32_t first_;  // number in the model's list of the first parameter here
  std::vector<std::byte> copy_, gradient_of_copy_;
};

}  // namespace gpt
