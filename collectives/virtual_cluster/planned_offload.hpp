#pragma once

#include <memory>
#include <string>
#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/core/offload.hpp>

namespace sinew {

/// The offload of a virtual cluster's devices. Calls are planned with it. A call that is launched ends with
/// Unavailable, since such devices have no memory.
class PlannedOffload final : public CollectiveOffload {
 public:
  explicit PlannedOffload(std::unique_ptr<OffloadProspects> prospects) : prospects_(std::move(prospects)) {}

  std::string_view name() const noexcept override { return prospects_->name(); }
  Availability supports(const CollectiveDesc& desc) const override { return prospects_->supports(desc); }
  Seconds predict(const CollectiveDesc& desc) const override { return prospects_->predict(desc); }
  std::string describe(const CollectiveDesc& desc) const override { return prospects_->describe(desc); }
  CostSource source() const noexcept override { return prospects_->source(); }
  bool needs_progress() const noexcept override { return prospects_->needs_progress(); }
  Availability supports_capture() const override { return prospects_->supports_capture(); }

  void launch(const Call& /*call*/, Completion& done) override {
    done.finish(Status(Code::Unavailable, "devices of a virtual cluster hold no memory: their calls are planned only"));
  }
  void abort(const Status& /*reason*/) noexcept override {}
  std::size_t memory_bytes() const noexcept override { return 0; }
  int progress() noexcept override { return 0; }
  bool active() const noexcept override { return false; }
  int wake_descriptor() const noexcept override { return -1; }
  bool arm() noexcept override { return true; }
  void disarm() noexcept override {}

 private:
  std::unique_ptr<OffloadProspects> prospects_;
};

}  // namespace sinew
