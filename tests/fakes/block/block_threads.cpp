#include "fakes/block/block_threads.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <sinew/parallel/kernels/arguments.hpp>

#include "fakes/block/cuda_words.hpp"

FakeDim threadIdx, blockIdx, gridDim;

namespace sinew::fake {
namespace {

using parallel::kernels::kThreads;
using parallel::kernels::kWarp;
using parallel::kernels::kWarpsOfTeam;

/// A place at which threads wait for each other.
struct Meeting {
  int arrived = 0;
  unsigned long number = 0;
};

struct Thread {
  ucontext_t context;
  std::array<std::byte, 128 << 10> stack;
  bool ended;
  unsigned exchanges;  // of its warp, so far
};

class Block {
 public:
  void run(const std::function<void()>& f) {
    work_ = &f;
    of_block_ = {};
    of_warp_ = {};
    for (int i = 0; i < kThreads; ++i) begin(threads_[i]);
    std::array<unsigned, kWarpsOfTeam> warps{};
    std::iota(warps.begin(), warps.end(), 0U);
    while (std::ranges::any_of(warps, [&](unsigned warp) { return !has_ended(warp); })) {
      std::ranges::shuffle(warps, random_);
      bool moved = false;
      // A warp runs as far as it can before the next one, so that it is ahead wherever no thread waits for others.
      for (const unsigned warp : warps) {
        while (pass(warp)) moved = true;
      }
      if (!moved) {
        std::fputs("fake block: its threads wait for each other, or for one that has ended\n", stderr);
        std::abort();
      }
    }
  }
  void meet_block() { meet(of_block_, kThreads); }
  unsigned exchange(unsigned value, unsigned bits) {
    const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    // Two sets of words: a thread that is in its next exchange does not touch those that others read still.
    auto& words = words_[warp][threads_[threadIdx.x].exchanges++ % 2];
    words[lane] = value;
    meet(of_warp_[warp], kWarp);
    return words[lane ^ bits];
  }
  std::mt19937& random() { return random_; }

 private:
  void begin(Thread& t) {
    t.ended = false;
    t.exchanges = 0;
    ::getcontext(&t.context);
    t.context.uc_stack.ss_sp = t.stack.data();
    t.context.uc_stack.ss_size = t.stack.size();
    t.context.uc_link = &scheduler_;
    ::makecontext(&t.context, &Block::enter, 0);
  }
  static void enter();
  bool has_ended(unsigned warp) const {
    return std::all_of(&threads_[warp * kWarp], &threads_[warp * kWarp] + kWarp,
                       [](const Thread& t) { return t.ended; });
  }
  /// Lets each thread of a warp run until it waits. False if all of them wait still.
  bool pass(unsigned warp) {
    std::array<unsigned, kWarp> order{};
    std::iota(order.begin(), order.end(), warp * kWarp);
    std::ranges::shuffle(order, random_);
    moved_ = false;
    for (const unsigned i : order) {
      if (threads_[i].ended) continue;
      threadIdx.x = i;
      ::swapcontext(&scheduler_, &threads_[i].context);
    }
    return moved_;
  }
  void meet(Meeting& m, int threads) {
    moved_ = true;
    const unsigned long number = m.number;
    if (++m.arrived == threads) {
      m.arrived = 0;
      ++m.number;
    }
    const unsigned me = threadIdx.x;
    while (m.number == number) ::swapcontext(&threads_[me].context, &scheduler_);
  }

  const std::function<void()>* work_ = nullptr;
  ucontext_t scheduler_{};
  std::unique_ptr<Thread[]> threads_ = std::make_unique<Thread[]>(kThreads);
  Meeting of_block_;
  std::array<Meeting, kWarpsOfTeam> of_warp_{};
  unsigned words_[kWarpsOfTeam][2][kWarp] = {};
  bool moved_ = false;  // a thread has come to a barrier, or ended
  std::mt19937 random_{49};
};

Block& block() {
  static Block only;
  return only;
}

void Block::enter() {
  Block& b = block();
  const unsigned me = threadIdx.x;
  (*b.work_)();
  b.threads_[me].ended = true;
  b.moved_ = true;
}

}  // namespace

void run_blocks(unsigned teams, const std::function<void()>& f) {
  gridDim.x = teams;
  std::vector<unsigned> order(teams);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::shuffle(order, block().random());
  for (const unsigned team : order) {
    blockIdx.x = team;
    block().run(f);
  }
}

}  // namespace sinew::fake

void __syncthreads() { sinew::fake::block().meet_block(); }
unsigned __shfl_xor_sync(unsigned, unsigned value, int bits) {
  return sinew::fake::block().exchange(value, static_cast<unsigned>(bits));
}
