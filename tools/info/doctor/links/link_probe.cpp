#include "link_probe.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/net/dialer.hpp>

#include "link_server.hpp"
#include "timed_socket.hpp"

namespace sinew::doctor {
namespace {

constexpr auto kToConnect = std::chrono::seconds(2);
constexpr auto kToAnswer = std::chrono::seconds(2);
constexpr auto kToAnswerShorter = std::chrono::seconds(1);
constexpr int kRoundTrips = 16;
/// More than the packets that the kernel sends without hearing from the other side.
constexpr std::uint64_t kFullPackets = std::uint64_t{64} << 10;
constexpr std::uint64_t kLongest = std::uint64_t{16} << 20;
constexpr double kLongEnough_s = 0.025;
constexpr std::uint64_t kStep = 4;

/// Packets that are tried, where shorter than the interface's, when those are lost: what every path carries, IPv6's
/// least, through PPPoE, WireGuard and VXLAN, and Ethernet's.
constexpr std::array kPackets{576, 1280, 1400, 1420, 1450, 1500};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// An authenticated connection. Errors: Error{Unavailable}, with `error` set where no connection could be made.
TimedSocket connected(const Link& link, const LinkTarget& target, int segment_bytes, int& error) {
  const auto give_up = [&error](const Dialer::Failure& failure) {
    if (failure.stage == Dialer::Stage::Connecting) error = failure.error;
    std::string why = failure.text;
    if (failure.error != 0) why = std::generic_category().message(failure.error);
    if (failure.stage != Dialer::Stage::Connecting && failure.error == ETIMEDOUT) why = "no answer in time";
    return Dialer::Next{.end = Status(Code::Unavailable, why)};
  };
  error = 0;
  return TimedSocket(dial({.paths = {{link.to.address.with_port(target.port), link.from.address, segment_bytes}},
                           .keys = {target.secret, nullptr},
                           .claim = target.claim,
                           .connect_within = kToConnect,
                           .authenticate_within = kToAnswer},
                          give_up)
                         .first);
}

/// Seconds until the other side has taken so many bytes and said so.
double request(TimedSocket& socket, std::uint64_t bytes, Duration patience = kToAnswer) {
  static const std::vector<std::byte> zeros(kLongest);
  const auto start = Clock::now();
  const Deadline deadline = Deadline::after(patience);
  std::byte taken{};
  socket.send(std::as_bytes(std::span(&bytes, 1)), deadline);
  socket.send(std::span(zeros).first(bytes), deadline);
  socket.receive(std::span(&taken, 1), deadline);
  return seconds_since(start);
}

double fastest_round_trip(TimedSocket& socket) {
  double fastest = std::numeric_limits<double>::max();
  for (int i = 0; i < kRoundTrips; ++i) fastest = std::min(fastest, request(socket, 0));
  return fastest;
}

/// Sends ever more until it takes long enough to count; what has been found when that ends early stays found.
void measure(TimedSocket& socket, LinkResult& result) {
  result.round_trip_s = fastest_round_trip(socket);
  result.state = LinkState::SmallOnly;
  double seconds = 0;
  for (std::uint64_t bytes = kFullPackets; bytes <= kLongest && seconds < kLongEnough_s; bytes *= kStep) {
    seconds = request(socket, bytes);
    result.state = LinkState::Carries;
    result.bytes_per_s = static_cast<double>(bytes) / seconds;
  }
}

/// Do full packets arrive where none is longer than this?
bool arrive(const Link& link, const LinkTarget& target, int packet) {
  const int headers = link.to.address.family() == AF_INET6 ? 60 : 40;
  int error = 0;
  try {
    TimedSocket socket = connected(link, target, packet - headers, error);
    static_cast<void>(request(socket, kFullPackets, kToAnswerShorter));
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The longest of kPackets that arrive; 0: none of them. The shortest first: what arrives does so at once, and only the
/// first loss is waited for.
std::uint32_t longest_packets(const Link& link, const LinkTarget& target) {
  std::uint32_t longest = 0;
  for (const int packet : kPackets) {
    const auto bytes = static_cast<std::uint32_t>(packet);
    if (link.from.mtu_bytes != 0 && bytes >= link.from.mtu_bytes) break;
    if (!arrive(link, target, packet)) break;
    longest = bytes;
  }
  return longest;
}

}  // namespace

std::string_view name_of(LinkState state) noexcept {
  switch (state) {
    case LinkState::Unreachable: return "unreachable";
    case LinkState::SmallOnly: return "small_only";
    case LinkState::Carries: return "carries";
  }
  return "?";
}

LinkResult probe_link(const Link& link, const LinkTarget& target) {
  LinkResult result{.link = link};
  try {
    TimedSocket socket = connected(link, target, 0, result.error);
    measure(socket, result);
  } catch (const Error& e) {
    result.why = e.what();
  }
  if (result.state == LinkState::SmallOnly) result.passing_bytes = longest_packets(link, target);
  return result;
}

void add_try(LinkResult& result, const LinkResult& again) {
  result.tries += again.tries;
  if (again.state != LinkState::Carries) return;
  result.round_trip_s = std::min(result.round_trip_s, again.round_trip_s);
  result.bytes_per_s = std::max(result.bytes_per_s, again.bytes_per_s);
}

void write(WireWriter& to, const LinkResult& r) {
  to.value(r.from_host).value(r.to_host);
  write(to, r.link.from);
  write(to, r.link.to);
  to.value(r.link.routed).value(r.state).value(r.error).text(r.why);
  to.value(r.round_trip_s).value(r.bytes_per_s).value(r.tries).value(r.passing_bytes);
}

LinkResult read_link_result(WireReader& from) {
  LinkResult r;
  r.from_host = from.value<int>();
  r.to_host = from.value<int>();
  r.link.from = read_address(from);
  r.link.to = read_address(from);
  r.link.routed = from.value<bool>();
  r.state = from.value<LinkState>();
  r.error = from.value<int>();
  r.why = from.text();
  r.round_trip_s = from.value<double>();
  r.bytes_per_s = from.value<double>();
  r.tries = from.value<int>();
  r.passing_bytes = from.value<std::uint32_t>();
  return r;
}

}  // namespace sinew::doctor
