#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/transports/tcp/net.hpp>
#include <sinew/transports/tcp/redial.hpp>

namespace sinew::tcp {
namespace {

Dialer::Next give_up(std::string why, Code code = Code::PeerLost) { return {.end = Status(code, std::move(why))}; }

/// True if a connection failed for lack of a resource that other threads or processes may free. EADDRNOTAVAIL means
/// something else if the path names the address to connect from: this host has lost that address.
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

Dialer::Next Redial::after(const Dialer::Failure& failure) {
  const bool is_short = failure.stage == Dialer::Stage::Connecting && is_shortage(failure.error, paths_[failure.path]);
  if (is_short) return wait_for_resources(failure);
  short_since_ = Clock::time_point::max();
  if (failure.stage == Dialer::Stage::Connecting) return next_path(failure);
  if (!failure.refusal.empty()) return give_up(failure.text);
  if (failure.consent) {
    if (static_cast<Consent>(*failure.consent) == Consent::Closed) return give_up("it has closed its end");
    return {.path = failure.path, .pause = kWaitForTheirs};
  }
  if (!is_by_peer(failure.error)) {  // the network failed: there was a listener
    may_be_late_ = true;
    return next_path(failure);
  }
  if (failure.stage == Dialer::Stage::Authenticating) return closed_early(failure);
  return {.path = failure.path, .pause = kPause};
}

/// A listener has closed the connection before this side was authenticated. If it knows the secret or has made a TLS
/// connection, it belongs to the job: it is busy now, or it is another rank with the same address. If this side was
/// late, the listener may also belong to the job. After kClosings other such attempts, this side gives up.
Dialer::Next Redial::closed_early(const Dialer::Failure& failure) {
  if (!failure.is_of_job && !failure.was_late && ++closings_ >= kClosings) {
    return give_up(
        fmt::format("{} closes every connection before it proves the job's secret", paths_[failure.path].to.text()));
  }
  const bool moves = ++turned_away_ % kClosingsPerPath == 0;
  return {.path = (failure.path + (moves ? 1 : 0)) % paths_.size(), .pause = kPause};
}

Dialer::Next Redial::next_path(const Dialer::Failure& failure) {
  refusals_ += fmt::format("{}{}", refusals_.empty() ? "" : "; ", failure.text);
  may_be_late_ = may_be_late_ || failure.error == ETIMEDOUT;
  if (failure.path + 1 < paths_.size()) return {.path = failure.path + 1};
  const std::string why = std::exchange(refusals_, {});
  const bool again = std::exchange(may_be_late_, false) && rounds_ != 0;
  if (rounds_ > 0) --rounds_;
  return again ? Dialer::Next{.path = 0, .pause = kPause} : give_up(why);
}

Dialer::Next Redial::wait_for_resources(const Dialer::Failure& failure) {
  const Clock::time_point now = Clock::now();
  if (short_since_ == Clock::time_point::max()) short_since_ = now;
  if (now - short_since_ < kShortage) return {.path = failure.path, .pause = kPause};
  return give_up(fmt::format("for {} s this process has lacked what a connection takes: {}",
                             std::chrono::seconds(kShortage).count(), std::generic_category().message(failure.error)),
                 Code::System);
}

}  // namespace sinew::tcp
