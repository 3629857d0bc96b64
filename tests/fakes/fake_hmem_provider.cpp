// A provider of libfabric, "fakehmem", that takes memory of the fake devices. libfabric finds it by FI_PROVIDER_PATH.
// It is tcp;ofi_rxm with FI_HMEM. It is strict: device memory must have been registered for the device that it lies on,
// and a registration covers its own range only.
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "fakes/fake_device.hpp"

namespace {

constexpr const char* kName = "fakehmem";
constexpr const char* kUnderneath = "tcp;ofi_rxm";

struct FreeInfo {
  void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

void rename_to(fi_info& info, const char* name) {
  std::free(info.fabric_attr->prov_name);
  info.fabric_attr->prov_name = name == nullptr ? nullptr : ::strdup(name);
}

/// Returns the question to the provider underneath.
Info without_device_memory(const fi_info* hints) {
  Info copy(hints == nullptr ? fi_allocinfo() : fi_dupinfo(hints));
  if (copy->fabric_attr == nullptr)
    copy->fabric_attr = static_cast<fi_fabric_attr*>(std::calloc(1, sizeof(fi_fabric_attr)));
  rename_to(*copy, kUnderneath);
  copy->caps &= ~FI_HMEM;
  for (std::uint64_t* caps :
       {copy->tx_attr ? &copy->tx_attr->caps : nullptr, copy->rx_attr ? &copy->rx_attr->caps : nullptr,
        copy->domain_attr ? &copy->domain_attr->caps : nullptr}) {
    if (caps != nullptr) *caps &= ~FI_HMEM;
  }
  if (copy->domain_attr != nullptr) copy->domain_attr->mr_mode &= ~FI_MR_HMEM;
  return copy;
}

/// Registered device memory. Its address is the descriptor of messages from and to it.
struct Registration {
  fid_mr handle{};
  const std::byte* first = nullptr;
  std::size_t bytes = 0;
};
std::atomic<int> registrations = 0;

int close_registration(fid* handle) {
  delete reinterpret_cast<Registration*>(handle);
  --registrations;
  return 0;
}

bool is_device_memory(const void* address) {
  return sinew::fake::Device().place_of(address).kind == sinew::MemoryKind::Device;
}

fi_ops_mr real_mr;
fi_ops_domain real_domain;
fi_ops_fabric real_fabric;
fi_ops_tagged real_tagged;

int register_memory(fid* domain, const fi_mr_attr* attributes, std::uint64_t flags, fid_mr** made) {
  if (attributes->iface != FI_HMEM_CUDA) return real_mr.regattr(domain, attributes, flags, made);
  static fi_ops ops = [] {
    fi_ops o{};
    o.size = sizeof o;
    o.close = close_registration;
    return o;
  }();
  const iovec& range = *attributes->mr_iov;
  const sinew::Place place = sinew::fake::Device().place_of(range.iov_base);
  if (place.kind != sinew::MemoryKind::Device || place.device != attributes->device.cuda) return -FI_EINVAL;
  try {
    static_cast<void>(sinew::fake::bytes_of(range.iov_base, range.iov_len));
  } catch (const std::exception&) {
    return -FI_EINVAL;
  }
  auto registration = std::make_unique<Registration>();
  registration->handle.fid.fclass = FI_CLASS_MR;
  registration->handle.fid.ops = &ops;
  registration->handle.mem_desc = registration.get();
  registration->first = static_cast<const std::byte*>(range.iov_base);
  registration->bytes = range.iov_len;
  ++registrations;
  *made = &registration.release()->handle;
  return 0;
}

/// Where the provider underneath finds the message. Null: device memory that is not registered.
void* memory_of(const void* buffer, std::size_t bytes, void*& descriptor) {
  if (bytes == 0 || !is_device_memory(buffer)) return const_cast<void*>(buffer);
  const auto* registration = static_cast<const Registration*>(std::exchange(descriptor, nullptr));
  const auto* at = static_cast<const std::byte*>(buffer);
  if (registration == nullptr || at < registration->first || at + bytes > registration->first + registration->bytes)
    return nullptr;
  return sinew::fake::bytes_of(buffer, bytes);
}

ssize_t send_tagged(fid_ep* ep, const void* buffer, std::size_t bytes, void* descriptor, fi_addr_t to,
                    std::uint64_t tag, void* context) {
  void* at = memory_of(buffer, bytes, descriptor);
  return at == nullptr && bytes != 0 ? -FI_EFAULT : real_tagged.send(ep, at, bytes, descriptor, to, tag, context);
}

ssize_t receive_tagged(fid_ep* ep, void* buffer, std::size_t bytes, void* descriptor, fi_addr_t from, std::uint64_t tag,
                       std::uint64_t ignore, void* context) {
  void* at = memory_of(buffer, bytes, descriptor);
  return at == nullptr && bytes != 0 ? -FI_EFAULT
                                     : real_tagged.recv(ep, at, bytes, descriptor, from, tag, ignore, context);
}

/// Puts `own` in place of the table of an object, which is the same one for all objects of the provider underneath.
template <class Ops>
void replace(Ops*& table, Ops& real, Ops& own, void (*change)(Ops&)) {
  static std::once_flag made;
  std::call_once(made, [&] {
    real = *table;
    own = real;
    change(own);
  });
  table = &own;
}

int open_endpoint(fid_domain* domain, fi_info* info, fid_ep** made, void* context) {
  static fi_ops_tagged own;
  const Info asked = without_device_memory(info);
  if (const int failed = real_domain.endpoint(domain, asked.get(), made, context)) return failed;
  replace<fi_ops_tagged>((*made)->tagged, real_tagged, own, [](fi_ops_tagged& t) {
    t.send = send_tagged;
    t.recv = receive_tagged;
  });
  return 0;
}

int open_domain(fid_fabric* fabric, fi_info* info, fid_domain** made, void* context) {
  static fi_ops_domain own;
  static fi_ops_mr own_mr;
  const Info asked = without_device_memory(info);
  if (const int failed = real_fabric.domain(fabric, asked.get(), made, context)) return failed;
  replace<fi_ops_domain>((*made)->ops, real_domain, own, [](fi_ops_domain& d) { d.endpoint = open_endpoint; });
  replace<fi_ops_mr>((*made)->mr, real_mr, own_mr, [](fi_ops_mr& m) { m.regattr = register_memory; });
  return 0;
}

int open_fabric(fi_fabric_attr* attributes, fid_fabric** made, void* context) {
  static fi_ops_fabric own;
  fi_fabric_attr asked = *attributes;
  asked.prov_name = const_cast<char*>(kUnderneath);
  if (const int failed = fi_fabric(&asked, made, context)) return failed;
  replace<fi_ops_fabric>((*made)->ops, real_fabric, own, [](fi_ops_fabric& f) { f.domain = open_domain; });
  return 0;
}

/// libfabric gives the answers this provider's name.
int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
             fi_info** found) {
  const bool wants_devices = hints != nullptr && (hints->caps & FI_HMEM) != 0;
  if (wants_devices && (hints->domain_attr->mr_mode & FI_MR_HMEM) == 0) return -FI_ENODATA;
  const Info asked = without_device_memory(hints);
  if (const int failed = fi_getinfo(version, node, service, flags, asked.get(), found)) return failed;
  for (fi_info* i = *found; i != nullptr; i = i->next) {
    rename_to(*i, nullptr);
    if (!wants_devices) continue;
    i->caps |= FI_HMEM;
    i->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  return 0;
}

fi_provider provider = [] {
  fi_provider p{};
  p.version = FI_VERSION(1, 0);
  p.fi_version = FI_VERSION(1, 17);
  p.name = kName;
  p.getinfo = get_info;
  p.fabric = open_fabric;
  p.cleanup = [] {};
  return p;
}();

}  // namespace

extern "C" {

__attribute__((visibility("default"))) fi_provider* fi_prov_ini() { return &provider; }

/// Registrations of device memory that were not closed.
__attribute__((visibility("default"))) int fake_hmem_registrations() { return registrations; }
}
