#pragma once

#include <string>

#include <sinew/core/offload.hpp>

namespace sinew::test {

/// An offload that can be asked and never runs: it predicts what it is told, or refuses with a reason.
class FixedOffload : public CollectiveOffload {
 public:
  explicit FixedOffload(Seconds predicted, std::string refuses = {})
      : predicted_(predicted), refuses_(std::move(refuses)) {}

  std::string_view name() const noexcept override { return "fixed"; }
  Availability supports(const CollectiveDesc&) const override {
    return refuses_.empty() ? Availability::yes() : Availability::no(refuses_);
  }
  Seconds predict(const CollectiveDesc&) const override { return predicted_; }
  std::string describe(const CollectiveDesc&) const override { return "as told"; }
  void launch(const Call&, Completion&) override {}
  void abort(const Status&) noexcept override {}
  std::size_t memory_bytes() const noexcept override { return 0; }
  int progress() noexcept override { return 0; }
  bool active() const noexcept override { return false; }
  int wake_descriptor() const noexcept override { return -1; }
  bool arm() noexcept override { return true; }
  void disarm() noexcept override {}

 private:
  Seconds predicted_;
  std::string refuses_;
};

}  // namespace sinew::test
