#include <algorithm>
#include <iterator>
#include <utility>

#include <sinew/parallel/data_parallel/memory/held_memory.hpp>

namespace sinew::parallel {
HeldMemory::Piece::Piece(HeldMemory& from, Memory memory, std::size_t bytes, Purpose purpose) noexcept
    : from_(&from), memory_(std::move(memory)), bytes_(bytes), purpose_(purpose) {}

HeldMemory::Piece::Piece(Piece&& other) noexcept
    : from_(std::exchange(other.from_, nullptr)),
      memory_(std::move(other.memory_)),
      bytes_(other.bytes_),
      purpose_(other.purpose_) {}

HeldMemory::Piece& HeldMemory::Piece::operator=(Piece&& other) noexcept {
  std::swap(from_, other.from_);
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(purpose_, other.purpose_);
  return *this;
}

HeldMemory::Piece::~Piece() {
  if (from_ != nullptr) from_->give_back(std::move(memory_), purpose_);
}

void HeldMemory::give_back(Memory memory, Purpose purpose) {
  const std::size_t bytes = memory.buffer().bytes;
  held_.now[static_cast<std::size_t>(purpose)] -= bytes;
  if (purpose != Purpose::Underway) return;
  if (held_.of(purpose) + held_.spare + bytes > held_.most_of(purpose)) return;
  held_.spare += bytes;
  spare_.emplace(bytes, std::move(memory));
}

Memory HeldMemory::from_spare(std::size_t bytes) {
  const auto fits = spare_.find(bytes);
  if (fits != spare_.end()) {
    Memory memory = std::move(fits->second);
    held_.spare -= fits->first;
    spare_.erase(fits);
    return memory;
  }
  while (!spare_.empty() && held_.of(Purpose::Underway) + held_.spare + bytes > held_.most_of(Purpose::Underway)) {
    const auto longest = std::prev(spare_.end());
    held_.spare -= longest->first;
    spare_.erase(longest);
  }
  return allocate_(bytes);
}

void HeldMemory::reserve(std::span<const std::size_t> pieces) {
  spare_.clear();
  held_.spare = 0;
  for (const std::size_t bytes : pieces) {
    spare_.emplace(bytes, allocate_(bytes));
    held_.spare += bytes;
  }
  std::size_t& most = held_.most[static_cast<std::size_t>(Purpose::Underway)];
  most = std::max(most, held_.spare);
}

HeldMemory::Piece HeldMemory::take(std::size_t bytes, Purpose purpose) {
  const bool is_new = purpose != Purpose::Underway;
  Memory memory = !is_new ? from_spare(bytes) : kept_ ? kept_(bytes) : allocate_(bytes);
  const std::size_t all = memory.buffer().bytes;
  Piece piece(*this, std::move(memory), bytes, purpose);
  if (!is_new || !kept_) copies_.zero(piece.buffer());  // a file that is new needs no writes
  const auto i = static_cast<std::size_t>(purpose);
  held_.now[i] += all;
  held_.most[i] = std::max(held_.most[i], held_.now[i]);
  return piece;
}

}  // namespace sinew::parallel
