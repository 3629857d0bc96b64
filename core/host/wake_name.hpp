#pragma once

#include <cstdint>
#include <utility>

#include <sinew/core/base/export.hpp>
#include <sinew/core/system/file_descriptor.hpp>

namespace sinew {

/// Wakes a rank of this host by a datagram to an abstract UNIX socket, whose name contains a number. So no rank needs a
/// descriptor of any other rank. Waking by an eventfd takes a quarter of the time, but needs one descriptor for each
/// other rank.
class SINEW_API WakeName {
 public:
  /// Listens at a random name. Errors: Error{System}.
  WakeName();

  /// From 2 to 2^31 - 1.
  std::int32_t number() const noexcept { return number_; }
  /// Readable once somebody has woken this rank. Each read takes one datagram.
  FileDescriptor take_socket() noexcept { return std::move(socket_); }

  /// Makes what wake() sends with. Errors: Error{System}.
  static void prepare();
  /// Returns 0, or the error number: ECONNREFUSED where nobody has the name any more; EAGAIN where that rank will wake
  /// up anyway, because it has as many datagrams as it may have.
  static int wake(std::int32_t number) noexcept;
  /// Returns 0 if somebody listens at the name, or the error number.
  static int find(std::int32_t number) noexcept;

 private:
  std::int32_t number_ = 0;
  FileDescriptor socket_;
};

}  // namespace sinew
