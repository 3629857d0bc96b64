#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include <sinew/core/deadline.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/transports/ofi/ofi.hpp>

#include "transports/conformance/rank.hpp"

namespace sinew::test {

inline constexpr const char* kTcp = "tcp;ofi_rxm";
inline constexpr const char* kShm = "shm";

/// `largest_piece`: of a message; 0: as a World has it.
ofi::Options ofi_options(int rank, const std::string& provider, std::size_t largest_piece = 0);

/// Progresses until `holds` or the time is up; returns holds().
bool drive(Transport& transport, Duration limit, const std::function<bool()>& holds);

/// A transport here and one in a forked child, connected. The child runs `body` and is killed at the end.
class ChildPair {
 public:
  using Body = std::function<void(Transport& transport, Endpoint& parent)>;

  ChildPair(const std::string& provider, const Body& body, std::size_t largest_piece = 0);
  ~ChildPair();

  Transport& transport() { return *transport_; }
  Endpoint& child() { return *child_; }
  pid_t pid() const { return pid_; }
  /// Ends the endpoint and the transport of this process, whatever they have in flight.
  void end() {
    child_.reset();
    transport_.reset();
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor life_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Endpoint> child_;
};

}  // namespace sinew::test
