#include <algorithm>
#include <cstring>
#include <utility>

#include <sinew/parallel/data/held_memory.hpp>

namespace sinew::parallel {

HeldMemory::Piece::Piece(HeldMemory& from, Memory memory, Purpose purpose) noexcept
    : from_(&from), memory_(std::move(memory)), purpose_(purpose) {}

HeldMemory::Piece::Piece(Piece&& other) noexcept
    : from_(std::exchange(other.from_, nullptr)), memory_(std::move(other.memory_)), purpose_(other.purpose_) {}

HeldMemory::Piece& HeldMemory::Piece::operator=(Piece&& other) noexcept {
  std::swap(from_, other.from_);
  std::swap(memory_, other.memory_);
  std::swap(purpose_, other.purpose_);
  return *this;
}

HeldMemory::Piece::~Piece() {
  if (from_ == nullptr) return;
  const std::size_t bytes = buffer().bytes;
  from_->held_.now[static_cast<std::size_t>(purpose_)] -= bytes;
  if (purpose_ == Purpose::Underway) from_->spare_[bytes].push_back(std::move(memory_));
}

HeldMemory::Piece HeldMemory::take(std::size_t bytes, Purpose purpose) {
  std::vector<Memory>& spare = spare_[bytes];
  Memory memory;
  if (purpose == Purpose::Underway && !spare.empty()) {
    memory = std::move(spare.back());
    spare.pop_back();
  } else {
    memory = allocate_(bytes);
  }
  Piece piece(*this, std::move(memory), purpose);
  std::memset(piece.buffer().data, 0, piece.buffer().bytes);
  const auto i = static_cast<std::size_t>(purpose);
  held_.now[i] += piece.buffer().bytes;
  held_.most[i] = std::max(held_.most[i], held_.now[i]);
  return piece;
}

}  // namespace sinew::parallel
