#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/parallel/pipeline/generators/pass_order.hpp>
#include <sinew/parallel/pipeline/schedule/schedule.hpp>

namespace sinew::parallel {

/// The two stages of a rank of a V-shaped pipeline of p ranks. The microbatches pass the first stages of ranks 0 to
/// p-1, then the second stages of ranks p-1 to 0.
enum class Arm : std::uint8_t {
  Down,  ///< stage r of rank r
  Up,    ///< stage 2p-1-r of rank r
};

/// A V-shaped schedule whose ranks have nothing to do yet.
/// Errors: InvalidArgument as generators.hpp says.
PipelineSchedule v_shape_without_actions(std::string_view name, std::int32_t ranks, std::int32_t micro_batches);

/// Collects the actions of one rank of a V-shaped schedule. Each arm takes its microbatches in order, and so does each
/// kind of pass. Passes of microbatches that the schedule does not have are left out. A schedule for few microbatches
/// is therefore one for more microbatches, without the passes of those that it does not have. Passes of different
/// microbatches do not wait for each other's results, so what is left has no new cycles.
class VShapeRank {
 public:
  VShapeRank(std::int32_t ranks, std::int32_t micro_batches, std::int32_t rank)
      : micro_batches_(micro_batches), stages_{rank, 2 * ranks - 1 - rank} {}

  void forward(Arm arm) { add(ActionKind::Forward, next(arm, forward_)); }
  void backward(Arm arm) { add(ActionKind::Backward, next(arm, backward_)); }
  /// The weight gradient of the same microbatch must follow later, by a call of weight_gradient().
  void input_gradient(Arm arm) {
    const StagePass pass = next(arm, backward_);
    waiting_[at(arm)].push_back(pass);
    add(ActionKind::InputGradient, pass);
  }
  /// The weight gradient of the arm whose input gradient was taken first and which is still missing.
  void weight_gradient(Arm arm) {
    add(ActionKind::WeightGradient, waiting_[at(arm)].front());
    waiting_[at(arm)].pop_front();
  }

  /// The number of forward passes of the arm so far, with those that were left out.
  std::int32_t forwards(Arm arm) const noexcept { return forward_[at(arm)]; }
  /// The number of weight gradients of the arm that are still missing.
  std::int32_t missing_weight_gradients(Arm arm) const noexcept {
    return static_cast<std::int32_t>(waiting_[at(arm)].size());
  }
  std::vector<Action> take() && { return std::move(actions_); }

 private:
  static std::size_t at(Arm arm) noexcept { return static_cast<std::size_t>(arm); }
  StagePass next(Arm arm, std::array<std::int32_t, 2>& counter) { return {stages_[at(arm)], counter[at(arm)]++}; }
  void add(ActionKind kind, const StagePass& pass) {
    if (pass.micro_batch < micro_batches_) actions_.push_back({kind, pass.stage, pass.micro_batch});
  }

  std::int32_t micro_batches_;
  std::array<std::int32_t, 2> stages_, forward_{}, backward_{};  // by arm
  std::array<std::deque<StagePass>, 2> waiting_;                 // by arm: for their weight gradients
  std::vector<Action> actions_;
};

/// Calls action() `times` times. A number below 1 makes no call.
template <class Take>
void repeat(std::int32_t times, const Take& action) {
  for (std::int32_t i = 0; i < times; ++i) action();
}

}  // namespace sinew::parallel
