#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/core/net/socket.hpp>
#include <sinew/core/net/stream_socket.hpp>
#include <sinew/core/store/store_protocol.hpp>
#include <sinew/topology/format/json/json_object.hpp>

#include "command_line.hpp"

// Two ranks act as if each ran on a host of its own. They sum over tcp while unauthenticated connections come to their
// ports, which serve store, control and tcp. Windows with such connections take turns with windows without them, and with
// windows in which the same connections go to a socket of their own process. The latter tell what connecting itself costs
// on the cores that the ranks share. bench/scorecard/hostile.sh judges.
namespace {

using namespace sinew;
using std::chrono::milliseconds;

constexpr int kRanks = 2;
constexpr std::size_t kElements = 16384;
constexpr auto kWindow = milliseconds(1000);
constexpr std::size_t kHeld = 200;  // connections of strangers that are open at a time

/// What the ranks and whoever attacks them see of each other.
struct Board {
  std::atomic<long> calls{0};
  std::atomic<long> wrong{0};
  std::atomic<bool> stop{false};
};

/// Sums until rank 0 has seen that it shall stop, which the sum tells the other.
int run_rank(Board& board, int rank, const std::string& address, const std::string& secret) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::map<std::string, std::string> variables = {{"RANK", std::to_string(rank)},
                                                        {"WORLD_SIZE", std::to_string(kRanks)},
                                                        {"LOCAL_RANK", "0"},
                                                        {"LOCAL_WORLD_SIZE", "1"},
                                                        {"MASTER_ADDR", address},
                                                        {"MASTER_PORT", std::to_string(20000 + ::getppid() % 10000)},
                                                        {"SINEW_TRANSPORTS", "tcp"},
                                                        {"SINEW_HOST_ID", "host-" + std::to_string(rank)},
                                                        {"SINEW_SECRET_FILE", secret}};
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  World world = World::from_environment();
  std::vector<float> data(kElements);
  for (long call = 0;; ++call) {
    const auto value = static_cast<float>(call % 1000 + rank);
    std::ranges::fill(data, value);
    data[0] = rank == 0 && board.stop ? 1.0F : 0.0F;
    world.communicator().all_reduce(std::span(data)).get();
    const float sum = static_cast<float>(kRanks * (call % 1000) + kRanks * (kRanks - 1) / 2);
    if (!std::all_of(data.begin() + 1, data.end(), [sum](float x) { return x == sum; })) ++board.wrong;
    if (data[0] != 0) return 0;
    if (rank == 0) ++board.calls;
  }
}

/// The ports that a process listens on.
std::set<std::uint16_t> ports_of(pid_t process) {
  std::set<std::string> sockets;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(fd.path(), gone).string();
    if (target.starts_with("socket:[")) sockets.insert(target.substr(8, target.size() - 9));
  }
  std::set<std::uint16_t> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::array<std::string, 10> f;
      for (std::string& field : f) fields >> field;
      if (f[3] != "0A" || !sockets.contains(f[9])) continue;  // listening
      ports.insert(static_cast<std::uint16_t>(std::stoul(f[1].substr(f[1].rfind(':') + 1), nullptr, 16)));
    }
  }
  return ports;
}

