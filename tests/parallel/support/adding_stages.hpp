#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sinew/parallel/job/job.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>

namespace sinew::parallel::test {

/// Stages that use their parameters, and add one to each gradient.
class AddingStages final : public StageEngine {
 public:
  AddingStages(Job& job, const EngineFacts& facts) : job_(job), facts_(facts) {}

  std::size_t output_bytes(std::int32_t stage) const override {
    return stage + 1 == stages(job_.config()) ? 0 : sizeof(double);
  }
  std::size_t forward(std::int32_t stage, std::int32_t /*m*/, ConstBuffer /*in*/, Buffer out) override {
    for (const std::int32_t p : parameters(stage)) (void)job_.data().parameter(p);
    return out.bytes;
  }
  std::size_t backward(std::int32_t stage, std::int32_t m, ConstBuffer dout, Buffer din) override {
    input_gradient(stage, m, dout, din);
    weight_gradient(stage, m);
    return din.bytes;
  }
  std::size_t input_gradient(std::int32_t stage, std::int32_t /*m*/, ConstBuffer /*dout*/, Buffer din) override {
    for (const std::int32_t p : parameters(stage)) (void)job_.data().parameter(p);
    return din.bytes;
  }
  void weight_gradient(std::int32_t stage, std::int32_t /*m*/) override {
    for (const std::int32_t p : parameters(stage)) {
      for (float& g : job_.data().gradient<float>(p)) g += 1;
    }
    watch();
  }
  void unshard(std::int32_t stage) override {
    for (const std::int32_t u : units(stage)) job_.data().unshard(u);
    watch();
  }
  void reshard(std::int32_t stage) override {
    for (const std::int32_t u : units(stage)) job_.data().reshard(u);
  }
  void reduce(std::int32_t stage) override {
    std::vector<std::int32_t> all = units(stage);
    std::ranges::reverse(all);
    for (const std::int32_t u : all) job_.data().reduce(u);
    watch();
  }

  std::size_t most_underway = 0;  ///< bytes that exist only during a part of a step

 private:
  void watch() { most_underway = std::max(most_underway, job_.data().held().of(Purpose::Underway)); }
  std::vector<std::int32_t> parameters(std::int32_t stage) const {
    std::vector<std::int32_t> found;
    const std::vector<DataParameter>& all = job_.data().parameters();
    for (std::int32_t p = 0; p < std::ssize(all); ++p) {
      if (facts_.stage_of_unit(job_.config(), all[static_cast<std::size_t>(p)].unit) == stage) found.push_back(p);
    }
    return found;
  }
  std::vector<std::int32_t> units(std::int32_t stage) const {
    std::vector<std::int32_t> found;
    for (const std::int32_t p : parameters(stage)) {
      const std::int32_t unit = job_.data().unit(job_.data().parameters()[static_cast<std::size_t>(p)].unit);
      if (std::ranges::find(found, unit) == found.end()) found.push_back(unit);
    }
    return found;
  }

  Job& job_;
  const EngineFacts& facts_;
};

}  // namespace sinew::parallel::test
