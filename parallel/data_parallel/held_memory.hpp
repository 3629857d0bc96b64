#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include <sinew/collectives/memory.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/copies.hpp>

namespace sinew::parallel {

/// What memory of a strategy is for.
enum class Purpose : std::uint8_t { Parameter, Gradient, Optimizer, Underway, Residual };
inline constexpr std::size_t kPurposes = 5;

/// Bytes held, by purpose: now and at most so far. `Underway` is what only lives during a step: gathered parameters,
/// gradients before they are scattered. `Residual` is what error feedback keeps.
struct HeldBytes {
  std::array<std::size_t, kPurposes> now{};
  std::array<std::size_t, kPurposes> most{};
  std::size_t spare = 0;  ///< kept for what will be under way next; with what is, never more than most was

  std::size_t of(Purpose p) const noexcept { return now[static_cast<std::size_t>(p)]; }
  std::size_t most_of(Purpose p) const noexcept { return most[static_cast<std::size_t>(p)]; }
};

/// Zeroed memory that peers of the host can read, and its account. World::allocate, as a function.
using Allocate = std::function<Memory(std::size_t bytes)>;

class StepProtocol;

/// Gives memory and counts it. What was under way is kept for the next pieces that are as long, so that steps of equal
/// units map nothing.
/// Lifetime: outlives what it gave, and ends before the World.
class SINEW_API HeldMemory {
 public:
  /// copies: of a device, whose memory is what is under way.
  explicit HeldMemory(Allocate allocate, const Copies& copies = {}) : allocate_(std::move(allocate)), copies_(copies) {}

  /// Counts itself off when it goes.
  class SINEW_API Piece {
   public:
    Piece() = default;
    Piece(HeldMemory& from, Memory memory, std::size_t bytes, Purpose purpose) noexcept;
    Piece(Piece&& other) noexcept;
    Piece& operator=(Piece&& other) noexcept;
    ~Piece();

    Buffer buffer() const noexcept { return memory_.buffer().part(0, bytes_); }
    explicit operator bool() const noexcept { return from_ != nullptr; }

   private:
    HeldMemory* from_ = nullptr;
    Memory memory_;  // may be longer
    std::size_t bytes_ = 0;
    Purpose purpose_ = Purpose::Parameter;
  };

  Piece take(std::size_t bytes, Purpose purpose);
  /// Takes what will be under way in a step in advance: memory that is not there is missed before the first one.
  /// Nothing is under way now.
  void reserve(std::span<const std::size_t> pieces);
  const HeldBytes& held() const noexcept { return held_; }
  Copies& copies() noexcept { return copies_; }

  /// What uses this memory has calls in the steps of `step`, which outlives it. Null: of nobody's steps.
  void follow(StepProtocol& step) noexcept { step_ = &step; }
  StepProtocol* step() const noexcept { return step_; }

 private:
  void give_back(Memory memory, Purpose purpose);
  Memory from_spare(std::size_t bytes);

  Memory underway(std::size_t bytes) { return copies_.on_device() ? copies_.allocate(bytes) : allocate_(bytes); }

  Allocate allocate_;
  Copies copies_;
  HeldBytes held_;
  StepProtocol* step_ = nullptr;
  std::multimap<std::size_t, Memory> spare_;  // by bytes
};

}  // namespace sinew::parallel
