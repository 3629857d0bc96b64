#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <support/worlds.hpp>

namespace sinew::parallel::test {

inline constexpr std::int64_t kModulus = 1'000'003;

inline std::int64_t through(std::int64_t x, std::int32_t stage) { return (x * (stage + 2) + 7 * stage + 1) % kModulus; }
inline std::int64_t back(std::int64_t x, std::int32_t stage) { return (x * (stage + 3) + 5 * stage + 2) % kModulus; }

/// What a micro-batch is after all stages, and its gradient before the first one.
inline std::int64_t forward_of(std::int32_t micro_batch, std::int32_t stages) {
  std::int64_t x = 1000 + micro_batch;
  for (std::int32_t s = 0; s < stages; ++s) x = through(x, s);
  return x;
}
inline std::int64_t backward_of(std::int32_t micro_batch, std::int32_t stages) {
  std::int64_t x = forward_of(micro_batch, stages) + 1;
  for (std::int32_t s = stages; s-- > 0;) x = back(x, s);
  return x;
}

/// Stages over whole numbers, each boundary of another length; it looks at all that it is given.
class NumberEngine final : public StageEngine {
 public:
  NumberEngine(std::int32_t stages, std::int32_t micro_batches)
      : stages_(stages), last_(static_cast<std::size_t>(micro_batches)), first_(last_), weights_(last_.size()) {}

  std::size_t output_bytes(std::int32_t stage) const override {
    if (is_silent) throw Error(Code::Unavailable, "not today");
    if (too_long) return *too_long;
    return stage + 1 == stages_ ? 0 : sizeof(std::int64_t) * static_cast<std::size_t>(stage % 3 + 1);
  }
  std::size_t forward(std::int32_t stage, std::int32_t m, ConstBuffer in, Buffer out) override {
    const std::int64_t x = through(stage == 0 ? 1000 + m : read(in), stage);
    if (stage + 1 == stages_) last_[static_cast<std::size_t>(m)] = x;
    write(x, out);
    return written(stage, out);
  }
  std::size_t backward(std::int32_t stage, std::int32_t m, ConstBuffer dout, Buffer din) override {
    ++weights_[static_cast<std::size_t>(m)];
    return input_gradient(stage, m, dout, din);
  }
  std::size_t input_gradient(std::int32_t stage, std::int32_t m, ConstBuffer dout, Buffer din) override {
    const std::int64_t x = back(stage + 1 == stages_ ? last_[static_cast<std::size_t>(m)] + 1 : read(dout), stage);
    if (stage == 0) first_[static_cast<std::size_t>(m)] = x;
    write(x, din);
    return written(stage, din);
  }
  void weight_gradient(std::int32_t /*stage*/, std::int32_t m) override { ++weights_[static_cast<std::size_t>(m)]; }

  void require_right(const PipelineSchedule& schedule, std::int32_t rank, const std::string& which) const {
    std::int32_t own = 0;
    for (const std::int32_t r : schedule.rank_of) own += r == rank ? 1 : 0;
    for (std::int32_t m = 0; m < schedule.micro_batches; ++m) {
      const auto at = static_cast<std::size_t>(m);
      sinew::test::require(weights_[at] == own, which + "gradients of weights");
      if (schedule.rank_of.back() == rank) sinew::test::require(last_[at] == forward_of(m, stages_), which + "forward");
      if (schedule.rank_of.front() == rank)
        sinew::test::require(first_[at] == backward_of(m, stages_), which + "backward");
    }
  }

  std::int32_t short_stage = -1;        // writes too little
  std::optional<std::size_t> too_long;  // what goes between stages
  bool is_silent = false;               // does not say what goes between stages

 private:
  std::size_t written(std::int32_t stage, Buffer to) const {
    return stage == short_stage && to.bytes > 0 ? to.bytes - 1 : to.bytes;
  }
  /// All numbers of a boundary are the same.
  static std::int64_t read(ConstBuffer from) {
    std::int64_t x = -1;
    for (std::size_t at = 0; at < from.bytes; at += sizeof x) {
      std::int64_t one;
      std::memcpy(&one, from.data + at, sizeof one);
      if (at > 0) sinew::test::require(one == x, "a boundary was written over");
      x = one;
    }
    return x;
  }
  static void write(std::int64_t x, Buffer to) {
    for (std::size_t at = 0; at < to.bytes; at += sizeof x) std::memcpy(to.data + at, &x, sizeof x);
  }

  std::int32_t stages_;
  std::vector<std::int64_t> last_, first_;
  std::vector<std::int32_t> weights_;
};

}  // namespace sinew::parallel::test
