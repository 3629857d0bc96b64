#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/transport.hpp>

namespace sinew::ucx {

/// Error{Unavailable, "ucx: WHAT: text of UCX"} unless ok.
void require(ucs_status_t status, const std::string& what);

/// Whether a context that knows these memory types (bits of ucs_memory_type_t) carries CUDA memory, or why not.
Availability judge_memory_types(std::uint64_t memory_types);

/// A context of UCX with one worker: configured by the user's UCX_* first, then by what sinew wants.
/// Errors: Error{Unavailable} with UCX's reason and UCX_TLS, where nothing is left to send over.
class Context {
 public:
  /// `tcp_device`: over TCP, and over this network device alone; empty: over all that UCX finds.
  explicit Context(int ranks, const std::string& tcp_device = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ucp_worker_h worker() const noexcept { return worker_.get(); }
  int wake_descriptor() const noexcept { return wake_; }
  Bytes address() const;
  /// Does it carry CUDA memory?
  Availability carries_cuda() const;
  /// Does any of the transports lead to another host?
  bool leads_elsewhere() const;

 private:
  struct Cleanup {
    void operator()(ucp_context_h c) const noexcept { ucp_cleanup(c); }
    void operator()(ucp_worker_h w) const noexcept { ucp_worker_destroy(w); }
  };
  std::unique_ptr<ucp_context, Cleanup> context_;
  std::unique_ptr<ucp_worker, Cleanup> worker_;
  int wake_ = -1;
};

}  // namespace sinew::ucx
