#include <optional>
#include <utility>

#include <sinew/transports/tcp/connecting.hpp>
#include <sinew/transports/tcp/net.hpp>
#include <sinew/transports/tcp/redial.hpp>

namespace sinew::tcp {

struct Connecting::State {
  enum class Proof : std::uint8_t { NotGiven, Given, Withdrawn };

  State(std::vector<Path> paths, int rounds, Events e) : redial(std::move(paths), rounds), events(std::move(e)) {}

  /// An attempt to connect has failed. A proof that was sent in this attempt does not count any more.
  void attempt_failed() {
    auto given = Proof::Given;
    proof.compare_exchange_strong(given, Proof::NotGiven);
  }
  bool may_prove() {
    auto expected = Proof::NotGiven;
    return proof.compare_exchange_strong(expected, Proof::Given);
  }

  std::atomic<Proof> proof{Proof::NotGiven};
  Redial redial;                 // used by the control thread
  std::optional<Dialer> dialer;  // used by the control thread
  Events events;                 // used by the transport's thread
  bool given_up = false;         // used by the transport's thread
  bool over = false;             // used by the transport's thread
};

Connecting::Connecting(ControlThread& thread, Mailbox& mailbox, std::vector<Path> paths, const Keys& keys,
                       const AuthClaim& claim, int rounds, Events events)
    : thread_(thread), state_(std::make_shared<State>(paths, rounds, std::move(events))) {
  Dialer::Options options{
      .paths = std::move(paths), .keys = keys, .claim = claim, .consent = static_cast<std::byte>(Consent::Accepted)};
  // The state outlives the dialer, which is its member and ends on the control thread.
  State* const s = state_.get();
  const auto report = [state = std::weak_ptr(state_), &mailbox](std::function<void(Events&)> what) {
    mailbox.post([state, what = std::move(what)] {
      const auto held = state.lock();
      if (!held || held->given_up || std::exchange(held->over, true)) return;
      what(held->events);
    });
  };
  Dialer::Events of_dialer{.connected =
                               [report](Socket socket, std::size_t) {
                                 report([taken = std::make_shared<Socket>(std::move(socket))](Events& e) {
                                   const auto connected = std::exchange(e.connected, nullptr);
                                   connected(std::move(*taken));
                                 });
                               },
                           .ended =
                               [report](const Status& why) {
                                 report([why](Events& e) {
                                   const auto hopeless = std::exchange(e.hopeless, nullptr);
                                   hopeless(why);
                                 });
                               },
                           .failed =
                               [s](const Dialer::Failure& failure) {
                                 s->attempt_failed();
                                 return s->redial.after(failure);
                               },
                           .may_prove = [s] { return s->may_prove(); }};
  thread_.post([state = state_, &thread, options = std::move(options), of_dialer = std::move(of_dialer)]() mutable {
    if (state->proof.load() == State::Proof::Withdrawn) return;
    state->dialer.emplace(thread.loop(), std::move(options), std::move(of_dialer));
    state->dialer->start();
  });
}

Connecting::~Connecting() {
  state_->given_up = true;
  state_->proof.store(State::Proof::Withdrawn);
  thread_.post([state = std::move(state_)] { state->dialer.reset(); });
}

bool Connecting::withdraw() noexcept {
  auto expected = State::Proof::NotGiven;
  return state_->proof.compare_exchange_strong(expected, State::Proof::Withdrawn) ||
         expected == State::Proof::Withdrawn;
}

bool Connecting::active() const noexcept { return !state_->over; }

}  // namespace sinew::tcp
