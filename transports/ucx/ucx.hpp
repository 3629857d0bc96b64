#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <sinew/core/fabric.hpp>

/// Messages over UCX's active messages. Short ones go at once, with credit; longer ones are announced, and their data
/// follows in active messages of its own when the receiver has cleared it: UCX cannot take a send back, so it is given
/// nothing that nobody has asked for. UCX itself then chooses how the data goes: copied through shared memory, read out
/// of the sender's by CMA or RDMA. Its connections prove no secret; a frame carries a token that only the job knows.
namespace sinew::ucx {

Module& module() noexcept;

struct Options {
  int rank = 0;
  int size = 1;
  std::uint8_t generation = 0;
  std::string host_id;        ///< equal text: same host, where the control plane says who died
  HostPeers* host = nullptr;  ///< where there is one: tells a dead process from a slow one
  bool has_device = false;    ///< whose memory messages may lie in, if UCX can
  std::size_t eager_bytes = 8000;
  std::size_t eager_credit_bytes = 256 * 1024;
};

/// What the module's fabric opens, without a World.
/// Errors: Error{Unavailable} with UCX's reason.
std::unique_ptr<Transport> make_transport(const Options& options);

}  // namespace sinew::ucx
