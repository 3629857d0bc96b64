// tcp against what it is made of: two processes, of this host or (--serve, --join) of two, move the same buffer by a
// bare loop of blocking send and recv calls and by our transport, in turns.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/table.hpp>
#include <sinew/core/config.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/host/cpu.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/runtime/engine.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/topology/format/json/json_object.hpp>
#include <sinew/transports/tcp/tcp.hpp>

#include "command_line.hpp"

namespace {

using namespace sinew;

/// A blocking connection.
class Bare {
 public:
  explicit Bare(FileDescriptor socket) : socket_(std::move(socket)) {
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  void send(const std::byte* at, std::size_t bytes) {
    while (bytes > 0) {
      const ssize_t n = ::send(socket_.get(), at, bytes, MSG_NOSIGNAL);
      if (n <= 0) throw_errno("bare send");
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }
  void recv(std::byte* at, std::size_t bytes) {
    while (bytes > 0) {
      const ssize_t n = ::recv(socket_.get(), at, bytes, 0);
      if (n <= 0) throw_errno("bare recv");
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }

 private:
  FileDescriptor socket_;
};

/// Our transport, with the same two calls.
class Ours {
 public:
  Ours(int rank, Bare& out_of_band) {
    tcp::Options options;
    options.rank = rank;
    options.host_id = host_name();
    options.secret = Bytes(32, std::byte{1});
    transport_ = tcp::make_transport(options);
    const Address mine = transport_->address();
    const std::uint64_t length = mine.size();
    std::uint64_t theirs = 0;
    out_of_band.send(reinterpret_cast<const std::byte*>(&length), sizeof length);
    out_of_band.send(mine.data(), mine.size());
    out_of_band.recv(reinterpret_cast<std::byte*>(&theirs), sizeof theirs);
    Address peer(theirs);
    out_of_band.recv(peer.data(), peer.size());
    peer_ = transport_->connect(peer);
    engine_.add(*transport_);
  }
  void send(const std::byte* at, std::size_t bytes) {
    Operation done;
    peer_->send({at, bytes}, Tag::user(0, 3, 1), 0, done);
    wait(done);
  }
  void recv(std::byte* at, std::size_t bytes) {
    Operation done;
    peer_->recv({{at, bytes}}, Tag::user(0, 3, 1), done);
    wait(done);
  }

 private:
  struct Operation : Completion {
    Operation() : Completion([](Completion& c) noexcept { static_cast<Operation&>(c).fired = true; }) {}
    bool fired = false;
  };
  void wait(Operation& done) {
    if (!engine_.wait([&done] { return done.fired; }, {}, std::chrono::minutes(1))) {
      throw Error(Code::Timeout, "the peer did not answer within a minute");
    }
    done.status.require();
  }

  Engine engine_{usable_cores() >= 2};
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Endpoint> peer_;
};

/// Seconds until the message has gone there and one of 8 bytes has come back.
template <class Way>
double round(Way& way, int rank, std::vector<std::byte>& message) {
  std::byte answer[8]{};
  const auto begin = std::chrono::steady_clock::now();
  if (rank == 0) {
    way.send(message.data(), message.size());
    way.recv(answer, sizeof answer);
  } else {
    way.recv(message.data(), message.size());
    way.send(answer, sizeof answer);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

struct Plan {
  std::uint64_t bytes = 64 << 20;
  int rounds = 21;
  std::string json;
};

void play(int rank, Bare bare, const Plan& plan) {
  Ours ours(rank, bare);
  std::vector<std::byte> message(plan.bytes, std::byte{1});
  std::vector<double> bare_s, ours_s;
  for (int i = -2; i < plan.rounds; ++i) {
    const double b = round(bare, rank, message);
    const double o = round(ours, rank, message);
    if (i < 0) continue;
    bare_s.push_back(b);
    ours_s.push_back(o);
  }
  if (rank != 0) return;
  const double b = median(bare_s);
  const double o = median(ours_s);
  const auto rate = [&plan](double s) { return static_cast<double>(plan.bytes) / s * 1e-9; };
  fmt::print("{} there, 8 bytes back, {} rounds in turns, medians\n", format_bytes(plan.bytes), plan.rounds);
  Table table({{}, {.name = "us", .align = Align::Right}, {.name = "GB/s", .align = Align::Right}}, "  ", "  ");
  table.add({"bare blocking loop", fmt::format("{:.1f}", b * 1e6), fmt::format("{:.2f}", rate(b))});
  table.add({"tcp transport", fmt::format("{:.1f}", o * 1e6), fmt::format("{:.2f}", rate(o))});
  fmt::print("{}  ratio {:.3f}\n", table.text(), b / o);
  if (plan.json.empty()) return;
  std::ofstream(plan.json) << json_object({{"bytes", plan.bytes},
                                           {"rounds", plan.rounds},
                                           {"bare_us", b * 1e6, 3},
                                           {"tcp_us", o * 1e6, 3},
                                           {"ratio", b / o, 4}})
                           << '\n';
}

FileDescriptor accept_one(const Listener& listener) {
  FileDescriptor socket(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) throw_errno("accepting the other process");
  return socket;
}

FileDescriptor connect_to(const SocketAddress& address) {
  const auto patience = Deadline::after(std::chrono::seconds(10));
  for (;;) {
    auto [socket, error] = try_connect({address}, patience);
    if (error == ECONNREFUSED && !patience.passed()) continue;
    if (error != 0) throw_errno("connecting to " + address.text(), error);
    ::fcntl(socket.get(), F_SETFL, 0);
    return std::move(socket);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::CommandLine command(
      "Compares the tcp transport with a bare blocking send/recv loop, on loopback or between two processes.");
  Plan plan;
  std::string bytes = "64MiB", serve, join;
  command.option("--bytes", bytes, "message size, as 8 or 64MiB");
  command.option("--rounds", plan.rounds, "rounds of each, in turns", bench::kPositive);
  command.option("--json", plan.json, "file for one line of JSON");
  command.option("--serve", serve, "be one side, which listens at this ADDRESS:PORT");
  command.option("--join", join, "be the other side, of that address");
  command.parse(argc, argv);
  try {
    plan.bytes = parse_bytes(bytes);
    if (!join.empty()) {
      play(1, Bare(connect_to(SocketAddress::parse(join))), plan);
      return 0;
    }
    Listener listener = listen_on(SocketAddress::parse(serve.empty() ? "127.0.0.1:0" : serve));
    ::fcntl(listener.socket.get(), F_SETFL, 0);
    if (!serve.empty()) {
      play(0, Bare(accept_one(listener)), plan);
      return 0;
    }
    const pid_t child = ::fork();
    if (child < 0) throw_errno("fork");
    if (child == 0) {
      play(1, Bare(connect_to(listener.address)), plan);
      ::_exit(0);
    }
    play(0, Bare(accept_one(listener)), plan);
    int status = 0;
    ::waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
  } catch (const Error& e) {
    fmt::print(stderr, "tcp_loop: {}\n", e.what());
    return e.code() == Code::InvalidArgument ? 2 : 1;
  }
}
