// tun_relay: joins two network namespaces by a TUN device in each, and does to the packets between them what a long way
// does: delay, loss, a limited rate. Linux has netem for this, but not every kernel is built with it.
//
//   tun_relay NAMESPACE=ADDRESS NAMESPACE=ADDRESS [--delay-ms 5] [--loss 0.01] [--rate-mbit 100] [--queue-ms 50]
//             [--seed 1] [--mtu 1500] [--device link0]
//
// Delay, loss and rate are those of each direction. The first line of its output says what the relay itself can carry
// without any of them, measured by one TCP connection. The way is ready once this line is there. SIGTERM ends the
// relay, and it then prints what it has moved and dropped. Exit code 77, with the reason: there is no /dev/net/tun
// here.
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

#include "hosts/relay/line.hpp"
#include "hosts/relay/relay.hpp"
#include "hosts/relay/tun_device.hpp"

namespace sinew::test {
namespace {

using Timer = std::chrono::steady_clock;

constexpr auto kMeasured = std::chrono::milliseconds(500);

struct Wanted {
  std::vector<RelayHost> hosts;
  LineOptions line;
  int mtu = 1500;
  std::string device = "link0";
};

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "tun_relay: %s\n", why.c_str());
  std::exit(2);
}

double number(const char* name, const char* text, double most) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != 0 || !(value >= 0 && value <= most)) {
    refuse(fmt::format("--{} {}: expected a number from 0 to {}", name, text, most));
  }
  return value;
}

std::chrono::nanoseconds milliseconds(double count) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double, std::milli>(count));
}

Wanted read_arguments(int count, char** arguments) {
  constexpr double kMost = 1e9;
  enum Option : int { Delay, Loss, Rate, Queue, Seed, Mtu, Device };
  const option options[] = {
      {"delay-ms", required_argument, nullptr, Delay}, {"loss", required_argument, nullptr, Loss},
      {"rate-mbit", required_argument, nullptr, Rate}, {"queue-ms", required_argument, nullptr, Queue},
      {"seed", required_argument, nullptr, Seed},      {"mtu", required_argument, nullptr, Mtu},
      {"device", required_argument, nullptr, Device},  {}};
  Wanted w;
  for (int chosen = 0, index = 0; (chosen = ::getopt_long(count, arguments, "", options, &index)) != -1;) {
    switch (chosen) {
      case Delay: w.line.delay = milliseconds(number("delay-ms", optarg, kMost)); break;
      case Loss: w.line.loss = number("loss", optarg, 1); break;
      case Rate: w.line.bytes_per_s = number("rate-mbit", optarg, kMost) * 1e6 / 8; break;
      case Queue: w.line.queue = milliseconds(number("queue-ms", optarg, kMost)); break;
      case Seed: w.line.seed = static_cast<std::uint64_t>(number("seed", optarg, kMost)); break;
      case Mtu: w.mtu = static_cast<int>(number("mtu", optarg, 65535)); break;
      case Device: w.device = optarg; break;
      default: std::exit(2);
    }
  }
  for (; optind < count; ++optind) {
    const std::string host = arguments[optind];
    const std::size_t equals = host.find('=');
    if (equals == std::string::npos) refuse(fmt::format("{}: expected NAMESPACE=ADDRESS", host));
    w.hosts.push_back({host.substr(0, equals), host.substr(equals + 1)});
  }
  if (w.hosts.size() != 2) refuse(fmt::format("{} hosts: expected two as NAMESPACE=ADDRESS", w.hosts.size()));
  return w;
}

FileDescriptor socket_in(const RelayHost& host) {
  FileDescriptor made;
  in_namespace(host.network_namespace,
               [&] { made = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); });
  if (!made) throw_errno("opening a socket");
  return made;
}

/// Bytes per second of one TCP connection from the first host to the second, over relays that do nothing to packets.
double measure_limit(const Wanted& wanted, int first, int second) {
  const LineOptions nothing;
  Relay there(first, second, nothing);
  Relay back(second, first, nothing);
  const FileDescriptor listener = socket_in(wanted.hosts[1]);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, wanted.hosts[1].address.c_str(), &address.sin_addr);
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), any, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), any, &length) != 0) {
    throw_errno("listening at " + wanted.hosts[1].address);
  }
  const FileDescriptor sender = socket_in(wanted.hosts[0]);
  if (::connect(sender.get(), any, length) != 0) throw_errno("connecting to " + wanted.hosts[1].address);
  const FileDescriptor receiver(::accept(listener.get(), nullptr, nullptr));
  if (!receiver) throw_errno("accepting a connection");
  std::atomic<bool> over = false;
  std::thread sends([&] {
    const std::vector<std::byte> data(1 << 18);
    while (!over && ::send(sender.get(), data.data(), data.size(), MSG_NOSIGNAL) > 0) {
    }
    ::shutdown(sender.get(), SHUT_WR);
  });
  std::vector<std::byte> data(1 << 18);
  double bytes = 0;
  const auto start = Timer::now();
  double seconds = 0;
  while (seconds < std::chrono::duration<double>(kMeasured).count()) {
    const ssize_t got = ::recv(receiver.get(), data.data(), data.size(), 0);
    if (got <= 0) break;
    bytes += static_cast<double>(got);
    seconds = std::chrono::duration<double>(Timer::now() - start).count();
  }
  over = true;
  while (::recv(receiver.get(), data.data(), data.size(), 0) > 0) {
  }
  sends.join();
  return bytes / seconds;
}

std::string counters(const Line& line) {
  return fmt::format(R"({{"passed":{},"lost":{},"overflowed":{}}})", line.passed(), line.lost(), line.overflowed());
}

void relay(const Wanted& wanted, const sigset_t& ends) {
  const FileDescriptor first = open_tun(wanted.hosts[0], wanted.device, wanted.mtu);
  const FileDescriptor second = open_tun(wanted.hosts[1], wanted.device, wanted.mtu);
  const double limit = measure_limit(wanted, first.get(), second.get());
  LineOptions of_return = wanted.line;
  ++of_return.seed;  // else both directions would lose the same packets
  Relay there(first.get(), second.get(), wanted.line);
  Relay back(second.get(), first.get(), of_return);
  fmt::print("{{\"limit_bytes_per_s\":{:.0f},\"delay_ms\":{},\"loss\":{},\"rate_bytes_per_s\":{:.0f},\"mtu\":{}}}\n",
             limit, std::chrono::duration<double, std::milli>(wanted.line.delay).count(), wanted.line.loss,
             wanted.line.bytes_per_s, wanted.mtu);
  std::fflush(stdout);
  int signal = 0;
  ::sigwait(&ends, &signal);
  there.stop();
  back.stop();
  fmt::print("{{\"there\":{},\"back\":{}}}\n", counters(there.line()), counters(back.line()));
}

}  // namespace
}  // namespace sinew::test

int main(int count, char** arguments) try {
  const sinew::test::Wanted wanted = sinew::test::read_arguments(count, arguments);
  if (::access("/dev/net/tun", R_OK | W_OK) != 0) {
    std::puts("no /dev/net/tun here: the relay between hosts cannot run");
    return 77;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t ends;
  ::sigemptyset(&ends);
  ::sigaddset(&ends, SIGTERM);
  ::sigaddset(&ends, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before there are threads: each inherits it
  sinew::test::relay(wanted, ends);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "tun_relay: %s\n", e.what());
  return 1;
}
