#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/transports/nccl/library/nccl_api.hpp>

namespace sinew::nccl {

/// Who calls: the communicator's place in its group, the stream.
struct Caller {
  const Api& api;
  Comm comm;
  int rank;
  int ranks;
  Stream stream;
};

/// Calls that NCCL starts together, as one operation. The first that is refused ends it.
class Grouped {
 public:
  explicit Grouped(const Caller& caller) : caller_(caller), result_(caller.api.group_start()) {}

  /// call(): one of NCCL's functions.
  template <class Call>
  void add(Call&& call) {
    if (good()) result_ = call();
  }
  /// Of nothing there is no message: NCCL would have both ranks wait for each other.
  void send(const std::byte* from, std::uint64_t count, DataType type, int peer) {
    if (count == 0) return;
    add([&] { return caller_.api.send(from, count, type, peer, caller_.comm, caller_.stream); });
  }
  void recv(std::byte* to, std::uint64_t count, DataType type, int peer) {
    if (count == 0) return;
    add([&] { return caller_.api.recv(to, count, type, peer, caller_.comm, caller_.stream); });
  }
  /// A group that was started is ended, whatever came between.
  Result end() {
    const Result ended = caller_.api.group_end();
    return good() ? ended : result_;
  }

 private:
  bool good() const noexcept { return result_ == Result::Success || result_ == Result::InProgress; }

  const Caller& caller_;
  Result result_;
};

}  // namespace sinew::nccl
