#pragma once

#include <sinew/core/error.hpp>
#include <sinew/transports/nccl/library/nccl_api.hpp>

namespace sinew::nccl {

/// What all ranks of a communicator ask of NCCL together beside calls: in the order of these, but on no stream, and
/// only when those before it are over. NCCL may write to it until the communicator says that it is through.
/// Thread: the driver's.
class Errand {
 public:
  virtual ~Errand() = default;
  virtual const char* function() const noexcept = 0;
  virtual Result run(const Api& api, Comm comm) = 0;
  /// Ok, or why it was not run, or not to its end.
  virtual void ended(const Status& status) noexcept = 0;
};

}  // namespace sinew::nccl
