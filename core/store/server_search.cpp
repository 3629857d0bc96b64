#include <algorithm>
#include <cerrno>
#include <set>

#include <fmt/format.h>

#include <sinew/core/store/server_search.hpp>

namespace sinew {
namespace {

constexpr Duration kAttempt = std::chrono::seconds(2);
constexpr Duration kFirstPause = std::chrono::milliseconds(1);
constexpr Duration kLongestPause = std::chrono::milliseconds(50);

std::string text_of(const Dialer::Failure& failure, const SocketAddress& address) {
  const bool silent = failure.stage == Dialer::Stage::Authenticating && failure.error == ETIMEDOUT;
  return silent ? fmt::format("{}: whoever listens there says nothing", address.text()) : failure.text;
}

void append(std::string& text, std::string_view found) {
  if (!found.empty()) text += fmt::format("{}{}", text.empty() ? "" : "; ", found);
}

}  // namespace

/// The attempts at one address.
struct ServerSearch::Attempts {
  explicit Attempts(EventLoop& loop) : timer(loop) {}

  EventLoop::Timer timer;
  std::optional<Dialer> dialer;
  Duration pause = kFirstPause;
  bool has_begun = false;
  bool is_refused = false;  // by the listener that the latest attempt met
  bool is_nobody = false;   // nobody listened at the latest attempt
  std::string found;        // by the latest attempt; empty: no attempt has ended
  std::string refusal;      // of the latest listener that has refused; it may be gone
};

ServerSearch::ServerSearch(Options options, Deadline deadline)
    : options_(std::move(options)), deadline_(deadline), notice_(loop_) {
  if (options_.addresses.empty()) throw Error(Code::InvalidArgument, "there is no address to look for a server at");
  for (std::size_t a = 0; a < options_.addresses.size(); ++a) {
    attempts_.push_back(std::make_unique<Attempts>(loop_));
    attempts_[a]->timer.start(kStagger * a, [this, a] { begin(a); });
  }
  if (options_.notice && options_.notice->at != Clock::time_point::max())
    notice_.start(options_.notice->at, [this] { options_.notice->tell_if_due([this] { return findings(); }); });
}

ServerSearch::~ServerSearch() = default;

std::pair<Socket, std::size_t> ServerSearch::next() {
  while (made_.empty() && !end_) {
    loop_.run_once(deadline_);
    if (made_.empty() && deadline_.passed()) judge();
  }
  if (made_.empty()) throw Error(end_->code(), std::string(end_->message()), end_->rank());
  auto made = std::move(made_.front());
  made_.pop_front();
  return made;
}

void ServerSearch::reject(std::size_t address, std::string why, bool refused) {
  Attempts& at = *attempts_[address];
  note(address, std::move(why), refused);
  at.timer.start(at.pause, [this, address] { dial(address); });
}

void ServerSearch::begin(std::size_t address) {
  Attempts& at = *attempts_[address];
  if (std::exchange(at.has_begun, true)) return;
  dial(address);
}

void ServerSearch::dial(std::size_t address) {
  Dialer::Options dialing{.paths = {{options_.addresses[address]}},
                          .keys = options_.keys,
                          .claim = options_.claim,
                          .connect_within = kAttempt,
                          .authenticate_within = kAttempt};
  Dialer::Events events{
      .connected = [this, address](Socket s, std::size_t) { made_.emplace_back(std::move(s), address); },
      .ended = [](const Status&) {},
      .failed = [this, address](const Dialer::Failure& f) { return after(address, f); }};
  attempts_[address]->dialer.emplace(loop_, std::move(dialing), std::move(events)).start();
}

Dialer::Next ServerSearch::after(std::size_t address, const Dialer::Failure& failure) {
  Attempts& at = *attempts_[address];
  at.is_nobody = failure.error == ECONNREFUSED;
  note(address, text_of(failure, options_.addresses[address]), !failure.refusal.empty());
  if (end_) return {.end = *end_};
  return {.path = 0, .pause = at.pause};
}

void ServerSearch::note(std::size_t address, std::string why, bool refused) {
  Attempts& at = *attempts_[address];
  at.found = std::move(why);
  at.is_refused = refused;
  if (refused) at.refusal = at.found;
  at.pause = std::min<Duration>(at.pause * 2, kLongestPause * (address + 1));
  const std::size_t next = address + 1;
  if (next < attempts_.size() && !attempts_[next]->has_begun) {
    attempts_[next]->timer.start(Duration{}, [this, next] { begin(next); });
  }
  judge();
}

/// Ends the search if it cannot succeed, or if its time is over.
void ServerSearch::judge() {
  const auto is_refused = [](const auto& a) { return a->is_refused; };
  const bool any_refuse = std::ranges::any_of(attempts_, is_refused);
  if (!any_refuse) refused_since_.reset();
  if (any_refuse && !refused_since_) refused_since_ = Clock::now();
  const bool in_doubt = any_refuse && Clock::now() - *refused_since_ >= kDoubt;
  const bool ever_refused = std::ranges::any_of(attempts_, [](const auto& a) { return !a->refusal.empty(); });
  if (in_doubt || std::ranges::all_of(attempts_, is_refused) || (deadline_.passed() && ever_refused)) {
    end_ = Status(Code::Mismatch, refusals());
  } else if (options_.may_come && !options_.may_come()) {
    end_ = Status(Code::PeerLost, fmt::format("whoever served the store is gone ({})", findings()), 0);
  } else if (deadline_.passed()) {
    end_ = Status(Code::Timeout, fmt::format("nobody serves the job's store ({}): rank 0 did not come", findings()), 0);
  }
}

std::string ServerSearch::refusals() const {
  std::string text;
  for (const auto& a : attempts_) append(text, a->refusal);
  return text;
}

/// Says what the latest attempts have found. Addresses at which nobody listens are left out where others say more, and
/// so are addresses at which the same was found as at one before.
std::string ServerSearch::findings() const {
  std::string text;
  std::set<std::string> known;
  for (std::size_t a = 0; a < attempts_.size(); ++a) {
    const std::string& found = attempts_[a]->found;
    const std::size_t address = options_.addresses[a].text().size();
    const bool is_new = found.size() < address || known.insert(found.substr(address)).second;
    append(text, attempts_[a]->is_nobody || !is_new ? "" : found);
  }
  if (text.empty()) append(text, attempts_.front()->found);
  if (text.empty()) text = options_.found_before;
  return text.empty() ? options_.addresses.front().text() + ": no answer yet" : text;
}

}  // namespace sinew
