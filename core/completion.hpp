#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include <sinew/core/error.hpp>

namespace sinew {

/// The state of one operation. Whoever starts the operation owns it.
/// The transport or offload that took the operation sets status, note and bytes, and then calls `fire` exactly once. It
/// does so inside its progress(), never inside send, recv or launch. `fire` may start further operations. It must not
/// call progress(), and it must not block.
/// Lifetime: the object must neither move nor be destroyed before `fire` was called. Until then the 64 bytes
///           `transport` belong to the transport. A transport that needs more takes memory from a pool of its own.
struct Completion {
  using Fire = void (*)(Completion&) noexcept;

  Fire fire = nullptr;
  Status status{};
  /// A receive sets the note that it expects, or 0 for any. When `fire` is called, this is the sender's note.
  std::uint64_t note = 0;
  std::size_t bytes = 0;  ///< bytes that were received or sent
  alignas(16) std::byte transport[64];

  Completion() noexcept = default;
  explicit Completion(Fire f) noexcept : fire(f) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// Returns the object that make() has put into the transport's 64 bytes.
  template <class T>
  T& as() noexcept {
    static_assert(sizeof(T) <= sizeof(transport) && alignof(T) <= 16 && std::is_trivially_destructible_v<T>);
    return *std::launder(reinterpret_cast<T*>(transport));
  }
  /// Puts an object of the transport into its 64 bytes. It is never destroyed.
  template <class T, class... A>
  T& make(A&&... args) noexcept {
    static_assert(sizeof(T) <= sizeof(transport) && alignof(T) <= 16 && std::is_trivially_destructible_v<T>);
    return *new (transport) T{std::forward<A>(args)...};
  }
  /// Ends the operation: sets the status and calls `fire`.
  void finish(Status s) noexcept {
    status = std::move(s);
    fire(*this);
  }
};

}  // namespace sinew
