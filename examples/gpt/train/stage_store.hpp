#pragma once

#include <cstdint>
#include <vector>

#include <sinew/parallel/data/data_parallel.hpp>

#include "../model/store.hpp"
#include "stages.hpp"

namespace gpt {

/// The store of a pipeline's stages: what data parallelism holds is there for the whole step, its gradients are
/// reported when all micro-batches are through. The head's copy of the token embeddings lies here.
class StageStore final : public Store {
 public:
  StageStore(sinew::parallel::DataParallel& data, const RankStages& stages, const ParameterInfo& tokens,
             const sinew::parallel::Precision& precision);

  void before_forward(int) override {}
  void after_forward(int) override {}
  void before_backward(int) override {}
  void after_backward(int) override {}
  sinew::Buffer parameter(int p) override;
  sinew::Buffer gradient(int p) override;
  void gradient_ready(int) override {}

  /// Makes parameters and gradients be there.
  void begin();
  /// All gradients are complete.
  void end();

  bool has_copy() const noexcept { return !copy_.empty(); }
  /// Of the copy and its gradient.
  std::size_t held_bytes() const noexcept { return copy_.size() + gradient_of_copy_.size(); }
  void clear_gradient_of_copy();

 private:
  std::int32_t number(int p) const { return numbers_[static_cast<std::size_t>(p)]; }

  sinew::parallel::DataParallel* data_;
  std::vector<std::int32_t> numbers_;  // by the model's, what data parallelism calls it; -1: not here
  std::vector<std::byte> copy_, gradient_of_copy_;
};

}  // namespace gpt
