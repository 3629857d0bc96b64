#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/log.hpp>
#include <sinew/core/net/dialer.hpp>
#include <sinew/core/net/listening_port.hpp>
#include <sinew/core/net/proof.hpp>

namespace sinew {
namespace {

constexpr auto kTick = std::chrono::milliseconds(50);
/// A listener without free places drops connections that were silent for kAtLeast. The delay of the network is a part
/// of that time, so a thread that is late by half of kAtLeast may have lost its connection.
constexpr auto kLate = UnauthenticatedLimits::kAtLeast / 2;

Clock::time_point after(Duration time) {
  return time == Duration::max() ? Clock::time_point::max() : Clock::now() + time;
}

}  // namespace

Dialer::Dialer(EventLoop& loop, Options options, Events events)
    : loop_(loop), options_(std::move(options)), events_(std::move(events)), timer_(loop) {
  if (options_.paths.empty()) throw Error(Code::InvalidArgument, "there is no address to connect to");
  path_ = options_.first % options_.paths.size();
}

Dialer::~Dialer() = default;

void Dialer::start() {
  timer_.start(Duration{}, [this] { dial(); });
}

void Dialer::dial() {
  state_ = State::Connecting;
  looked_ = Clock::now();
  until_ = after(options_.connect_within);
  was_late_ = false;
  const Path& path = options_.paths[path_];
  auto [descriptor, error] = start_connect(path);
  if (error != 0) return fail(Stage::Connecting, error);
  const int socket = descriptor.get();
  if (!path.to.is_unix()) {
    keep_alive(socket, true);
    end_if_unanswered(socket, true);
  }
  socket_ = Socket(std::move(descriptor), Socket::End::Connects, path.to.is_unix() ? nullptr : options_.keys.tls);
  try {
    watch_ = loop_.watch(socket, {.write = true}, [this] { ready(); });
  } catch (const Error&) {
    return fail(Stage::Connecting, ENOSPC);  // too many watches of this user (fs.epoll.max_user_watches)
  }
  timer_.start(kTick, [this] { tick(); });
}

void Dialer::tick() {
  const auto now = Clock::now();
  was_late_ = was_late_ || now - looked_ > kLate;
  looked_ = now;
  if (state_ == State::Authenticating && options_.authenticate_within != Duration::max()) {
    until_ = clock_.since() + options_.authenticate_within;
  }
  if (now >= until_) return fail(state_ == State::Connecting ? Stage::Connecting : Stage::Authenticating, ETIMEDOUT);
  timer_.start(kTick, [this] { tick(); });
}

void Dialer::ready() {
  const auto now = Clock::now();
  was_late_ = was_late_ || now - looked_ > kLate;
  looked_ = now;
  switch (state_) {
    case State::Connecting:
      if (const int error = connect_result(socket_.get()); error != 0) return fail(Stage::Connecting, error);
      if (options_.paths[path_].to.is_unix()) return succeed();
      state_ = State::Authenticating;
      until_ = Clock::time_point::max();
      clock_ = ProofClock();
      handshake_.emplace(Authentication::connector(options_.keys.secret, options_.claim));
      return authenticate();
    case State::Authenticating: return authenticate();
    case State::Consent: return await_consent();
    case State::Idle:
    case State::Over: return;
  }
}

void Dialer::authenticate() {
  const Proof proof = pump(socket_, *handshake_, events_.may_prove);
  const int error = errno;
  clock_.look(socket_, *handshake_);
  switch (proof) {
    case Proof::Underway: return watch();
    case Proof::Refused: return fail(Stage::Authenticating, 0, handshake_->reason());
    case Proof::Closed: return fail(Stage::Authenticating, error);
    case Proof::Proven: return authenticated();
  }
}

void Dialer::authenticated() {
  socket_.flush();
  if (socket_.wants_write()) return watch();  // no room for the proof yet: authenticate() calls this again
  if (!options_.consent) return succeed();
  state_ = State::Consent;
  until_ = Clock::time_point::max();
  timer_.stop();                     // a service that computes answers late: there is no limit
  keep_alive(socket_.get(), false);  // the connection survives a network that fails for a while
  await_consent();
}

void Dialer::await_consent() {
  std::byte answer{};
  socket_.flush();
  const ssize_t n = socket_.receive(std::span(&answer, 1));
  if (n < 0 && is_for_later(errno)) return watch();
  if (n < 0 && errno == EPROTO) return fail(Stage::Consent, 0, socket_.trouble());
  if (n <= 0) return fail(Stage::Consent, n == 0 ? 0 : errno);
  if (answer != *options_.consent) return fail(Stage::Consent, 0, {}, answer);
  succeed();
}

/// Watches the socket for bytes of the other side and, while bytes wait to be sent, for room.
void Dialer::watch() {
  const bool unsent = socket_.wants_write() || (socket_.is_open() && handshake_ && !handshake_->to_send().empty());
  watch_.want({.read = true, .write = unsent});
}

void Dialer::succeed() {
  state_ = State::Over;
  timer_.stop();
  watch_ = {};
  Socket socket = std::move(socket_);
  if (!options_.paths[path_].to.is_unix()) end_if_unanswered(socket.get(), false);
  const auto connected = std::exchange(events_.connected, nullptr);
  connected(std::move(socket), path_);
}

void Dialer::fail(Stage stage, int error, std::string refusal, std::optional<std::byte> consent) {
  const bool proven = handshake_ && handshake_->state() == Authentication::State::Proven;
  Failure failure{.path = path_, .stage = stage, .error = error, .refusal = std::move(refusal), .consent = consent};
  failure.is_of_job = proven || (socket_ && socket_.binding() && socket_.is_open());
  failure.was_late = was_late_;
  const std::string address = options_.paths[path_].to.text();
  failure.text = fmt::format("{}: {}", address,
                             !failure.refusal.empty() ? failure.refusal
                             : error != 0             ? std::generic_category().message(error)
                                                      : "the other side has closed the connection");
  log::debug("connecting to {}", failure.text);
  watch_ = {};
  socket_ = Socket();
  handshake_.reset();
  state_ = State::Idle;
  const Next next = events_.failed(failure);
  if (next.end) {
    state_ = State::Over;
    timer_.stop();
    const auto ended = std::exchange(events_.ended, nullptr);
    // The loop calls `ended`, since a function of the owner may be among the callers of fail().
    return timer_.start(Duration{}, [ended, why = *next.end] { ended(why); });
  }
  path_ = next.path % options_.paths.size();
  timer_.start(next.pause, [this] { dial(); });
}

std::pair<Socket, std::size_t> dial(Dialer::Options options,
                                    std::function<Dialer::Next(const Dialer::Failure&)> failed) {
  EventLoop loop;
  std::optional<std::pair<Socket, std::size_t>> made;
  std::optional<Status> end;
  Dialer dialer(loop, std::move(options),
                {.connected = [&](Socket socket, std::size_t path) { made.emplace(std::move(socket), path); },
                 .ended = [&](const Status& why) { end = why; },
                 .failed = std::move(failed)});
  dialer.start();
  while (!made && !end) loop.run_once(Deadline::never());
  if (end) throw Error(end->code(), std::string(end->message()), end->rank());
  return std::move(*made);
}

}  // namespace sinew
