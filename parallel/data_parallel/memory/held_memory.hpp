#pragma once

// The memory that a rank holds for data parallelism. The room `memory` lays parameters and gradients out, allocates and
// frees them as a step's graph says, and predicts the most that a rank will hold. It may include the room `plan`, the
// step graph, the mesh, and the options of update rules. It does not include DataParallel.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include <sinew/collectives/memory.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/data_parallel/memory/copies.hpp>

namespace sinew::parallel {

/// The use of a piece of a strategy's memory.
enum class Purpose : std::uint8_t { Parameter, Gradient, Optimizer, Underway, Residual };
inline constexpr std::size_t kPurposes = 5;

/// Bytes held by purpose: now, and the most so far. `Underway` counts what exists only during a step: gathered
/// parameters, and gradients before they are scattered. `Residual` counts what error feedback keeps.
struct HeldBytes {
  std::array<std::size_t, kPurposes> now{};
  std::array<std::size_t, kPurposes> most{};
  /// Bytes of freed pieces of `Underway` that are kept for the next ones. Together with the pieces in use they never
  /// exceed the most that `Underway` has had.
  std::size_t spare = 0;

  std::size_t of(Purpose p) const noexcept { return now[static_cast<std::size_t>(p)]; }
  std::size_t most_of(Purpose p) const noexcept { return most[static_cast<std::size_t>(p)]; }
};

/// Allocates zeroed memory that peers of the host can read. World::allocate, as a function.
using Allocate = std::function<Memory(std::size_t bytes)>;

class StepProtocol;

/// Allocates memory, and counts it by purpose. A freed piece of `Underway` is kept for the next piece of the same
/// length, so that steps with equal units map no new memory.
/// Lifetime: outlives its pieces, and ends before the World.
class SINEW_API HeldMemory {
 public:
  /// allocate: gives memory where the engine computes. copies: for that memory. kept: gives all pieces but those of
  /// `Underway`. Null: `allocate` does.
  explicit HeldMemory(Allocate allocate, const Copies& copies = {}, Allocate kept = {})
      : allocate_(std::move(allocate)), kept_(std::move(kept)), copies_(copies) {}

  /// A piece of memory. Its destructor gives it back.
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
    Memory memory_;  // may be longer than bytes_
    std::size_t bytes_ = 0;
    Purpose purpose_ = Purpose::Parameter;
  };

  Piece take(std::size_t bytes, Purpose purpose);
  /// Allocates the pieces of `Underway` of a step in advance, so that a lack of memory shows before the first step. No
  /// piece of `Underway` may be in use.
  void reserve(std::span<const std::size_t> pieces);
  const HeldBytes& held() const noexcept { return held_; }
  Copies& copies() noexcept { return copies_; }
  /// Returns whether what is held between steps is on the host while the engine computes on a device.
  bool is_apart() const noexcept { return kept_ && copies_.on_device(); }

  /// Users of this memory have calls in the steps of `step`, which outlives it. If follow() was not called, step() is
  /// null, and the memory belongs to no steps.
  void follow(StepProtocol& step) noexcept { step_ = &step; }
  StepProtocol* step() const noexcept { return step_; }

 private:
  void give_back(Memory memory, Purpose purpose);
  Memory from_spare(std::size_t bytes);

  Allocate allocate_, kept_;
  Copies copies_;
  HeldBytes held_;
  StepProtocol* step_ = nullptr;
  std::multimap<std::size_t, Memory> spare_;  // by bytes
};

}  // namespace sinew::parallel
