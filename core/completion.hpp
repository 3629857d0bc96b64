#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include <sinew/core/error.hpp>

namespace sinew {

/// State of one operation, owned by whoever started it; it must not move or end before it has fired.
/// `fire` is called exactly once, from a progress() of the transport or offload that took the operation, never from
/// inside send, recv or launch, after status, note and bytes are set. It may post further operations; it never calls
/// progress and never blocks. `transport` belongs to the transport until then; what needs more comes from its pool.
struct Completion {
  using Fire = void (*)(Completion&) noexcept;

  Fire fire = nullptr;
  Status status{};
  std::uint64_t note = 0;  ///< recv: before, the note expected (0: any); after, the sender's note
  std::size_t bytes = 0;   ///< bytes that arrived or left
  alignas(16) std::byte transport[64];

  Completion() noexcept = default;
  explicit Completion(Fire f) noexcept : fire(f) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// The transport's view of its 64 bytes.
  template <class T>
  T& as() noexcept {
    static_assert(sizeof(T) <= sizeof(transport) && alignof(T) <= 16 && std::is_trivially_destructible_v<T>);
    return *std::launder(reinterpret_cast<T*>(transport));
  }
  template <class T, class... A>
  T& make(A&&... args) noexcept {
    static_assert(sizeof(T) <= sizeof(transport) && alignof(T) <= 16 && std::is_trivially_destructible_v<T>);
    return *new (transport) T{std::forward<A>(args)...};
  }
  void finish(Status s) noexcept {
    status = std::move(s);
    fire(*this);
  }
};

}  // namespace sinew
