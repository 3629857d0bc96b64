#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/collectives/launch/bootstrap.hpp>
#include <sinew/collectives/launch/members.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

void require_member_secret(const Bytes& secret) {
  constexpr std::size_t kLeastBytes = 16;
  if (secret.size() < kLeastBytes)
    throw Error(Code::InvalidArgument,
                fmt::format("the secret of members has {} bytes, expected at least {}", secret.size(), kLeastBytes));
}

/// The number of the store at its port. Its highest bit is set, so that it is none of the stores of jobs.
std::uint64_t number_of_members(const std::string& name) { return store_number(name) | std::uint64_t{1} << 63; }

std::vector<SocketAddress> addresses_of(const std::string& store) {
  const std::size_t colon = store.rfind(':');
  std::uint16_t port = 0;
  const bool has_port =
      colon != std::string::npos && colon > 0 &&
      std::from_chars(store.data() + colon + 1, store.data() + store.size(), port).ptr == store.data() + store.size() &&
      port > 0;
  if (!has_port)
    throw Error(Code::InvalidArgument, fmt::format("the store of members is at '{}', expected host:port", store));
  std::string host = store.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return SocketAddress::resolve(host, port);
}

}  // namespace

MemberStore::MemberStore(const std::string& name, int members, const Bytes& secret, std::uint16_t port,
                         const Config& config) {
  require_member_secret(secret);
  store_ = std::make_unique<HostedStore>(members, secret, config);
  port_ = store_->serve(number_of_members(name), port);
}
MemberStore::~MemberStore() = default;

Exchange exchange_of_members(const Members& members, const Config& config) {
  require_member_secret(members.secret);
  const auto self = std::ranges::find(members.list, members.self);
  if (std::ranges::count(members.list, members.self) != 1)
    throw Error(Code::InvalidArgument,
                fmt::format("'{}' is {} times in the list of members [{}], expected once", members.self,
                            std::ranges::count(members.list, members.self), fmt::join(members.list, ", ")));
  Bootstrap bootstrap{.rank = static_cast<int>(self - members.list.begin()),
                      .ranks = static_cast<int>(members.list.size()),
                      .addresses = addresses_of(members.store),
                      .secret = members.secret,
                      .group = members.name,
                      .store = number_of_members(members.name)};
  return join(bootstrap, nullptr, config).exchange;
}

}  // namespace sinew
