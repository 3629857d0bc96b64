#include <sinew/collectives/transfers/piece_pool.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>

namespace sinew {

PiecePool::~PiecePool() {
  for (const Buffer& memory : spare_) runtime_.release(memory);
}

Buffer PiecePool::allocate() {
  spare_.reserve(made_ + 1);  // so that give_back() does not fail
  const Buffer memory = runtime_.allocate(kPiecesInFlight * kPieceBytes, {MemoryKind::PinnedHost, device_});
  ++made_;
  return memory;
}

void PiecePool::reserve() {
  if (made_ == 0) spare_.push_back(allocate());
}

std::optional<Buffer> PiecePool::take() {
  if (!spare_.empty()) {
    const Buffer memory = spare_.back();
    spare_.pop_back();
    return memory;
  }
  if (made_ >= most_) return std::nullopt;
  try {
    return allocate();
  } catch (const Error& e) {
    log::info("long messages of device memory share the pinned memory of {}: {}", made_, e.what());
    most_ = made_;
    return std::nullopt;
  }
}

}  // namespace sinew
