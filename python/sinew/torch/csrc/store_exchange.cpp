#include "store_exchange.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <thread>
#include <utility>

#include <sinew/core/base/random.hpp>
#include <sinew/core/base/wire.hpp>
#include <sinew/core/error.hpp>

#include "signals.hpp"

namespace sinew::torch_backend {
namespace {

using Value = std::vector<std::uint8_t>;

// A rank asks the store again and again instead of using Store::wait: that logs a warning whenever it gives up, blocks
// the store's client for all threads of the process, and looks only every 10 ms in a file. Pauses grow with the time
// waited, so that many ranks that wait for a late one do not overload the store.
constexpr auto kShortestPause = std::chrono::microseconds(20);
constexpr auto kLongestPause = std::chrono::milliseconds(100);
constexpr int kPausesInTimeWaited = 20;
/// The time for which a rank asks for one thing before it looks at what else may have happened.
constexpr auto kMoment = std::chrono::milliseconds(2);
constexpr auto kBetweenSlowChecks = std::chrono::milliseconds(50);

/// The longest time for which rank 0 waits for other ranks that still use the store.
constexpr auto kLongestLeave = std::chrono::seconds(10);

/// `since`: when the wait began.
void pause(Clock::time_point since) {
  const Clock::duration length = (Clock::now() - since) / kPausesInTimeWaited;
  std::this_thread::sleep_for(std::clamp<Clock::duration>(length, kShortestPause, kLongestPause));
}

Value value_of(std::span<const std::byte> bytes) {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {first, first + bytes.size()};
}
Value value_of(std::string_view text) { return value_of(std::as_bytes(std::span(text))); }
std::string text_of(const Value& value) { return {value.begin(), value.end()}; }

std::string random_name() {
  std::array<std::byte, 16> bytes{};
  fill_random(bytes);
  std::string name;
  for (const std::byte b : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    name += kDigits[std::to_integer<std::size_t>(b >> 4)];
    name += kDigits[std::to_integer<std::size_t>(b & std::byte{15})];
  }
  return name;
}

/// The message that a rank writes when it comes, and the one with which rank 0 answers.
struct Greeting {
  std::string name;         ///< of the rank's message; in an answer: of the meeting
  std::int32_t world_size;  ///< as the rank was started
  Bytes rest;               ///< its offer; in an answer: the decision
};
Value written(const Greeting& greeting) {
  return value_of(WireWriter().text(greeting.name).value(greeting.world_size).rest(greeting.rest).take());
}
Greeting read_greeting(const Value& value) {
  WireReader reader(std::as_bytes(std::span(value)));
  std::string name = reader.text();
  const auto world_size = reader.value<std::int32_t>();
  return {std::move(name), world_size, reader.rest()};
}

std::string hello_key(int rank) { return "sinew/hello/" + std::to_string(rank); }
std::string answer_key(const std::string& number) { return "sinew/answer/" + number; }

/// The bytes of all ranks as one value.
Value packed(const std::vector<Bytes>& all) {
  WireWriter writer;
  for (const Bytes& bytes : all) writer.bytes(bytes);
  return value_of(writer.take());
}

std::vector<Bytes> unpacked(const Value& value, int size) {
  WireReader reader(std::as_bytes(std::span(value)));
  std::vector<Bytes> all;
  for (int rank = 0; rank < size; ++rank) all.push_back(reader.owned_bytes());
  return all;
}

}  // namespace

StoreExchange::StoreExchange(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                             std::chrono::milliseconds timeout)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      timeout_(timeout),
      last_(begun_ + timeout),
      answered_(static_cast<std::size_t>(rank == 0 ? size - 1 : 0)) {}

Bytes StoreExchange::meet(const Bytes& offer, const Decide& decide) {
  if (rank_ == 0) {
    invite(offer, decide);
  } else {
    find_meeting(offer);
  }
  return decision_;
}

StoreExchange::Keys StoreExchange::hello_keys() const {
  Keys keys;
  for (int r = 1; r < size_; ++r) keys.push_back(hello_key(r));
  return keys;
}

void StoreExchange::invite(const Bytes& offer, const Decide& decide) {
  meeting_ = "sinew/" + random_name();
  const Keys keys = hello_keys();
  while (!wait_a_moment(keys, begun_)) {
    // The others wait longer, too, and are to know that it is not for this rank.
    if (!std::exchange(greeted_, true)) store_->set(hello_key(0), written({meeting_, size_, {}}));
    if (time_is_up()) give_up(missing(hello_key));
  }
  const auto hellos = get_all(keys);
  std::vector<Bytes> offers{offer};
  for (const Value& hello : hellos) offers.push_back(read_greeting(hello).rest);
  decision_ = decide(offers);
  answer_hellos(hellos);
}

void StoreExchange::answer_hellos(const std::vector<Value>& hellos) {
  const Value answer = written({meeting_, size_, decision_});
  for (std::size_t i = 0; i < hellos.size(); ++i) {
    std::string& known = answered_[i];
    std::string number = read_greeting(hellos[i]).name;
    if (number == known) continue;
    if (!known.empty()) store_->deleteKey(answer_key(known));
    store_->set(answer_key(number), answer);
    known = std::move(number);
  }
}

void StoreExchange::find_meeting(const Bytes& offer) {
  number_ = random_name();
  store_->set(hello_key(rank_), written({number_, size_, offer}));
  greeted_ = true;
  while (!wait_a_moment({answer_key(number_)}, begun_)) {
    if (!time_is_up()) continue;
    const std::vector<int> absent = missing(hello_key);
    give_up(absent.empty() ? std::vector<int>{0} : absent);
  }
  Greeting answer = read_greeting(store_->get(answer_key(number_)));
  meeting_ = std::move(answer.name);
  decision_ = std::move(answer.rest);
  if (answer.world_size != size_) {
    throw Error(Code::Mismatch, c10::str("start-up: rank 0 has a world size of ", answer.world_size, " and rank ",
                                         rank_, " one of ", size_, ": give all ranks the same"));
  }
}

Exchange StoreExchange::exchange() {
  Exchange e;
  e.rank = rank_;
  e.size = size_;
  e.all_gather = [this](const Bytes& mine) { return all_gather(mine); };
  e.check = [this] {
    if (Clock::now() < next_slow_check_) return;
    next_slow_check_ = Clock::now() + kBetweenSlowChecks;
    require_no_failure();
  };
  return e;
}

std::vector<Bytes> StoreExchange::all_gather(const Bytes& mine) {
  if (rank_ == 0) return gather(mine);
  const std::uint64_t round = rounds_++;
  store_->set(round_key(round, rank_), value_of(mine));
  const Clock::time_point since = Clock::now();
  while (!wait_a_moment({round_key(round)}, since)) {
    // Rank 0 has come, as it answered, and waits for the same ranks as this one.
    if (time_is_up()) give_up(missing([&](int r) { return r == 0 ? round_key(round, rank_) : round_key(round, r); }));
  }
  std::vector<Bytes> all = unpacked(store_->get(round_key(round)), size_);
  store_->deleteKey(round_key(round, rank_));
  return all;
}

std::vector<Bytes> StoreExchange::gather(const Bytes& mine) {
  const std::uint64_t round = rounds_++;
  Keys keys;
  for (int r = 1; r < size_; ++r) keys.push_back(round_key(round, r));
  const Clock::time_point since = Clock::now();
  while (!wait_a_moment(keys, since)) {
    if (const Keys hellos = hello_keys(); round == 0 && store_->check(hellos)) answer_hellos(get_all(hellos));
    if (time_is_up()) give_up(missing([&](int r) { return round_key(round, r); }));
  }
  std::vector<Bytes> all{mine};
  for (const Value& value : get_all(keys)) {
    const auto bytes = std::as_bytes(std::span(value));
    all.emplace_back(bytes.begin(), bytes.end());
  }
  store_->set(round_key(round), packed(all));
  // All ranks have read the round before, as they wrote to this one.
  if (round > 0) store_->deleteKey(round_key(round - 1));
  return all;
}

void StoreExchange::leave() {
  if (rank_ != 0) store_->deleteKey(answer_key(number_));
  if (greeted_) store_->deleteKey(hello_key(rank_));
  const std::string left = meeting_ + "/left";
  if (rank_ != 0) {
    store_->add(left, 1);
    return;
  }
  const Clock::time_point since = Clock::now();
  while (store_->add(left, 0) < size_ - 1) {
    if (Clock::now() - since > kLongestLeave) return;  // a rank has died, which the World finds out
    pause(since);
    check_slowly();
  }
  if (rounds_ > 0) store_->deleteKey(round_key(rounds_ - 1));
  store_->deleteKey(left);
}

void StoreExchange::tell_failure(std::string_view text) noexcept {
  if (meeting_.empty()) return;
  try {
    store_->set(failure_key(), value_of(c10::str("rank ", rank_, ": ", text)));
  } catch (const std::exception&) {
    // The store has gone, too, and the others find that out.
  }
}

std::vector<Value> StoreExchange::get_all(const Keys& keys) {
  if (keys.empty()) return {};
  if (store_->hasExtendedApi()) return store_->multiGet(keys);
  std::vector<Value> values;
  for (const std::string& key : keys) values.push_back(store_->get(key));
  return values;
}

bool StoreExchange::wait_a_moment(const Keys& keys, Clock::time_point since) {
  const Clock::time_point end = Clock::now() + kMoment;
  do {
    if (store_->check(keys)) return true;
    pause(since);
  } while (Clock::now() < end);
  check_slowly();
  return false;
}

void StoreExchange::check_slowly() {
  if (Clock::now() < next_slow_check_) return;
  next_slow_check_ = Clock::now() + kBetweenSlowChecks;
  run_signal_handlers();
  require_no_failure();
}

void StoreExchange::require_no_failure() {
  if (!meeting_.empty() && has(failure_key())) throw Error(Code::Aborted, text_of(store_->get(failure_key())));
}

template <class KeyOf>
std::vector<int> StoreExchange::missing(KeyOf&& key_of) {
  std::vector<int> ranks;
  for (int r = 0; r < size_; ++r) {
    if (r != rank_ && !has(key_of(r))) ranks.push_back(r);
  }
  return ranks;
}

std::string StoreExchange::other_world_sizes() {
  std::string text;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_ || !has(hello_key(r))) continue;
    if (const int other = read_greeting(store_->get(hello_key(r))).world_size; other != size_)
      text += c10::str("; rank ", r, " was started with a world size of ", other, ", and this rank with ", size_);
  }
  return text;
}

void StoreExchange::give_up(const std::vector<int>& missing) {
  const std::string who =
      missing.empty() ? "the last rank" : c10::str(missing.size() == 1 ? "rank " : "ranks ", c10::Join(", ", missing));
  const std::string text =
      c10::str("start-up: ", who, " did not come within ", timeout_.count(), " ms", other_world_sizes());
  throw Error(Code::Timeout, text, missing.empty() ? -1 : missing.front());
}

}  // namespace sinew::torch_backend
