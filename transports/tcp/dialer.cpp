#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/log.hpp>
#include <sinew/core/net/proof.hpp>
#include <sinew/core/net/strangers.hpp>
#include <sinew/transports/tcp/dialer.hpp>

namespace sinew::tcp {
namespace {

/// A listener with many guests gives those their time that are not silent so long, the way to it included.
constexpr auto kSlow = Strangers::kAtLeast / 2;

/// Others of this process or host may give it back. No such thing is an address to connect from that has gone.
bool is_shortage(int error, const Path& path) noexcept {
  switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case ENOSPC: return true;
    case EADDRNOTAVAIL: return !path.from;
    default: return false;
  }
}

}  // namespace

Dialer::Dialer(Poller& poller, std::vector<Path> paths, const Keys& keys, AuthClaim claim, int rounds, Events events)
    : poller_(poller),
      paths_(std::move(paths)),
      keys_(keys),
      claim_(claim),
      rounds_(rounds),
      events_(std::move(events)),
      handshake_(Authentication::connector(keys.secret, claim)) {}

Dialer::~Dialer() { finish(); }

void Dialer::start() {
  poller_.add_timed(*this);
  dial();
}

void Dialer::dial() {
  auto [socket, error] = start_connect(paths_[at_]);
  if (!socket) return next_candidate(error);
  socket_ = Socket(std::move(socket), Socket::End::Connects, keys_.tls);
  state_ = State::Connecting;
  looked_ = Clock::now();
  slow_ = false;
  until_ = looked_ + kConnectPatience;
  if (const int unwatched = poller_.add(socket_.get(), *this, true); unwatched != 0) return next_candidate(unwatched);
  keep_alive(socket_.get());
  insist_on_answers(socket_.get(), true);
  short_since_ = Clock::time_point::max();
}

void Dialer::look(Clock::time_point now) noexcept {
  slow_ = slow_ || now - looked_ > kSlow;
  looked_ = now;
}

void Dialer::ready(bool, bool) {
  look(Clock::now());
  switch (state_) {
    case State::Connecting:
      if (const int error = connect_result(socket_.get()); error != 0) return next_candidate(error);
      poller_.want_write(socket_.get(), *this, false);
      asks_write_ = false;
      state_ = State::Proving;
      until_ = Clock::time_point::max();
      handshake_ = Authentication::connector(keys_.secret, claim_);
      return prove();
    case State::Proving: return prove();
    case State::Consent: return await_consent();
    case State::Pausing:
    case State::Hopeless:
    case State::Over: return;
  }
}

void Dialer::prove() {
  switch (pump(socket_, handshake_)) {
    case Proof::Underway: return wait();
    case Proof::Proven:
      state_ = State::Consent;
      keep_alive(socket_.get(), false);  // what the peer has got it will take, though the path be dark a while
      return await_consent();
    case Proof::Refused: return despair(fmt::format("{}: {}", paths_[at_].to.text(), handshake_.reason()));
    case Proof::Closed: return is_by_peer(errno) ? closed_early() : cut_off(errno);
  }
}

/// Who has made a TLS connection or knows the secret is of the job, and has no place or no time now, or is another rank
/// that has this address, too. Whoever closes on a side that is slow to speak may be of the job, too.
void Dialer::closed_early() {
  const bool is_of_job =
      handshake_.state() == Authentication::State::Proven || (socket_.binding() && socket_.is_open());
  if (!is_of_job && !slow_ && ++closings_ >= kClosings) {
    return despair(fmt::format("{} closes every connection before it proves the job's secret", paths_[at_].to.text()));
  }
  if (++turned_away_ % kClosingsPerPath == 0) at_ = (at_ + 1) % paths_.size();
  pause(kPause);
}

/// By the network: somebody was there.
void Dialer::cut_off(int error) {
  late_ = true;
  next_candidate(error);
}

/// For more from the peer, and under TLS for room to write.
void Dialer::wait() {
  const bool asks = socket_.wants_write();
  if (std::exchange(asks_write_, asks) != asks) poller_.want_write(socket_.get(), *this, asks);
}

void Dialer::await_consent() {
  Consent answer{};
  socket_.flush();
  const ssize_t n = socket_.receive(std::as_writable_bytes(std::span(&answer, 1)));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return wait();
  if (n < 0 && errno == EPROTO) return despair(fmt::format("{}: {}", paths_[at_].to.text(), socket_.trouble()));
  if (n == 1 && answer == Consent::Accepted) {
    poller_.remove(socket_.get(), *this);
    Socket socket = std::move(socket_);
    insist_on_answers(socket.get(), false);
    finish();
    return std::exchange(events_.connected, nullptr)(std::move(socket));
  }
  if (n < 0 && !is_by_peer(errno)) return cut_off(errno);
  if (n == 1 && answer == Consent::Closed) return despair("it has closed its end");
  pause(n == 1 ? Clock::duration(kWaitForTheirs) : Clock::duration(kPause));
}

void Dialer::next_candidate(int error) {
  const std::string reason = std::generic_category().message(error);
  log::debug("tcp: connecting to {}: {}", paths_[at_].to.text(), reason);
  if (is_shortage(error, paths_[at_])) return wait_for_room(reason);
  refusals_ += fmt::format("{}{}: {}", refusals_.empty() ? "" : "; ", paths_[at_].to.text(), reason);
  late_ = late_ || error == ETIMEDOUT;
  hang_up();
  if (++at_ < paths_.size()) return pause({});
  at_ = 0;
  std::string why = std::exchange(refusals_, {});
  const bool again = std::exchange(late_, false) && rounds_ != 0;
  if (rounds_ > 0) --rounds_;
  again ? pause(kPause) : despair(std::move(why));
}

void Dialer::wait_for_room(const std::string& reason) {
  const Clock::time_point now = Clock::now();
  if (short_since_ == Clock::time_point::max()) short_since_ = now;
  if (now - short_since_ < kShortage) return pause(kPause);
  despair(fmt::format("for {} s this process has lacked what a connection takes: {}",
                      std::chrono::seconds(kShortage).count(), reason),
          Code::System);
}

/// The next attempt starts with a tick, also where nothing is to be waited for: not inside the failure of the last.
void Dialer::pause(Clock::duration time) {
  hang_up();
  state_ = State::Pausing;
  until_ = Clock::now() + time;
}

void Dialer::despair(std::string why, Code code) {
  pause({});
  state_ = State::Hopeless;
  end_ = code;
  refusals_ = std::move(why);
}

void Dialer::tick(Clock::time_point now) {
  look(now);
  if (now < until_) return;
  if (state_ == State::Pausing) return dial();
  if (state_ == State::Connecting) return next_candidate(ETIMEDOUT);
  if (state_ != State::Hopeless) return;
  finish();
  std::exchange(events_.hopeless, nullptr)(Status(end_, std::move(refusals_)));
}

void Dialer::hang_up() noexcept {
  if (!socket_) return;
  poller_.remove(socket_.get(), *this);
  socket_ = Socket();
}

void Dialer::finish() noexcept {
  hang_up();
  state_ = State::Over;
  poller_.remove_timed(*this);
}

}  // namespace sinew::tcp
