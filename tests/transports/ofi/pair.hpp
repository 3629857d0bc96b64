#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include <sinew/core/deadline.hpp>
#include <sinew/core/file_descriptor.hpp>
#include <sinew/transports/ofi/ofi.hpp>

#include "transports/conformance/rank.hpp"

namespace sinew::test {

inline constexpr const char* kTcp = "tcp;ofi_rxm";
inline constexpr const char* kShm = "shm";

ofi::Options ofi_options(int rank, const std::string& provider);

/// Progresses until `holds` or the time is up; returns holds().
bool drive(Transport& transport, Duration limit, const std::function<bool()>& holds);

/// A transport here and one in a forked child, connected. The child runs `body` and is killed at the end.
class ChildPair {
 public:
  using Body = std::function<void(Transport& transport, Endpoint& parent)>;

  ChildPair(const std::string& provider, const Body& body);
  ~ChildPair();

  Transport& transport() { return *transport_; }
  Endpoint& child() { return *child_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  FileDescriptor life_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Endpoint> child_;
};

}  // namespace sinew::test
