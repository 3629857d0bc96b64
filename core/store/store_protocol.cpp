#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/net/framed_stream.hpp>
#include <sinew/core/store/store_protocol.hpp>

namespace sinew {
namespace {

constexpr std::uint64_t kWelcomeMagic = 0x31755f77656e6973;  // "sinew_u1"

void require_version(WireReader& reader) {
  if (const auto version = reader.value<std::uint32_t>(); version != kStoreProtocolVersion) {
    throw Error(Code::Mismatch, fmt::format("store: a client speaks version {} of its protocol, the server version {}",
                                            version, kStoreProtocolVersion));
  }
}

}  // namespace

Bytes StoreIdentity::encode() const {
  return WireWriter().value(kStoreProtocolVersion).text(group).value(rank).value(ranks).value(pid).text(host).take();
}

StoreIdentity StoreIdentity::decode(std::span<const std::byte> fields) {
  WireReader reader(fields);
  require_version(reader);
  StoreIdentity id;
  id.group = reader.text();
  id.rank = reader.value<int>();
  id.ranks = reader.value<int>();
  id.pid = reader.value<int>();
  id.host = reader.text();
  return id;
}

Bytes StoreWelcome::encode() const {
  return WireWriter().value(kWelcomeMagic).value(host).value(pid).bytes(secret).text(elsewhere).value(rank).take();
}

StoreWelcome StoreWelcome::decode(std::span<const std::byte> fields) {
  WireReader reader(fields);
  if (reader.value<std::uint64_t>() != kWelcomeMagic) {
    throw Error(Code::Mismatch,
                "the process that listens there is no sinew job, or of another version of sinew: install the same "
                "version for all ranks");
  }
  StoreWelcome w;
  w.host = reader.value<StoreHost>();
  w.pid = reader.value<int>();
  w.secret = reader.owned_bytes();
  w.elsewhere = reader.text();
  if (reader.left() > 0) w.rank = reader.value<int>();  // servers without relays do not send it
  return w;
}

std::string RelayIntroduction::name() const {
  const std::string who = rank < 0 ? "sinew-run" : fmt::format("rank {}", rank);
  return fmt::format("{} (process {} on host {})", who, pid, host);
}

Bytes RelayIntroduction::encode() const {
  WireWriter out;
  out.value(kStoreProtocolVersion)
      .text(host)
      .value(pid)
      .value(rank)
      .text(addresses)
      .value(instance)
      .value(number)
      .value(unreachable);
  return out.take();
}

RelayIntroduction RelayIntroduction::decode(std::span<const std::byte> fields) {
  WireReader reader(fields);
  require_version(reader);
  RelayIntroduction relay;
  relay.host = reader.text();
  relay.pid = reader.value<int>();
  relay.rank = reader.value<int>();
  relay.addresses = reader.text();
  relay.instance = reader.value<std::uint64_t>();
  relay.number = reader.value<int>();
  relay.unreachable = reader.value<int>();
  return relay;
}

Bytes RelayParent::encode() const {
  return WireWriter().value(number).value(parent).text(addresses).value(instance).text(name).value(rank).take();
}

RelayParent RelayParent::decode(std::span<const std::byte> fields) {
  WireReader reader(fields);
  RelayParent place;
  place.number = reader.value<int>();
  place.parent = reader.value<int>();
  place.addresses = reader.text();
  place.instance = reader.value<std::uint64_t>();
  place.name = reader.text();
  place.rank = reader.value<int>();
  return place;
}

Bytes encode_status(const Status& status) {
  return WireWriter().value(status.code()).value(status.rank()).text(status.message()).take();
}

Status decode_status(std::span<const std::byte> fields) {
  WireReader reader(fields);
  const auto code = reader.value<Code>();
  const auto rank = reader.value<int>();
  return {code, reader.text(), rank};
}

std::shared_ptr<const Bytes> framed_reply(const Status& status) { return FramedStream::frame(encode_status(status)); }

std::shared_ptr<const Bytes> framed_reply(const Bytes& fields) {
  return FramedStream::frame(WireWriter().value(Code::Ok).value(-1).rest(fields).take());
}

}  // namespace sinew
