// A provider of libfabric, "fakehmem", that takes memory of the fake devices. libfabric finds it by FI_PROVIDER_PATH.
// It is tcp;ofi_rxm with FI_HMEM. It is strict: device memory must have been registered for the device that it lies on,
// and a registration covers its own range only.
#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "fakes/fake_device.hpp"
#include "layered_provider.hpp"

namespace {

constexpr const char* kName = "fakehmem";
using sinew::fake::Info;
using sinew::fake::rename_to;
using sinew::fake::replace;

/// Returns the question to the provider underneath.
Info without_device_memory(const fi_info* hints) {
  Info copy = sinew::fake::question_underneath(hints);
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

fi_ops_tagged real_tagged;

int register_device_memory(const fi_mr_attr& attributes, fid_mr** made) {
  static fi_ops ops = [] {
    fi_ops o{};
    o.size = sizeof o;
    o.close = close_registration;
    return o;
  }();
  const iovec& range = *attributes.mr_iov;
  const sinew::Place place = sinew::fake::Device().place_of(range.iov_base);
  if (place.kind != sinew::MemoryKind::Device || place.device != attributes.device.cuda) return -FI_EINVAL;
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

struct FakeHmem {
  static Info question(const fi_info* hints) { return without_device_memory(hints); }
  static int register_memory(fid* domain, const fi_mr_attr* attributes, std::uint64_t flags, fid_mr** made) {
    if (attributes->iface != FI_HMEM_CUDA)
      return sinew::fake::Layer<FakeHmem>::real_mr.regattr(domain, attributes, flags, made);
    return register_device_memory(*attributes, made);
  }
  static void change_endpoint(fid_ep& ep) {
    static fi_ops_tagged own;
    replace<fi_ops_tagged>(ep.tagged, real_tagged, own, [](fi_ops_tagged& t) {
      t.send = send_tagged;
      t.recv = receive_tagged;
    });
  }
};

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

fi_provider provider = sinew::fake::Layer<FakeHmem>::provider(kName, get_info);

}  // namespace

extern "C" {

__attribute__((visibility("default"))) fi_provider* fi_prov_ini() { return &provider; }

/// Registrations of device memory that were not closed.
__attribute__((visibility("default"))) int fake_hmem_registrations() { return registrations; }
}
