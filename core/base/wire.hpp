#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/buffer.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

/// Builds a message out of plain values and byte strings (u32 length, bytes); both ends run on the same byte order.
class WireWriter {
 public:
  template <class T>
    requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>)
  WireWriter& value(const T& v) {
    return raw(std::as_bytes(std::span(&v, 1)));
  }
  WireWriter& bytes(std::span<const std::byte> data) {
    if (data.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(Code::InvalidArgument, fmt::format("a message field of {} bytes: at most 4GiB-1 fit", data.size()));
    }
    return value(static_cast<std::uint32_t>(data.size())).raw(data);
  }
  /// Bytes whose length the reader knows: whatever is left.
  WireWriter& rest(std::span<const std::byte> data) { return raw(data); }
  WireWriter& text(std::string_view t) { return bytes(std::as_bytes(std::span(t))); }
  std::size_t size() const noexcept { return out_.size(); }
  Bytes take() { return std::exchange(out_, {}); }

 private:
  WireWriter& raw(std::span<const std::byte> data) {
    if (data.empty()) return *this;
    out_.resize(out_.size() + data.size());
    std::memcpy(out_.data() + out_.size() - data.size(), data.data(), data.size());
    return *this;
  }

  Bytes out_;
};

/// Reads what WireWriter wrote. Errors: Error{Mismatch} where the message is shorter than what is asked of it.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> message) noexcept : rest_(message) {}

  template <class T>
    requires(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>)
  T value() {
    T v;
    std::memcpy(&v, raw(sizeof v).data(), sizeof v);
    return v;
  }
  std::span<const std::byte> bytes() { return raw(value<std::uint32_t>()); }
  Bytes owned_bytes() {
    const auto b = bytes();
    return {b.begin(), b.end()};
  }
  std::string text() {
    const auto b = bytes();
    return {reinterpret_cast<const char*>(b.data()), b.size()};
  }
  std::size_t left() const noexcept { return rest_.size(); }
  Bytes rest() const { return {rest_.begin(), rest_.end()}; }

 private:
  std::span<const std::byte> raw(std::size_t count) {
    if (count > rest_.size()) {
      throw Error(Code::Mismatch,
                  fmt::format("a message ends early: {} more bytes expected, {} left", count, rest_.size()));
    }
    const auto part = rest_.first(count);
    rest_ = rest_.subspan(count);
    return part;
  }

  std::span<const std::byte> rest_;
};

}  // namespace sinew
