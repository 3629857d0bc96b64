#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/ucx/embedded.hpp>
#include <sinew/transports/ucx/endpoint.hpp>
#include <sinew/transports/ucx/one_sided.hpp>

namespace sinew::ucx {
namespace {

/// What a RemoteKey says.
struct Key {
  std::int32_t rank = -1;
  std::uint64_t process = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  Bytes packed;  // UCX's own

  RemoteKey encode() const {
    WireWriter w;
    w.value(rank).value(process).value(address).value(bytes).bytes(packed);
    return {w.take()};
  }
  static Key decode(const RemoteKey& key) {
    WireReader r(key.bytes);
    Key k;
    k.rank = r.value<std::int32_t>();
    k.process = r.value<std::uint64_t>();
    k.address = r.value<std::uint64_t>();
    k.bytes = r.value<std::uint64_t>();
    k.packed = r.owned_bytes();
    return k;
  }
};

Key checked(const char* call, const RemoteKey& key, std::size_t offset, std::size_t bytes) {
  Key k = Key::decode(key);
  if (offset <= k.bytes && bytes <= k.bytes - offset) return k;
  throw Error(Code::InvalidArgument, fmt::format("{}: offset {} and {} bytes, but rank {} registered {} bytes", call,
                                                 offset, bytes, k.rank, k.bytes));
}

ucs_status_t unpack(ucp_ep_h ep, const Key& key, ucp_rkey_h& out) {
  return ucp_ep_rkey_unpack(ep, key.packed.data(), &out);
}

}  // namespace

Region UcxOneSided::register_memory(Buffer memory) {
  Key key{shared_.self.rank, shared_.self.process, reinterpret_cast<std::uint64_t>(memory.data), memory.bytes, {}};
  if (memory.bytes == 0) return {memory, key.encode(), nullptr};
  const Embedded embedded;
  ucp_mem_map_params_t p{};
  p.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  p.address = memory.data;
  p.length = memory.bytes;
  if (memory.place.kind == MemoryKind::Device) {
    p.field_mask |= UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    p.memory_type = UCS_MEMORY_TYPE_CUDA;
  }
  ucp_mem_h mapped = nullptr;
  const ucp_context_h context = shared_.ucx.context();
  require(ucp_mem_map(context, &p, &mapped), fmt::format("registering {} bytes", memory.bytes));
  std::shared_ptr<const void> hold(mapped, [context](ucp_mem_h m) { ucp_mem_unmap(context, m); });
  void* packed = nullptr;
  std::size_t packed_bytes = 0;
  require(ucp_rkey_pack(context, mapped, &packed, &packed_bytes), "packing the key of registered memory");
  const auto* first = static_cast<const std::byte*>(packed);
  key.packed.assign(first, first + packed_bytes);
  ucp_rkey_buffer_release(packed);
  return {memory, key.encode(), std::move(hold)};
}

void UcxOneSided::get(Endpoint& peer, const RemoteKey& from, std::size_t offset, Buffer to, Completion& done) {
  const Key key = checked("get", from, offset, to.bytes);
  done.bytes = to.bytes;
  static_cast<UcxEndpoint&>(peer).access(done,
                                         [to, key, offset](ucp_ep_h ep, Request& r, const ucp_request_param_t& p) {
                                           if (to.bytes == 0) return ucs_status_ptr_t{};
                                           if (const ucs_status_t s = unpack(ep, key, r.key); s != UCS_OK)
                                             return UCS_STATUS_PTR(s);
                                           ucp_request_param_t q = p;
                                           hint(q, to.place.kind);
                                           return ucp_get_nbx(ep, to.data, to.bytes, key.address + offset, r.key, &q);
                                         });
}

void UcxOneSided::put(Endpoint& peer, ConstBuffer from, const RemoteKey& to, std::size_t offset, Completion& done) {
  const Key key = checked("put", to, offset, from.bytes);
  done.bytes = from.bytes;
  static_cast<UcxEndpoint&>(peer).access(
      done, [this, from, key, offset](ucp_ep_h ep, Request& r, const ucp_request_param_t& p) {
        if (from.bytes == 0) return ucs_status_ptr_t{};
        if (const ucs_status_t s = unpack(ep, key, r.key); s != UCS_OK) return UCS_STATUS_PTR(s);
        Request& bytes_sent = shared_.requests.take(Request::What::Frame);
        ucp_request_param_t q = p;
        q.user_data = &bytes_sent;
        hint(q, from.place.kind);
        const ucs_status_ptr_t put = ucp_put_nbx(ep, from.data, from.bytes, key.address + offset, r.key, &q);
        Requests::returned(bytes_sent, put);
        // `put` alone ends when `from` may be reused; the flush when the bytes have arrived.
        return UCS_PTR_IS_ERR(put) ? put : ucp_ep_flush_nbx(ep, &p);
      });
}

/// UCX gives a pointer where it maps the user's memory (xpmem), or where it is this process's own anyway.
const std::byte* UcxOneSided::map(const RemoteKey& key) {
  const Key k = Key::decode(key);
  if (k.process == shared_.self.process) return reinterpret_cast<const std::byte*>(k.address);
  const Link* link = shared_.links.at(static_cast<std::size_t>(k.rank)).get();
  if (link == nullptr || !link->is_open() || k.bytes == 0) return nullptr;
  ucp_rkey_h rkey = nullptr;
  void* local = nullptr;
  if (unpack(link->ep(), k, rkey) != UCS_OK) return nullptr;
  if (ucp_rkey_ptr(rkey, k.address, &local) != UCS_OK) {
    ucp_rkey_destroy(rkey);
    return nullptr;
  }
  shared_.mapped.push_back(rkey);
  return static_cast<const std::byte*>(local);
}

}  // namespace sinew::ucx
