#include <algorithm>
#include <cstddef>
#include <deque>

#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/generators/v_shape.hpp>

namespace sinew::parallel {
namespace {

class DualPipeVRank {
 public:
  DualPipeVRank(std::int32_t ranks, std::int32_t micro_batches, std::int32_t rank)
      : row_(ranks, micro_batches, rank), ranks_(ranks), all_(std::max(micro_batches, 2 * ranks)), rank_(rank) {}

  std::vector<Action> run() && {
    const std::int32_t later = ranks_ - rank_ - 1;  // ranks after this one
    repeat(2 * later, [&] { row_.forward(Arm::Down); });
    repeat(rank_ + 1, [&] { row_.forward(Arm::Down), row_.forward(Arm::Up); });
    repeat(later, [&] { input_gradient(Arm::Up), weight_gradient(), row_.forward(Arm::Up); });
    repeat(all_ - 2 * ranks_ + rank_ + 1, [&] { pair(Arm::Down, Arm::Up), pair(Arm::Up, Arm::Down); });
    repeat(later, [&] { row_.backward(Arm::Up), pair(Arm::Up, Arm::Down); });
    // The second half delays its weight gradients, so that earlier ranks get their gradients sooner.
    for (std::int32_t i = 0; i < 2 * (rank_ + 1); ++i) {
      const Arm arm = i % 2 == 0 ? Arm::Up : Arm::Down;
      if (i <= rank_) {
        row_.backward(arm);
      } else {
        input_gradient(arm);
      }
    }
    repeat(later, [&] { weight_gradient(), input_gradient(Arm::Down); });
    repeat(rank_ + 1, [&] { weight_gradient(); });
    return std::move(row_).take();
  }

 private:
  /// A forward pass and a backward pass that may overlap.
  void pair(Arm forward, Arm backward) { row_.forward(forward), row_.backward(backward); }
  void input_gradient(Arm arm) {
    row_.input_gradient(arm);
    delayed_.push_back(arm);
  }
  /// The oldest that is missing, of either arm.
  void weight_gradient() {
    row_.weight_gradient(delayed_.front());
    delayed_.pop_front();
  }

  VShapeRank row_;
  std::int32_t ranks_, all_, rank_;
  std::deque<Arm> delayed_;  // input gradients without their weight gradients, in order
};

}  // namespace

PipelineSchedule dual_pipe_v(std::int32_t ranks, std::int32_t micro_batches) {
  PipelineSchedule schedule = v_shape_without_actions("dualpipev", ranks, micro_batches);
  for (std::int32_t r = 0; r < ranks; ++r)
    schedule.actions[static_cast<std::size_t>(r)] = DualPipeVRank(ranks, micro_batches, r).run();
  return schedule;
}

}  // namespace sinew::parallel
