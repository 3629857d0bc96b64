#pragma once

#include <span>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/transport.hpp>

namespace sinew {

/// Wakes the control thread of another process of this host, with or without a message: a datagram socket under a
/// random abstract name, which ends with its process. Datagrams of other users are dropped. A message may be lost
/// where the receiver's queue is full; what must not be lost lies in shared memory and is only rung for.
class SINEW_API Doorbell {
 public:
  static constexpr std::size_t kLongestMessage = 60'000;
  /// The bytes of an abstract name that fit into a socket address.
  static constexpr std::size_t kLongestName = 107;

  /// Errors: Error{System}.
  Doorbell();

  const std::string& name() const noexcept { return name_; }
  int descriptor() const noexcept { return socket_.get(); }
  /// Never blocks. false: nobody listens there any more, or its queue is full: it is awake then.
  /// Precondition: `name` has kLongestName bytes at most.
  bool ring(const std::string& name, std::span<const std::byte> message) const noexcept;
  /// The next message; false: no more for now.
  bool next(Bytes& message) const;

 private:
  std::string name_;
  FileDescriptor socket_;
};

}  // namespace sinew
