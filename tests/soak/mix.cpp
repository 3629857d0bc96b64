#include "mix.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/element_range.hpp>
#include <sinew/core/error.hpp>

#include "footprint.hpp"

namespace sinew::soak {
namespace {

constexpr std::size_t kMostCommunicators = 5;
constexpr std::uint64_t kLargestBytes = 1 << 20;
constexpr int kOctaves = 17;  // of counts

using Numbers = std::vector<std::int64_t>;

std::int64_t value_of(int rank, std::uint64_t salt, std::size_t i) noexcept {
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(rank) + 1) * (salt % 1009 + 1) + i % 257);
}

void fill(Numbers& numbers, int rank, std::uint64_t salt) {
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = value_of(rank, salt, i);
}

template <class Range>
std::uint64_t wrong_sums(const Range& sums, int ranks, std::uint64_t salt) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < std::size(sums); ++i) {
    std::int64_t sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value_of(r, salt, i);
    wrong += sums[i] != sum ? 1 : 0;
  }
  return wrong;
}

/// Calls before this one are over on all ranks. false: somebody who knew that sooner has ended the communicator.
bool have_come(Communicator& all) {
  const Status status = all.barrier().wait(Deadline::after(std::chrono::minutes(1)));
  if (status.code() != Code::Aborted) status.require();
  return status.ok();
}

}  // namespace

Communicator& Mix::any(std::uint64_t which) {
  const std::size_t i = which % (others_.size() + 1);
  return i == 0 ? world_->communicator() : others_[i - 1];
}

/// Small ones as often as large ones, by octaves.
std::uint64_t Mix::count_of(const Draw& draw) const noexcept {
  const std::uint64_t below = std::uint64_t{1} << (draw.size % (kOctaves + 1));
  return draw.more % 16 == 0 ? 0 : draw.more % below + below / 2;
}

void Mix::step() {
  ++steps_;
  const Draw draw{random_(), random_(), random_(), random_()};
  const std::uint64_t of_2000 = draw.kind % 2000;
  if (of_2000 < 1400) return checked_call(draw);
  if (of_2000 < 1600) return calls_in_flight(draw);
  if (of_2000 < 1780) return messages(draw);
  if (of_2000 < 1850) return repeated_plan(draw);
  if (of_2000 < 1920) return registered(draw);
  if (of_2000 < 1990) return split_or_end(draw);
  if (of_2000 < 1999) return abort_one(draw);
  next_generation();
}

void Mix::checked_call(const Draw& draw) {
  Communicator& c = any(draw.which);
  auto& cases = cases_[c.size()];
  if (cases.empty()) cases = test::pairwise_cases(c.size(), kLargestBytes);
  test::CollectiveCase one = cases[draw.size / kOctaves % cases.size()];
  one.root = static_cast<int>(draw.more / 64 % static_cast<std::uint64_t>(c.size()));
  if (draw.kind / 4096 % 2 == 0) one.count = count_of(draw) / size_of(one.dtype);
  doing_ = fmt::format("{} of {} ranks", one.to_string(), c.size());
  wrong_ += test::run_case(c, one, static_cast<std::uint32_t>(steps_));
  count(one.count * size_of(one.dtype));
}

void Mix::calls_in_flight(const Draw& draw) {
  doing_ = "several all_reduces in flight";
  struct Call {
    Communicator* communicator;
    Numbers numbers;
    Work work;
  };
  std::vector<Call> calls(2 + draw.more / 16 % 5);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Communicator& c = any(draw.which / 7 + i);
    calls[i] = {&c, Numbers(count_of(draw) / 8 + i), {}};
    fill(calls[i].numbers, c.rank(), steps_ + i);
    calls[i].work = c.all_reduce(calls[i].numbers);
    count(calls[i].numbers.size() * sizeof(std::int64_t));
  }
  std::vector<std::size_t> order(calls.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(draw.which));
  for (const std::size_t i : order) {
    calls[i].work.get();
    wrong_ += wrong_sums(calls[i].numbers, calls[i].communicator->size(), steps_ + i);
  }
}

void Mix::messages(const Draw& draw) {
  doing_ = "messages to and from other ranks";
  Communicator& c = any(draw.which);
  if (c.size() == 1) return;
  const int shift = 1 + static_cast<int>(draw.more / 64 % static_cast<std::uint64_t>(c.size() - 1));
  const int to = (c.rank() + shift) % c.size(), from = (c.rank() + c.size() - shift) % c.size();
  Numbers out(count_of(draw) / 8), in(out.size());
  fill(out, c.rank(), steps_);
  if (draw.kind / 4096 % 2 == 0) {
    c.sendrecv(out, to, in, from).get();
  } else {
    c.group({Message::send(const_buffer_of(out), to, 9), Message::recv(buffer_of(in), from, 9)}).get();
  }
  for (std::size_t i = 0; i < in.size(); ++i) wrong_ += in[i] != value_of(from, steps_, i) ? 1 : 0;
  count(in.size() * sizeof(std::int64_t));
}

