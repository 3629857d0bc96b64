#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/ucx/context.hpp>
#include <sinew/transports/ucx/embedded.hpp>

namespace sinew::ucx {
namespace {

struct Setting {
  const char* name;
  const char* value;
};
/// Used only where the environment has no UCX_<name>.
constexpr std::array kSettings = {
    Setting{"KEEPALIVE_INTERVAL", "500ms"},  // 20 s otherwise: a lost host is to be known within two
    Setting{"RESOLVE_REMOTE_EP_ID", "n"},    // see Link::open
};

using Configuration = std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)>;

Configuration configure(const std::string& tcp_device) {
  ucp_config_t* read = nullptr;
  require(ucp_config_read(nullptr, nullptr, &read), "reading UCX_* and ucx.conf");
  Configuration configuration(read, &ucp_config_release);
  for (const Setting& s : kSettings) {
    if (std::getenv(fmt::format("UCX_{}", s.name).c_str()) != nullptr) continue;
    require(ucp_config_modify(read, s.name, s.value), fmt::format("setting {}={}", s.name, s.value));
  }
  if (!tcp_device.empty()) {
    require(ucp_config_modify(read, "TLS", "tcp"), "setting TLS=tcp");
    require(ucp_config_modify(read, "NET_DEVICES", tcp_device.c_str()), "setting NET_DEVICES=" + tcp_device);
  }
  return configuration;
}

ucp_context_h open_context(int ranks, const std::string& tcp_device) {
  const Configuration configuration = configure(tcp_device);
  ucp_params_t p{};
  p.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  p.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  p.estimated_num_eps = static_cast<std::size_t>(ranks);
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&p, configuration.get(), &context);
  if (status != UCS_OK) {
    const char* chosen = std::getenv("UCX_TLS");
    const std::string said = Embedded::first_error();
    throw Error(Code::Unavailable, fmt::format("ucx: {} leaves nothing to send over: {}{}{}",
                                               chosen == nullptr ? "this machine" : fmt::format("UCX_TLS={}", chosen),
                                               ucs_status_string(status), said.empty() ? "" : ": ", said));
  }
  return context;
}

ucp_worker_h open_worker(ucp_context_h context) {
  ucp_worker_params_t p{};
  p.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  p.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  p.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;  // held requests: see Endpoint
  ucp_worker_h worker = nullptr;
  require(ucp_worker_create(context, &p, &worker), "making a worker");
  return worker;
}

/// The worker's address, of its network devices alone if asked.
Bytes address_of(ucp_worker_h worker, bool network_only) {
  ucp_worker_attr_t a{};
  a.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  a.address_flags = network_only ? UCP_WORKER_ADDRESS_FLAG_NET_ONLY : 0;
  require(ucp_worker_query(worker, &a), "asking for the worker's address");
  const auto bytes = std::as_bytes(std::span(reinterpret_cast<const char*>(a.address), a.address_length));
  Bytes out(bytes.begin(), bytes.end());
  ucp_worker_release_address(worker, a.address);
  return out;
}

}  // namespace

void require(ucs_status_t status, const std::string& what) {
  if (status == UCS_OK) return;
  throw Error(Code::Unavailable, fmt::format("ucx: {}: {}", what, ucs_status_string(status)));
}

Availability judge_memory_types(std::uint64_t memory_types) {
  if ((memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0) return Availability::yes();
  const char* chosen = std::getenv("UCX_TLS");
  return Availability::no(fmt::format(
      "UCX {} carries no CUDA memory here: it was built without CUDA, or {} cuda_copy", ucp_get_version_string(),
      chosen == nullptr ? "this machine has nothing for" : fmt::format("UCX_TLS={} leaves out", chosen)));
}

Context::Context(int ranks, const std::string& tcp_device) {
  embed();
  const Embedded embedded;
  context_.reset(open_context(ranks, tcp_device));
  worker_.reset(open_worker(context_.get()));
  require(ucp_worker_get_efd(worker_.get(), &wake_), "asking for the descriptor to wait on");
}

Context::~Context() {
  const Embedded embedded;
  worker_.reset();
  context_.reset();
}

Bytes Context::address() const { return address_of(worker_.get(), false); }

Availability Context::carries_cuda() const {
  ucp_context_attr_t a{};
  a.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  require(ucp_context_query(context_.get(), &a), "asking for the kinds of memory");
  return judge_memory_types(a.memory_types);
}

bool Context::leads_elsewhere() const {
  // Without any device an address is the worker's id and a mark; a device with one transport takes 30 bytes and more.
  constexpr std::size_t kEmpty = 24;
  return address_of(worker_.get(), true).size() > kEmpty;
}

}  // namespace sinew::ucx