long resident_bytes(pid_t process) {
  std::ifstream statm("/proc/" + std::to_string(process) + "/statm");
  long all = 0;
  long resident = 0;
  statm >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

/// Connections of people who do not know the secret.
class Strangers {
 public:
  Strangers(std::vector<SocketAddress> targets, const std::string& secret_file) : targets_(std::move(targets)) {
    const auto tls = TlsContext::open(Config::from_environment().tls);
    heard_ = tls ? tls_hello(tls) : conversation(secret_from_file(secret_file));
  }

  /// One more; each in its turn: noise, half a handshake, a replayed one, a huge announcement, one byte now and then.
  void connect() {
    const SocketAddress& target = targets_[count_ % targets_.size()];
    auto [socket, error] = try_connect({target}, Deadline::after(std::chrono::seconds(1)));
    if (error != 0) return void(++refused_);
    switch (count_++ / targets_.size() % 5) {
      case 0: say(socket, noise(1 + random_() % 4096)); break;
      case 1: say(socket, Bytes(heard_.begin(), heard_.begin() + 64)); break;
      case 2: say(socket, heard_); break;
      case 3: say(socket, Bytes(4096, std::byte{0xff})); break;
      default: say(socket, Bytes(heard_.begin(), heard_.begin() + 1));
    }
    held_.push_back({std::move(socket), 1});
    if (held_.size() > kHeld) held_.pop_front();
  }
  /// Those that are open say a byte more of a hello.
  void trickle() {
    for (Held& h : held_) {
      if (h.said < 64) say(h.socket, Bytes(1, heard_[h.said++]));
    }
  }
  std::size_t count() const noexcept { return count_; }
  std::size_t refused() const noexcept { return refused_; }

 private:
  struct Held {
    FileDescriptor socket;
    std::size_t said;
  };

  /// What somebody on the line has heard a rank say to the store: its hello and its proof, here to a store of ours.
  static Bytes conversation(const Bytes& secret) {
    Authentication rank = Authentication::connector(secret, {.service = kStoreService});
    Authentication store = Authentication::acceptor(secret, {.service = kStoreService});
    Bytes said;
    const auto pass = [](Authentication& from, Authentication& to) {
      const Bytes out(from.to_send().begin(), from.to_send().end());
      from.sent(out.size());
      std::ranges::copy(out, to.room().begin());
      to.received(out.size());
      return out;
    };
    said = pass(rank, store);
    pass(store, rank);
    const Bytes proof = pass(rank, store);
    said.insert(said.end(), proof.begin(), proof.end());
    return said;
  }
  /// What a rank says first where SINEW_TLS=1.
  static Bytes tls_hello(const std::shared_ptr<const TlsContext>& tls) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) throw_errno("sockets");
    Socket rank(FileDescriptor{ends[0]}, Socket::End::Connects, tls);
    const FileDescriptor wire(ends[1]);
    const std::byte word{};
    static_cast<void>(rank.send(std::span(&word, 1)));
    Bytes hello(4000);
    const ssize_t n = ::recv(wire.get(), hello.data(), hello.size(), 0);
    if (n < 64) throw Error(Code::System, "TLS says no hello");
    hello.resize(static_cast<std::size_t>(n));
    return hello;
  }
  Bytes noise(std::size_t bytes) {
    Bytes all(bytes);
    for (std::byte& b : all) b = static_cast<std::byte>(random_());
    return all;
  }
  static void say(const FileDescriptor& socket, const Bytes& bytes) {
    static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }

  std::vector<SocketAddress> targets_;
  Bytes heard_;
  std::deque<Held> held_;
  std::minstd_rand random_{7};
  std::size_t count_ = 0;
  std::size_t refused_ = 0;
};

/// A listening socket of this process, whose connections are held for a while.
class Elsewhere {
 public:
  std::uint16_t port() const noexcept { return listener_.address.port(); }
  void accept() {
    FileDescriptor socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    held_.push_back(std::move(socket));
    if (held_.size() > UnauthenticatedLimits::kPlaces) held_.pop_front();
  }

 private:
  Listener listener_ = listen_everywhere(0, std::nullopt);
  std::deque<FileDescriptor> held_;
};

/// Calls per second of the ranks over a window in which `act` is called every millisecond.
template <class Act>
double rate(Board& board, Act act) {
  const auto start = Clock::now();
  const long before = board.calls;
  while (Clock::now() - start < kWindow) {
    act(Clock::now() - start);
    std::this_thread::sleep_for(milliseconds(1));
  }
  return static_cast<double>(board.calls - before) / std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> all) {
  std::ranges::sort(all);
  return all[all.size() / 2];
}