void Mix::repeated_plan(const Draw& draw) {
  doing_ = "a plan that runs three times";
  Communicator& c = any(draw.which);
  Numbers numbers(count_of(draw) / 8);
  const Plan plan = c.plan({.collective = Collective::AllReduce, .dtype = DType::I64, .count = numbers.size()});
  for (std::uint64_t i = 0; i < 3; ++i) {
    fill(numbers, c.rank(), steps_ + i);
    c.run(plan, numbers, numbers).get();
    wrong_ += wrong_sums(numbers, c.size(), steps_ + i);
    count(numbers.size() * sizeof(std::int64_t));
  }
}

void Mix::registered(const Draw& draw) {
  doing_ = "an all_reduce in the World's memory";
  Communicator& c = any(draw.which);
  Numbers numbers(count_of(draw) / 8 + 1);
  fill(numbers, c.rank(), steps_);
  Memory memory = world_->allocate(numbers.size() * sizeof(std::int64_t));
  const std::span shared(reinterpret_cast<std::int64_t*>(memory.buffer().data), numbers.size());
  std::ranges::copy(numbers, shared.begin());
  c.all_reduce(shared).get();
  wrong_ += wrong_sums(shared, c.size(), steps_);
  count(numbers.size() * sizeof(std::int64_t));
}

void Mix::split_or_end(const Draw& draw) {
  doing_ = "a split, or the end of a communicator";
  if (others_.size() == kMostCommunicators || (draw.more / 64 % 3 == 0 && !others_.empty())) {
    others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(draw.which % others_.size()));
    return;
  }
  Communicator& c = any(draw.which);
  const int colors = 1 + static_cast<int>(draw.more / 64 % 2);
  others_.push_back(c.split(c.rank() % colors, draw.size % 2 == 0 ? c.rank() : -c.rank()));
}

/// Rank 0 gives a communicator up: the others hear of it wherever they are in it.
void Mix::abort_one(const Draw& draw) {
  doing_ = "the abort of a communicator";
  if (others_.empty()) return;
  const auto which = others_.begin() + static_cast<std::ptrdiff_t>(draw.which % others_.size());
  const bool was_aborted = !have_come(*which);
  if (which->rank() == 0) which->abort("soak");
  if (which->rank() > 0 && !was_aborted && have_come(*which))
    throw std::runtime_error("a barrier of a communicator that rank 0 has aborted, and does not call, ended well");
  others_.erase(which);
}

Footprint Mix::next_generation() {
  doing_ = "shrink, with nobody dead";
  others_.clear();
  static_cast<void>(have_come(world_->communicator()));
  auto next = std::make_unique<World>(world_->shrink());
  if (next->size() != world_->size() || next->rank() != world_->rank())
    throw std::runtime_error(fmt::format("shrink with nobody dead made rank {} of {} of {} of {}", next->rank(),
                                         next->size(), world_->rank(), world_->size()));
  world_ = std::move(next);
  return use_all_connections();
}

/// The control thread makes connections while calls run. This function returns when each pair of ranks has a connection
/// and no rank's number of descriptors changes any longer. One look alone could also count a file that the
/// control thread has open for a moment.
Footprint Mix::use_all_connections() {
  doing_ = "a message in each pair";
  Communicator& all = world_->communicator();
  const auto ranks = static_cast<std::size_t>(all.size());
  constexpr std::size_t kCount = 16384;  // too long to be sent before it is received
  const Numbers out(kCount);
  std::vector<Numbers> in(ranks, Numbers(kCount));
  std::vector<Work> works;
  for (int r = 0; r < all.size(); ++r) {
    if (r == all.rank()) continue;
    works.push_back(all.recv(in[static_cast<std::size_t>(r)], r, 1));
    works.push_back(all.send(out, r, 1));
  }
  for (Work& w : works) w.get();
  // Both ranks of a pair may have connected. The connections that they do not keep are closed in this loop.
  constexpr int kEqual = 6;
  constexpr int kMost = 100;
  Footprint last = footprint_now();
  for (int equal = 0, i = 0; equal < kEqual && i < kMost; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Footprint now = footprint_now();
    equal = largest(now.descriptors == last.descriptors ? 0 : 1) == 0 ? equal + 1 : 0;
    last = std::move(now);
  }
  return last;
}

bool Mix::all_go_on(bool mine) {
  std::array<std::uint8_t, 1> goes_on{static_cast<std::uint8_t>(mine ? 1 : 0)};
  world_->communicator().broadcast(goes_on, 0).get();
  return goes_on[0] != 0;
}

std::int64_t Mix::largest(std::int64_t mine) {
  std::array<std::int64_t, 1> value{mine};
  world_->communicator().all_reduce(value, ReduceOp::Max).get();
  return value[0];
}

}  // namespace sinew::soak
