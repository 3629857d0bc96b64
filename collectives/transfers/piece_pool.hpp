#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <sinew/collectives/transfers/card.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/transport/device.hpp>

namespace sinew {

/// The pinned memory of a World's long messages in one direction. Each transfer takes the memory of kPiecesInFlight
/// pieces and gives it back at its end. At most kMostTransfers have such memory at a time.
/// Sends and receives have a pool each. So a receive never waits for memory that sends hold.
/// Cost: kMostTransfers * kPiecesInFlight * kPieceBytes = 16 MiB of pinned memory at most, allocated when first needed.
class SINEW_API PiecePool {
 public:
  static constexpr std::size_t kMostTransfers = 4;

  PiecePool(DeviceRuntime& runtime, int device) noexcept : runtime_(runtime), device_(device) {}
  ~PiecePool();
  PiecePool(const PiecePool&) = delete;
  PiecePool& operator=(const PiecePool&) = delete;

  /// Makes sure that at least one transfer will get memory. From then on take() never fails for good.
  /// Errors: Error{System} with the runtime's text if there is no pinned memory.
  void reserve();
  /// Returns memory for one transfer. Returns nullopt if the caller has to wait for another transfer's end.
  /// Precondition: reserve() has succeeded.
  std::optional<Buffer> take();
  void give_back(Buffer memory) { spare_.push_back(memory); }

 private:
  Buffer allocate();

  DeviceRuntime& runtime_;
  const int device_;
  std::size_t made_ = 0;
  std::size_t most_ = kMostTransfers;
  std::vector<Buffer> spare_;
};

}  // namespace sinew
