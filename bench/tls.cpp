// What TLS costs tcp: two ranks sum over tcp in a World with it and in one without, in turns. Run by sinew-run -n 2.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/table.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/proof.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"

namespace {

using namespace sinew;

struct Size {
  const char* name;
  std::uint64_t bytes;
  int rounds;
};
constexpr std::array kSizes = {Size{"8B", 8, 2001}, Size{"64KiB", 64 << 10, 501}, Size{"64MiB", 64 << 20, 15}};

double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

World world_over_tcp(const TlsFiles& tls) {
  WorldOptions options;
  options.config.transports = {"tcp"};
  options.config.tls = tls;
  return World::from_environment(std::move(options));
}

/// Median seconds of an all_reduce, in a plain World and in one under TLS.
std::pair<double, double> both_ways(const Size& size, World& plain, World& secured) {
  std::vector<float> v(size.bytes / sizeof(float), 1.0F);
  std::vector<double> without, with;
  for (int i = -2; i < size.rounds; ++i) {
    const auto sum = [&v](World& w) { return seconds_of([&] { w.communicator().all_reduce(v, v).get(); }); };
    const double a = sum(plain);
    const double b = sum(secured);
    if (i < 0) continue;
    without.push_back(a);
    with.push_back(b);
  }
  return {median(without), median(with)};
}

/// Seconds of this core for both ends of one handshake, proofs of the secret included.
double handshake(const TlsFiles& files) {
  const auto tls = TlsContext::open(files);
  constexpr AuthClaim kClaim{.service = 1};
  const Bytes secret(32, std::byte{1});
  std::vector<double> times;
  for (int i = 0; i < 101; ++i) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) throw_errno("sockets");
    times.push_back(seconds_of([&] {
      Socket a(FileDescriptor{ends[0]}, Socket::End::Connects, tls);
      Socket b(FileDescriptor{ends[1]}, Socket::End::Accepts, tls);
      Authentication asks = Authentication::connector(secret, kClaim);
      Authentication accepts = Authentication::acceptor(secret, kClaim);
      while (pump(b, accepts) != Proof::Proven) {
        if (pump(a, asks) == Proof::Refused) throw Error(Code::Mismatch, asks.reason());
      }
    }));
  }
  return median(times);
}

}  // namespace

int main(int argc, char** argv) {
  bench::CommandLine command("Compares sums over tcp under TLS and without, in turns; sinew-run -n 2 starts it.");
  TlsFiles tls{.wanted = true};
  std::string json;
  command.option("--certificate", tls.certificate, "PEM file of both ranks").required();
  command.option("--key", tls.key, "its private key, PEM").required();
  command.option("--ca", tls.authority, "the authority's certificate, PEM").required();
  command.option("--json", json, "file for one line of JSON");
  command.parse(argc, argv);
  try {
    World plain = world_over_tcp({});
    World secured = world_over_tcp(tls);
    const Table table({{.name = "size", .align = Align::Right, .width = 6},
                       {.name = "plain", .below = "(us)", .align = Align::Right, .width = 10},
                       {.name = "TLS", .below = "(us)", .align = Align::Right, .width = 10},
                       {.name = "times", .align = Align::Right, .width = 6}});
    if (plain.rank() == 0) fmt::print("{}", table.heading());
    std::string row;
    for (const Size& s : kSizes) {
      const auto [without, with] = both_ways(s, plain, secured);
      if (plain.rank() != 0) continue;
      fmt::print("{}", table.row({s.name, fmt::format("{:.2f}", without * 1e6), fmt::format("{:.2f}", with * 1e6),
                                  fmt::format("{:.2f}", with / without)}));
      row +=
          fmt::format(R"("{}":{},)", s.name, json_object({{"plain_us", without * 1e6, 3}, {"tls_us", with * 1e6, 3}}));
    }
    if (plain.rank() != 0) return 0;
    const double proof = handshake(tls);
    fmt::print("both ends of a handshake: {:.2f} ms of one core\n", proof * 1e3);
    if (!json.empty()) std::ofstream(json) << fmt::format(R"({{{}"handshake_ms":{:.3f}}})", row, proof * 1e3) << '\n';
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "tls_cost: {}\n", e.what());
    return e.code() == Code::InvalidArgument ? 2 : 1;
  }
}
