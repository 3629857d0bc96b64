#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include <sinew/core/buffer.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/transports/ofi/provider/handles.hpp>
#include <sinew/transports/ofi/request.hpp>

namespace sinew::ofi {

/// An endpoint of a provider, and what it is made of. Requests still with the provider when the endpoint closes are
/// forgotten by it.
class Rail {
 public:
  /// Errors: Error{Unavailable} with the step that failed and libfabric's text.
  /// `sleeps`: somebody will want its descriptor.
  Rail(Info info, bool sleeps);

  fid_ep* endpoint() const noexcept { return endpoint_.get(); }
  /// Every request ends, none completes.
  void close_endpoint() noexcept { endpoint_.reset(); }
  const fi_info& info() const noexcept { return *info_; }
  std::string provider() const { return info_->fabric_attr->prov_name; }
  bool is_shm() const { return provider() == "shm"; }
  /// How peers reach it, in the provider's own form.
  Bytes name() const;
  /// Errors: Error{Unavailable}.
  fi_addr_t insert(const Bytes& peer_name);

  /// Ends completed requests; returns how many.
  int poll();

  /// Ends the connection to this peer for good. false: the provider may go on with what it has of that peer's.
  bool cut_off(fi_addr_t peer) noexcept;

  /// -1: the provider has none, or nobody sleeps.
  int wake_descriptor() const noexcept { return sleep_.get(); }
  /// false: something is there already. true: the descriptor becomes readable with the next event, until disarm().
  bool arm() noexcept;
  void disarm() noexcept;

  /// True if the provider wants users' buffers of this kind registered.
  bool registers(MemoryKind kind) const noexcept {
    const int wanted = kind == MemoryKind::Device ? FI_MR_LOCAL | FI_MR_HMEM : FI_MR_LOCAL;
    return (info_->domain_attr->mr_mode & wanted) != 0;
  }
  /// Registers memory for `access` (FI_SEND, FI_RECV). Errors: Error{Unavailable}.
  Handle<fid_mr> register_memory(Buffer memory, std::uint64_t access);

 private:
  void open_queue(bool sleeps);
  void end_failed();

  Info info_;
  Handle<fid_fabric> fabric_;
  Handle<fid_domain> domain_;
  Handle<fid_cq> queue_;
  Handle<fid_av> addresses_;
  Handle<fid_ep> endpoint_;
  int queue_descriptor_ = -1;
  FileDescriptor sleep_;  // holds the queue's descriptor only between arm and disarm: see open_queue
  bool armed_ = false;
  std::uint64_t next_key_ = 1;
};

}  // namespace sinew::ofi
