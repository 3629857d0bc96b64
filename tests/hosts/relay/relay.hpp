#pragma once

#include <thread>

#include <sinew/core/system/file_descriptor.hpp>

#include "hosts/relay/line.hpp"

namespace sinew::test {

/// Moves packets from one TUN device to another by one thread, as a Line says, from its construction to its
/// destruction. Both descriptors outlive it.
class Relay {
 public:
  Relay(int from, int to, const LineOptions& options);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Ends the thread, so that the counters stand still.
  void stop();
  const Line& line() const noexcept { return line_; }

 private:
  void run();

  const int from_;
  const int to_;
  Line line_;
  FileDescriptor stop_;
  std::thread thread_;
};

}  // namespace sinew::test
