#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include <sinew/core/offload.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew {

/// The collectives of a group of one rank on device memory, where a result is the rank's own data: one copy on the
/// device, none where the call is in place. What changes the data itself (PreMulSum, codecs) goes through the host.
/// Thread: of the World's engine. Cost: a stream, made by the first call; two events for each call.
class AloneOnDevice : public CollectiveOffload {
 public:
  /// In a plan: "copy over device".
  static constexpr std::string_view kName = "copy";
  static constexpr const char* kTransport = "device";

  AloneOnDevice(DeviceRuntime& runtime, int device) : runtime_(runtime), device_(device) {}
  ~AloneOnDevice() override;

  std::string_view name() const noexcept override { return kName; }
  Availability supports(const CollectiveDesc& desc) const override;
  Seconds predict(const CollectiveDesc& desc) const override;
  std::string describe(const CollectiveDesc& desc) const override;
  Availability supports_capture() const override { return Availability::yes(); }
  void launch(const Call& call, Completion& done) override;
  void abort(const Status& reason) noexcept override;
  std::size_t memory_bytes() const noexcept override { return 0; }

  int progress() noexcept override;
  bool active() const noexcept override { return !calls_.empty(); }
  int wake_descriptor() const noexcept override { return -1; }
  /// A device wakes nobody.
  bool arm() noexcept override { return calls_.empty(); }
  void disarm() noexcept override {}

 private:
  struct Running {
    Completion* done;
    Status status;
    DeviceRuntime::Event end = 0;
    bool waits = false;  // for `end`
  };

  /// Copies this rank's part on the stream.
  void copy(const Call& call, StreamRef stream);
  void enqueue(const Call& call, Running& running);
  void mark_end(Running& running);
  void mark_rest(Running& running) noexcept;
  bool is_over(Running& running) noexcept;

  DeviceRuntime& runtime_;
  const int device_;
  StreamRef stream_;
  std::deque<Running> calls_;
  Status ended_;
};

}  // namespace sinew
