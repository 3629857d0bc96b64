#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/transports/ofi/frame.hpp>
#include <sinew/transports/ofi/rail.hpp>

namespace sinew::ofi {
namespace {

constexpr std::size_t kBatch = 16;

template <class T, class Open>
Handle<T> opened(std::string_view what, Open open) {
  T* made = nullptr;
  require(open(&made), what);
  return Handle<T>(made);
}

}  // namespace

Rail::Rail(Info info, bool sleeps) : info_(std::move(info)) {
  const auto tag_bits = static_cast<unsigned>(std::bit_width(info_->ep_attr->mem_tag_format));
  if (tag_bits < kTagBits) {
    throw Error(Code::Unavailable, fmt::format("ofi: the provider {} matches {} bits of a tag, {} are needed",
                                               provider(), tag_bits, kTagBits));
  }
  fabric_ = opened<fid_fabric>("opening the fabric",
                               [&](fid_fabric** f) { return fi_fabric(info_->fabric_attr, f, nullptr); });
  domain_ = opened<fid_domain>("opening the domain",
                               [&](fid_domain** d) { return fi_domain(fabric_.get(), info_.get(), d, nullptr); });
  open_queue(sleeps);
  addresses_ = opened<fid_av>("opening the address vector", [&](fid_av** a) {
    fi_av_attr attributes{};
    attributes.type = FI_AV_UNSPEC;
    return fi_av_open(domain_.get(), &attributes, a, nullptr);
  });
  endpoint_ = opened<fid_ep>("opening the endpoint",
                             [&](fid_ep** e) { return fi_endpoint(domain_.get(), info_.get(), e, nullptr); });
  require(fi_ep_bind(endpoint_.get(), &queue_->fid, FI_TRANSMIT | FI_RECV), "binding the completion queue");
  require(fi_ep_bind(endpoint_.get(), &addresses_->fid, 0), "binding the address vector");
  require(fi_enable(endpoint_.get()), "enabling the endpoint");
}

void Rail::open_queue(bool sleeps) {
  fi_cq_attr attributes{};
  attributes.format = FI_CQ_FORMAT_MSG;
  attributes.size = info_->tx_attr->size + info_->rx_attr->size;
  fid_cq* queue = nullptr;
  attributes.wait_obj = FI_WAIT_FD;
  const int waiting = sleeps ? fi_cq_open(domain_.get(), &attributes, &queue, nullptr) : -FI_EOPNOTSUPP;
  if (waiting == 0) {
    queue_.reset(queue);
    require(fi_control(&queue_->fid, FI_GETWAIT, &queue_descriptor_), "asking the completion queue for its descriptor");
    // Whoever waits on the queue's descriptor makes each of its events dearer, also while nobody sleeps: the kernel
    // tells every epoll that holds one that holds the socket.
    sleep_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
    if (!sleep_) throw_errno("epoll_create1");
    return;
  }
  if (sleeps) log::debug("ofi: the provider {} has no descriptor to sleep on: {}", provider(), fi_strerror(-waiting));
  attributes.wait_obj = FI_WAIT_NONE;
  queue_ = opened<fid_cq>("opening the completion queue",
                          [&](fid_cq** q) { return fi_cq_open(domain_.get(), &attributes, q, nullptr); });
}

Bytes Rail::name() const {
  std::size_t bytes = 0;
  const int result = fi_getname(&endpoint_->fid, nullptr, &bytes);
  if (result != -FI_ETOOSMALL) require(result, "asking the endpoint for its address");
  Bytes name(bytes);
  require(fi_getname(&endpoint_->fid, name.data(), &bytes), "asking the endpoint for its address");
  return name;
}

fi_addr_t Rail::insert(const Bytes& peer_name) {
  fi_addr_t address = FI_ADDR_NOTAVAIL;
  const int inserted = fi_av_insert(addresses_.get(), peer_name.data(), 1, &address, 0, nullptr);
  require(inserted, "inserting the peer's address");
  if (inserted != 1)
    throw Error(Code::Unavailable, fmt::format("ofi: {} does not take the peer's address", provider()));
  return address;
}

int Rail::poll() {
  std::array<fi_cq_msg_entry, kBatch> entries;
  const ssize_t count = fi_cq_read(queue_.get(), entries.data(), entries.size());
  if (count == -FI_EAVAIL) {
    end_failed();
    return 1;
  }
  if (count <= 0) return 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    auto* request = static_cast<Request*>(entries[i].op_context);
    if (request != nullptr) request->completed(*request, {.bytes = entries[i].len});
  }
  return static_cast<int>(count);
}

void Rail::end_failed() {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(queue_.get(), &entry, 0) != 1) return;
  char buffer[128] = "";
  const char* detail = fi_cq_strerror(queue_.get(), entry.prov_errno, entry.err_data, buffer, sizeof buffer);
  const char* text = fi_strerror(entry.err);
  Outcome outcome{.error = entry.err, .text = text};
  if (detail != nullptr && *detail != 0 && outcome.text != detail) outcome.text += fmt::format(" ({})", detail);
  auto* request = static_cast<Request*>(entry.op_context);
  if (request == nullptr) return log::warning("ofi: {} reports {}", provider(), outcome.text);
  request->completed(*request, outcome);
}

bool Rail::cut_off(fi_addr_t peer) noexcept {
  // shm has no connections: a peer reads this process's memory, and writes to its own only.
  if (is_shm()) return true;
  const char* closes = std::getenv("FI_AV_REMOVE_CLEANUP");
  if (!provider().ends_with(";ofi_rxm") || closes == nullptr || std::string_view(closes) != "1") return false;
  return fi_av_remove(addresses_.get(), &peer, 1, 0) == 0;
}

bool Rail::arm() noexcept {
  if (!sleep_) return true;
  fid* queue = &queue_->fid;
  if (fi_trywait(fabric_.get(), &queue, 1) != FI_SUCCESS) return false;
  epoll_event event{};
  event.events = EPOLLIN;
  armed_ = ::epoll_ctl(sleep_.get(), EPOLL_CTL_ADD, queue_descriptor_, &event) == 0;
  return armed_;
}

void Rail::disarm() noexcept {
  if (!armed_) return;
  ::epoll_ctl(sleep_.get(), EPOLL_CTL_DEL, queue_descriptor_, nullptr);
  armed_ = false;
}

Handle<fid_mr> Rail::register_memory(Buffer memory, std::uint64_t access) {
  const iovec range{memory.data, memory.bytes};
  fi_mr_attr attributes{};
  attributes.mr_iov = &range;
  attributes.iov_count = 1;
  attributes.access = access;
  attributes.requested_key = (info_->domain_attr->mr_mode & FI_MR_PROV_KEY) != 0 ? 0 : next_key_++;
  const bool device = memory.place.kind == MemoryKind::Device;
  attributes.iface = device ? FI_HMEM_CUDA : FI_HMEM_SYSTEM;
  if (device) attributes.device.cuda = memory.place.device;
  auto registration = opened<fid_mr>(device ? "registering device memory" : "registering memory",
                                     [&](fid_mr** m) { return fi_mr_regattr(domain_.get(), &attributes, 0, m); });
  if ((info_->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) {
    require(fi_mr_bind(registration.get(), &endpoint_->fid, 0), "binding registered memory");
    require(fi_mr_enable(registration.get()), "enabling registered memory");
  }
  return registration;
}

}  // namespace sinew::ofi