bool well_ended(pid_t rank) {
  int status = 0;
  return ::waitpid(rank, &status, 0) == rank && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  bench::CommandLine command("measures what strangers who connect to everything cost a job");
  std::size_t connections = 10000;
  std::size_t per_s = 250;
  command.option("--connections", connections, "of strangers, in all");
  command.option("--per-second", per_s, "of a window with strangers");
  command.parse(argc, argv);

  const auto own = SocketAddress::own("", 0);
  const auto v4 = std::ranges::find(own, AF_INET, &SocketAddress::family);
  if (v4 == own.end()) return std::fprintf(stderr, "hostile: this machine has no IPv4 address but loopback\n"), 1;
  std::string address = v4->text();
  address.resize(address.rfind(':'));

  const std::string secret = "/tmp/sinew-hostile-" + std::to_string(random_id());
  {
    const FileDescriptor file(::open(secret.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const Bytes bytes = random_secret();
    if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) return 1;
  }
  void* shared = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Board& board = *new (shared) Board;
  std::array<pid_t, kRanks> ranks{};
  for (int r = 0; r < kRanks; ++r) {
    ranks[static_cast<std::size_t>(r)] = ::fork();
    if (ranks[static_cast<std::size_t>(r)] == 0) ::_exit(run_rank(board, r, address, secret));
  }
  constexpr long kWarm = 2000;
  while (board.calls < kWarm) {
    std::this_thread::sleep_for(milliseconds(10));
    if (::waitpid(-1, nullptr, WNOHANG) > 0) return std::fprintf(stderr, "hostile: a rank ended at once\n"), 1;
  }
  std::vector<SocketAddress> targets;
  for (const pid_t r : ranks) {
    for (const std::uint16_t port : ports_of(r)) targets.push_back(v4->with_port(port));
  }
  Strangers strangers(targets, secret);
  Elsewhere elsewhere;
  Strangers control({v4->with_port(elsewhere.port())}, secret);
  std::filesystem::remove(secret);

  const std::array<long, kRanks> before = {resident_bytes(ranks[0]), resident_bytes(ranks[1])};
  const auto attack = [&](Strangers& those, const auto& after_each) {
    return rate(board, [&, came = std::size_t{0}, trickles = 0](Duration since) mutable {
      const auto ms = static_cast<std::size_t>(std::chrono::duration_cast<milliseconds>(since).count());
      for (; came < per_s * ms / 1000; ++came) {
        those.connect();
        after_each();
      }
      for (; trickles < static_cast<int>(ms / 100); ++trickles) those.trickle();
    });
  };
  std::vector<double> quiet;
  std::vector<double> hostile;
  std::vector<double> losses;
  std::vector<double> own_losses;
  long growth = 0;
  while (strangers.count() + strangers.refused() < connections) {
    quiet.push_back(rate(board, [](Duration) {}));
    own_losses.push_back(1 - attack(control, [&] { elsewhere.accept(); }) / quiet.back());
    hostile.push_back(attack(strangers, [] {}));
    losses.push_back(1 - hostile.back() / quiet.back());
    for (std::size_t r = 0; r < kRanks; ++r) growth = std::max(growth, resident_bytes(ranks[r]) - before[r]);
  }
  board.stop = true;
  const bool well = well_ended(ranks[0]) && well_ended(ranks[1]);
  std::puts(json_object({{"connections", strangers.count()},
                         {"refused", strangers.refused()},
                         {"listeners", targets.size()},
                         {"per_second", per_s},
                         {"calls", board.calls.load()},
                         {"wrong", board.wrong.load()},
                         {"well", well},
                         {"quiet_calls_per_s", median(quiet), 1},
                         {"hostile_calls_per_s", median(hostile), 1},
                         {"loss", median(losses), 4},
                         {"loss_by_their_own_work", median(own_losses), 4},
                         {"growth_bytes", growth}})
                .c_str());
  return well && board.wrong == 0 ? 0 : 1;
}
