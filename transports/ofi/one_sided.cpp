#include <memory>

#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/transports/ofi/endpoint.hpp>
#include <sinew/transports/ofi/one_sided.hpp>

namespace sinew::ofi {
namespace {

constexpr std::uint64_t kAccess = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t kKeyMagic = 0x31'6b'66'6f'77'65'6e'73;  // "snewofk1"

/// What a RemoteKey says.
struct Place {
  std::uint64_t key = 0;
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
};

RemoteKey encode(const Place& p) {
  return {WireWriter().value(kKeyMagic).value(p.key).value(p.base).value(p.bytes).take()};
}

Place decode(const RemoteKey& key) {
  WireReader r(key.bytes);
  if (key.bytes.size() < sizeof kKeyMagic || r.value<std::uint64_t>() != kKeyMagic) {
    throw Error(Code::InvalidArgument,
                fmt::format("key: {} bytes that are not the key of memory registered with ofi", key.bytes.size()));
  }
  Place p;
  p.key = r.value<std::uint64_t>();
  p.base = r.value<std::uint64_t>();
  p.bytes = r.value<std::uint64_t>();
  return p;
}

}  // namespace

Region RemoteMemory::register_memory(Buffer memory) {
  if (memory.bytes == 0) return {memory, encode({}), nullptr};
  auto registered =
      std::make_shared<const Registered>(shared_.rail.register_memory(memory.data, memory.bytes, kAccess));
  const Place place{fi_mr_key(registered->region.get()),
                    shared_.rail.uses_addresses() ? reinterpret_cast<std::uintptr_t>(memory.data) : 0, memory.bytes};
  return {memory, encode(place), std::move(registered)};
}

void RemoteMemory::get(Endpoint& peer, const RemoteKey& from, std::size_t offset, Buffer to, Completion& done) {
  access(Way::Get, peer, from, offset, to, done);
}

void RemoteMemory::put(Endpoint& peer, ConstBuffer from, const RemoteKey& to, std::size_t offset, Completion& done) {
  const Buffer local{const_cast<std::byte*>(from.data), from.bytes, from.place};  // only read
  access(Way::Put, peer, to, offset, local, done);
}

void RemoteMemory::access(Way way, Endpoint& peer, const RemoteKey& key, std::size_t offset, Buffer local,
                          Completion& done) {
  const Place place = decode(key);
  if (offset > place.bytes || local.bytes > place.bytes - offset) {
    throw Error(Code::InvalidArgument,
                fmt::format("offset: {} bytes at {} of a remote region of {} bytes", local.bytes, offset, place.bytes));
  }
  static_cast<OfiEndpoint&>(peer).access(way, local, place.base + offset, place.key, done);
}

}  // namespace sinew::ofi
