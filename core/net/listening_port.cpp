#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/process_lock.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/core/net/acceptor.hpp>
#include <sinew/core/net/control_thread.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/proof.hpp>
#include <sinew/core/system/fork_count.hpp>

namespace sinew {
namespace {

using Limits = UnauthenticatedLimits;

/// Identifies a service among those of one port.
using Key = std::tuple<std::uint32_t, std::int32_t, std::uint64_t>;
Key key_of(const AuthClaim& c) { return {c.service, c.to_rank, c.instance}; }

}  // namespace

struct ListeningPort::Service::State {
  std::weak_ptr<Services> services;
  Key key;
  Bytes secret;
  Take take;
  ForkMark fork;
  std::recursive_mutex taking;  // held while `take` runs; recursive, since `take` may end its own service
  bool ended = false;
};

struct ListeningPort::Services {
  std::mutex mutex;
  std::map<Key, std::shared_ptr<Service::State>> all;
  bool have_begun = false;                     // true since the first service was added
  std::map<std::string, std::string> refused;  // by host, why

  std::shared_ptr<Service::State> find(const AuthClaim& claim) {
    const std::scoped_lock lock(mutex);
    const auto at = all.find(key_of(claim));
    return at == all.end() ? nullptr : at->second;
  }
  std::optional<Bytes> secret_of(const AuthClaim& claim) {
    const auto service = find(claim);
    return service ? std::optional(service->secret) : std::nullopt;
  }
  bool has_begun() {
    const std::scoped_lock lock(mutex);
    return have_begun;
  }
  void note_refused(const std::string& host, const std::string& why) {
    constexpr std::size_t kMostHosts = 4;
    const std::scoped_lock lock(mutex);
    if (refused.size() < kMostHosts || refused.contains(host)) refused[host] = why;
  }
  void give(const AuthClaim& claim, Socket socket) {
    const auto service = find(claim);
    if (!service) return;
    const std::scoped_lock lock(service->taking);
    if (!service->ended) service->take(claim, std::move(socket));
  }
};

ListeningPort::Service::Service(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
ListeningPort::Service::Service(Service&& other) noexcept = default;

ListeningPort::Service& ListeningPort::Service::operator=(Service&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

ListeningPort::Service::~Service() {
  if (!state_ || state_->fork.in_child()) return;  // a fork's child has a copy of the port, but not its thread
  if (const auto services = state_->services.lock()) {
    const std::scoped_lock lock(services->mutex);
    services->all.erase(state_->key);
  }
  const std::scoped_lock lock(state_->taking);
  state_->ended = true;
}

/// The connections that have not been authenticated.
struct ListeningPort::Guests {
  struct Guest {
    Guest(Socket s, Authentication h) : socket(std::move(s)), handshake(std::move(h)) {
      clock.look(socket, handshake);  // a plain socket is open now, which is no step of the other side
    }

    Socket socket;
    Authentication handshake;
    ProofClock clock;
    EventLoop::Watch watch{};  // destroyed before the socket that it watches
  };
  using At = std::list<Guest>::iterator;

  Guests(EventLoop& l, Listener listener, std::shared_ptr<const TlsContext> t, std::shared_ptr<Services> s)
      : loop(l),
        tls(std::move(t)),
        services(std::move(s)),
        next_look(loop),
        acceptor(
            loop, std::move(listener), [this] { return make_room(); },
            [this](FileDescriptor socket) { admit(std::move(socket)); }) {}

  void admit(FileDescriptor descriptor);
  bool serve(At guest);
  bool make_room();
  void note_refused(const Guest& guest, const std::string& why);
  void drop(At guest, const std::string& why);
  void left(At guest);
  void look();
  void look_at(Clock::time_point when);
  bool has_had(const Guest& guest, Duration time) const { return Clock::now() - guest.clock.since() >= time; }

  EventLoop& loop;
  std::shared_ptr<const TlsContext> tls;
  std::shared_ptr<Services> services;
  std::list<Guest> all;  // the connection that has waited longest comes first
  bool is_full = false;
  Clock::time_point looks_at = Clock::time_point::max();
  EventLoop::Timer next_look;
  Acceptor acceptor;
};

void ListeningPort::Guests::admit(FileDescriptor descriptor) {
  const int number = descriptor.get();
  no_delay(number);
  const auto secret_of = [s = services](const AuthClaim& claim) { return s->secret_of(claim); };
  const At guest = all.emplace(all.end(), Socket(std::move(descriptor), Socket::End::Accepts, tls),
                               Authentication::acceptor(secret_of));
  // A connection that sends its first message byte by byte does not wake this thread for each byte. Under TLS the first
  // message is longer than a hello, too.
  wake_when_received(number, Authentication::kHelloBytes);
  try {
    guest->watch = loop.watch(number, {.read = true}, [this, guest] { serve(guest); });
  } catch (const Error& e) {  // too many watches of this user (fs.epoll.max_user_watches): the peer connects again
    return drop(guest, e.what());
  }
  look_at(guest->clock.since() + Limits::kAtMost);
}

/// Moves the connection's handshake on. Returns true if the connection still has a place.
bool ListeningPort::Guests::serve(At guest) {
  switch (pump(guest->socket, guest->handshake)) {
    case Proof::Underway: break;
    case Proof::Refused: {
      if (guest->handshake.is_of_sinew()) note_refused(*guest, guest->handshake.reason());
      return drop(guest, guest->handshake.reason()), false;
    }
    case Proof::Closed: {
      if (guest->handshake.steps() > 0) note_refused(*guest, "its secret is another one, or it is of another job");
      return drop(guest, "the other side has closed it before it was authenticated"), false;
    }
    case Proof::Proven: {
      const AuthClaim claim = guest->handshake.claim();
      guest->watch = {};
      Socket socket = std::move(guest->socket);
      wake_when_received(socket.get(), 1);
      left(guest);
      services->give(claim, std::move(socket));
      return false;
    }
  }
  if (!tls) wake_when_received(guest->socket.get(), guest->handshake.room().size());  // a TLS session does it itself
  const bool unsent = guest->socket.wants_write() || (guest->socket.is_open() && !guest->handshake.to_send().empty());
  guest->watch.want({.read = true, .write = unsent});
  if (guest->clock.look(guest->socket, guest->handshake)) all.splice(all.end(), all, guest);
  return true;
}

void ListeningPort::Guests::note_refused(const Guest& guest, const std::string& why) {
  const SocketAddress from = peer_address(guest.socket.get());
  if (from.family() != AF_UNSPEC) services->note_refused(from.host_text(), why);  // else the connection was reset
}

void ListeningPort::Guests::drop(At guest, const std::string& why) {
  if (log::enabled(log::Level::Debug)) {  // the address takes a system call
    log::debug("dropped a connection from {}: {}", peer_address(guest->socket.get()).text(), why);
  }
  guest->watch = {};
  left(guest);
}

void ListeningPort::Guests::left(At guest) {
  all.erase(guest);
  if (std::exchange(is_full, false)) acceptor.resume();
}

/// Returns true if a place is free, and frees one if it can. Returns false if all connections have had their places for
/// less than kAtLeast, or if there has been no service yet.
bool ListeningPort::Guests::make_room() {
  if (!services->has_begun()) return false;  // the first serve() resumes the acceptor
  while (all.size() >= Limits::kPlaces) {
    const At oldest = all.begin();
    if (has_had(*oldest, Limits::kAtLeast)) {
      const bool stays = serve(oldest);  // this thread may be late, and the bytes may be here
      if (stays && has_had(*oldest, Limits::kAtLeast)) {
        drop(oldest, "others wait, and it has not been authenticated");
      }
      continue;
    }
    is_full = true;
    look_at(oldest->clock.since() + Limits::kAtLeast);
    return false;
  }
  return true;
}

/// Sets the timer that calls look(). The timer stays as it is if it is set to an earlier time.
void ListeningPort::Guests::look_at(Clock::time_point when) {
  if (when >= looks_at) return;
  looks_at = when;
  next_look.start(when, [this] { look(); });
}

void ListeningPort::Guests::look() {
  looks_at = Clock::time_point::max();
  while (!all.empty() && has_had(all.front(), Limits::kAtMost)) {
    const At oldest = all.begin();
    if (serve(oldest) && has_had(*oldest, Limits::kAtMost)) drop(oldest, "it was not authenticated in time");
  }
  if (std::exchange(is_full, false)) acceptor.resume();  // the acceptor calls make_room() again
  if (!all.empty()) look_at(all.front().clock.since() + Limits::kAtMost);
}

ListeningPort::ListeningPort(EventLoop& loop, Listener listener, std::shared_ptr<const TlsContext> tls)
    : number_(listener.address.port()),
      services_(std::make_shared<Services>()),
      guests_(std::make_shared<Guests>(loop, std::move(listener), std::move(tls), services_)) {}

ListeningPort::~ListeningPort() = default;

ListeningPort::Service ListeningPort::serve(const AuthClaim& claim, Bytes secret, Take take) {
  if (secret.empty()) throw Error(Code::InvalidArgument, "a service of the listening port needs the job's secret");
  auto state = std::make_shared<Service::State>();
  state->services = services_;
  state->key = key_of(claim);
  state->secret = std::move(secret);
  state->take = std::move(take);
  const std::scoped_lock lock(services_->mutex);
  if (!std::exchange(services_->have_begun, true)) {
    guests_->loop.post([guests = std::weak_ptr(guests_)] {
      if (const auto here = guests.lock()) here->acceptor.resume();
    });
  }
  if (!services_->all.emplace(state->key, state).second) {
    throw Error(Code::InvalidArgument, fmt::format("port {} has a service {:#x} of rank {}, instance {:#x}, already",
                                                   number_, claim.service, claim.to_rank, claim.instance));
  }
  return Service(std::move(state));
}

std::string ListeningPort::refused() const {
  const std::scoped_lock lock(services_->mutex);
  std::string text;
  for (const auto& [host, why] : services_->refused)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", host, why);
  return text;
}

namespace {

/// A port that is made, served and destroyed on the control thread.
struct PortOfProcess {
  explicit PortOfProcess(const PortSettings& s) : settings(s), thread(ControlThread::of_process()) {
    std::shared_ptr<const TlsContext> tls = TlsContext::open(s.tls);
    Listener listener = listen_everywhere(s.number, s.range);
    thread->run([&] { port.emplace(thread->loop(), std::move(listener), std::move(tls)); });
  }
  ~PortOfProcess() {
    // In a fork's child run() does nothing. The child's copy of the port is then destroyed with this object, which does
    // not affect the parent's port.
    thread->run([this] { port.reset(); });
  }
  PortOfProcess(const PortOfProcess&) = delete;
  PortOfProcess& operator=(const PortOfProcess&) = delete;

  bool serves(const PortSettings& wanted) const {
    if (fork.in_child() || wanted.tls != settings.tls) return false;
    const std::uint16_t n = port->number();
    if (wanted.number != 0) return wanted.number == n;
    return !wanted.range || (wanted.range->first <= n && n <= wanted.range->second);
  }

  const PortSettings settings;
  const ForkMark fork;
  std::shared_ptr<ControlThread> thread;
  std::optional<ListeningPort> port;
};

/// Precondition: the caller holds OfProcess::ListeningPorts.
std::vector<std::weak_ptr<PortOfProcess>>& open_ports() {
  static auto* const kPorts = new std::vector<std::weak_ptr<PortOfProcess>>;  // ports may end while the process exits
  return *kPorts;
}

}  // namespace

std::shared_ptr<ListeningPort> port_of_process(const PortSettings& settings) {
  const ProcessLock lock(OfProcess::ListeningPorts);
  auto& all = open_ports();
  std::erase_if(all, [](const auto& weak) { return weak.expired(); });
  std::shared_ptr<PortOfProcess> found;
  for (const auto& weak : all) {
    const auto open = weak.lock();
    if (open && open->serves(settings)) found = open;
  }
  if (!found) {
    found = std::make_shared<PortOfProcess>(settings);
    all.push_back(found);
  }
  return {found, &*found->port};
}

}  // namespace sinew
