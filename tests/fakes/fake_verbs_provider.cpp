// A provider of libfabric, "fakeverbs", with the rules that verbs;ofi_rxm has for memory. libfabric finds it by
// FI_PROVIDER_PATH. It is tcp;ofi_rxm underneath. Each message must lie in memory that is registered for the direction
// of the message. The registration must be bound to the endpoint and enabled. Other messages are refused with
// FI_EFAULT. fake_verbs_limit() says how many bytes may be registered, as the limit of locked memory does.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <set>

#include "layered_provider.hpp"

#define EXPORTED __attribute__((visibility("default")))

namespace {

constexpr const char* kName = "fakeverbs";
using sinew::fake::Info;
using sinew::fake::rename_to;
using sinew::fake::replace;

constexpr std::uint64_t kModes = FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_PROV_KEY | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR;

/// Asks the provider underneath, which wants no registrations.
Info question_underneath(const fi_info* hints) {
  Info copy = sinew::fake::question_underneath(hints);
  if (copy->domain_attr != nullptr) copy->domain_attr->mr_mode = 0;
  return copy;
}

struct Registration {
  fid_mr handle{};
  const std::byte* first = nullptr;
  std::size_t bytes = 0;
  std::uint64_t access = 0;
  const fid* endpoint = nullptr;
  bool enabled = false;
};

std::mutex mutex;
std::set<const Registration*> live;  // guarded by mutex, as what follows
std::size_t registered_bytes = 0;
std::size_t most_bytes = std::numeric_limits<std::size_t>::max();
std::atomic<int> refused = 0;

int close_registration(fid* handle) {
  auto* r = reinterpret_cast<Registration*>(handle);
  const std::scoped_lock lock(mutex);
  live.erase(r);
  registered_bytes -= r->bytes;
  delete r;
  return 0;
}

int bind_registration(fid* handle, fid* endpoint, std::uint64_t /*flags*/) {
  reinterpret_cast<Registration*>(handle)->endpoint = endpoint;
  return 0;
}

int control_registration(fid* handle, int command, void* /*argument*/) {
  auto* r = reinterpret_cast<Registration*>(handle);
  if (command != FI_ENABLE || r->endpoint == nullptr) return -FI_EINVAL;
  r->enabled = true;
  return 0;
}

int register_memory(fid* /*domain*/, const fi_mr_attr* attributes, std::uint64_t /*flags*/, fid_mr** made) {
  static fi_ops ops = [] {
    fi_ops o{};
    o.size = sizeof o;
    o.close = close_registration;
    o.bind = bind_registration;
    o.control = control_registration;
    return o;
  }();
  if (attributes->iov_count != 1 || attributes->requested_key != 0) return -FI_EINVAL;  // the provider makes the keys
  const iovec& range = *attributes->mr_iov;
  const std::scoped_lock lock(mutex);
  if (range.iov_len > most_bytes - std::min(registered_bytes, most_bytes)) return -FI_ENOMEM;
  auto r = std::make_unique<Registration>();
  r->handle.fid.fclass = FI_CLASS_MR;
  r->handle.fid.ops = &ops;
  r->handle.mem_desc = r.get();
  r->first = static_cast<const std::byte*>(range.iov_base);
  r->bytes = range.iov_len;
  r->access = attributes->access;
  live.insert(r.get());
  registered_bytes += r->bytes;
  *made = &r.release()->handle;
  return 0;
}

/// May a message of this endpoint lie there?
bool is_registered(const fid_ep* endpoint, const void* buffer, std::size_t bytes, const void* descriptor,
                   std::uint64_t access) {
  if (bytes == 0) return true;
  const std::scoped_lock lock(mutex);
  const auto* r = static_cast<const Registration*>(descriptor);
  const auto* at = static_cast<const std::byte*>(buffer);
  const bool right = live.contains(r) && r->enabled && r->endpoint == &endpoint->fid && (r->access & access) != 0 &&
                     at >= r->first && at + bytes <= r->first + r->bytes;
  if (!right) ++refused;
  return right;
}

fi_ops_tagged real_tagged;
fi_ops_msg real_message;

ssize_t send_tagged(fid_ep* ep, const void* buffer, std::size_t bytes, void* descriptor, fi_addr_t to,
                    std::uint64_t tag, void* context) {
  if (!is_registered(ep, buffer, bytes, descriptor, FI_SEND)) return -FI_EFAULT;
  return real_tagged.send(ep, buffer, bytes, nullptr, to, tag, context);
}

ssize_t receive_tagged(fid_ep* ep, void* buffer, std::size_t bytes, void* descriptor, fi_addr_t from, std::uint64_t tag,
                       std::uint64_t ignore, void* context) {
  if (!is_registered(ep, buffer, bytes, descriptor, FI_RECV)) return -FI_EFAULT;
  return real_tagged.recv(ep, buffer, bytes, nullptr, from, tag, ignore, context);
}

ssize_t send_message(fid_ep* ep, const void* buffer, std::size_t bytes, void* descriptor, fi_addr_t to, void* context) {
  if (!is_registered(ep, buffer, bytes, descriptor, FI_SEND)) return -FI_EFAULT;
  return real_message.send(ep, buffer, bytes, nullptr, to, context);
}

ssize_t receive_message(fid_ep* ep, void* buffer, std::size_t bytes, void* descriptor, fi_addr_t from, void* context) {
  if (!is_registered(ep, buffer, bytes, descriptor, FI_RECV)) return -FI_EFAULT;
  return real_message.recv(ep, buffer, bytes, nullptr, from, context);
}

struct FakeVerbs {
  static Info question(const fi_info* hints) { return question_underneath(hints); }
  static int register_memory(fid* domain, const fi_mr_attr* attributes, std::uint64_t flags, fid_mr** made) {
    return ::register_memory(domain, attributes, flags, made);
  }
  static void change_endpoint(fid_ep& ep) {
    static fi_ops_tagged own_tagged;
    static fi_ops_msg own_message;
    replace<fi_ops_tagged>(ep.tagged, real_tagged, own_tagged, [](fi_ops_tagged& t) {
      t.send = send_tagged;
      t.recv = receive_tagged;
    });
    replace<fi_ops_msg>(ep.msg, real_message, own_message, [](fi_ops_msg& m) {
      m.send = send_message;
      m.recv = receive_message;
    });
  }
};

/// libfabric gives the answers this provider's name. Callers that cannot register memory get no answer.
int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
             fi_info** found) {
  const bool knows = hints != nullptr && hints->domain_attr != nullptr &&
                     (static_cast<std::uint64_t>(hints->domain_attr->mr_mode) & kModes) == kModes;
  if (!knows || (hints->caps & FI_HMEM) != 0) return -FI_ENODATA;
  const Info asked = question_underneath(hints);
  if (const int failed = fi_getinfo(version, node, service, flags, asked.get(), found)) return failed;
  for (fi_info* i = *found; i != nullptr; i = i->next) {
    rename_to(*i, nullptr);
    i->domain_attr->mr_mode = static_cast<int>(kModes);
  }
  return 0;
}

fi_provider provider = sinew::fake::Layer<FakeVerbs>::provider(kName, get_info);

}  // namespace

extern "C" {

EXPORTED fi_provider* fi_prov_ini() { return &provider; }

/// Registrations that were not closed, and their bytes.
EXPORTED int fake_verbs_registrations() {
  const std::scoped_lock lock(mutex);
  return static_cast<int>(live.size());
}
EXPORTED std::size_t fake_verbs_bytes() {
  const std::scoped_lock lock(mutex);
  return registered_bytes;
}
/// Messages that were refused because their memory was not registered as it must be.
EXPORTED int fake_verbs_refused() { return refused; }
/// From here on no more bytes than this may be registered at a time.
EXPORTED void fake_verbs_limit(std::size_t bytes) {
  const std::scoped_lock lock(mutex);
  most_bytes = bytes;
}
}
