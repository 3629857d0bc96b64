#include <sys/stat.h>

#include <fstream>

#include <fmt/format.h>

#include <sinew/collectives/launch/bootstrap_record.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/reachable_addresses.hpp>
#include <sinew/core/net/secret.hpp>

namespace sinew {
namespace {

/// Where abstract sockets of one name are one socket.
std::string this_network() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  struct stat space {};
  if (::stat("/proc/self/ns/net", &space) != 0) throw_errno("reading this process's network namespace");
  return fmt::format("{}/{}", boot, space.st_ino);
}

}  // namespace

Bytes BootstrapRecord::encode() const {
  return WireWriter().text(network).text(unix_address).text(tcp_addresses).bytes(secret).take();
}

BootstrapRecord BootstrapRecord::decode(std::span<const std::byte> bytes) {
  WireReader reader(bytes);
  BootstrapRecord record;
  record.network = reader.text();
  record.unix_address = reader.text();
  record.tcp_addresses = reader.text();
  record.secret = reader.owned_bytes();
  return record;
}

Hosting host_bootstrap(const SocketAddress& place, int ranks, bool several_hosts, const Config& config) {
  const Bytes secret = config.secret_file.empty() ? random_secret() : secret_from_file(config.secret_file);
  Hosting h{std::make_shared<HostedStore>(ranks, secret, config), {this_network(), place.text(), {}, {}}};
  h.store->listen(listen_on(place));
  if (several_hosts) {
    Listener tcp = listen_everywhere(0, config.ports);
    const auto reachable = reachable_addresses(config.interface, tcp.address.port());
    h.record.tcp_addresses = format_addresses(reachable);
    h.record.secret = secret;
    h.store->listen(std::move(tcp));
  }
  h.store->start();
  return h;
}

void follow(const BootstrapRecord& record, Bootstrap& bootstrap) {
  bootstrap.secret = record.secret;
  if (record.network == this_network()) {
    bootstrap.addresses = {SocketAddress::parse(record.unix_address)};
  } else if (!record.tcp_addresses.empty()) {
    bootstrap.addresses = parse_addresses(record.tcp_addresses);
  } else {
    throw Error(
        Code::Unavailable,
        fmt::format("the launcher says that all ranks are on one host, but rank {} does not share rank 0's network "
                    "namespace",
                    bootstrap.rank));
  }
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const std::string_view digits = text.substr(i, 2);
    const auto value = parse_number<unsigned>(digits, 16);
    if (digits.size() != 2 || !value) {
      throw Error(Code::Mismatch, fmt::format("a text of {} characters is not hexadecimal", text.size()));
    }
    bytes.push_back(static_cast<std::byte>(*value));
  }
  return bytes;
}

}  // namespace sinew
