#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/core/buffer.hpp>

namespace sinew {

/// MUNGE is a service of each host that seals bytes for one user. The hosts of a cluster share its key. So a process of
/// that user can open on any of them what is sealed here, once on each host. Nobody else can. Slurm needs MUNGE, so its
/// nodes have it. libmunge.so.2 is loaded when it is first needed.
/// Thread: any. Cost: a round trip to munged at a UNIX socket, about a millisecond.
class SINEW_API Munge {
 public:
  /// Loads the library, seals a text and opens it again.
  /// Errors: Error{Unavailable} with the reason of the loader or of munged.
  Munge();
  Munge(const Munge&) = delete;
  Munge& operator=(const Munge&) = delete;

  /// Returns a credential: a text that processes of this user can open for a minute.
  /// Errors: Error{Unavailable} with MUNGE's reason.
  std::string seal(std::span<const std::byte> bytes) const;
  /// Returns what is in a credential that a process of this user has sealed.
  /// Errors: Error{Unavailable} with MUNGE's reason, or if another user has sealed it.
  Bytes open(std::string_view credential) const;

 private:
  struct Library;
  const Library& library_;
};

}  // namespace sinew
