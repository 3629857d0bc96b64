#pragma once

#include <sched.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/host/host_peers.hpp>
#include <sinew/transports/shm/shm.hpp>
#include <support/reduce_reference.hpp>

namespace sinew::test {

/// One call, and how the memory of a rank lies: everything that may differ from rank to rank without changing results.
struct ShmCase {
  Collective collective = Collective::AllReduce;
  DType dtype = DType::F32;
  ReduceOp op = ReduceOp::Sum;
  std::uint64_t count = 0;
  int root = 0;
  bool in_place = false;
  bool same_pointer = false;  ///< in place, in the form where both pointers are equal
  bool registered_in = false;
  bool registered_out = false;
  const Reducer* user = nullptr;

  CollectiveDesc desc() const {
    CollectiveDesc d;
    d.collective = collective;
    d.dtype = dtype;
    d.op = op;
    d.count = count;
    d.root = root;
    d.user = user;
    return d;
  }
};

/// A completion that remembers whether it has fired.
struct Fired : Completion {
  bool fired = false;
  Fired() : Completion([](Completion& c) noexcept { static_cast<Fired&>(c).fired = true; }) {}
};

/// One rank of a world on this host with the offload for all of it.
class ShmRank {
 public:
  explicit ShmRank(const Exchange& world, const Bytes& facts = {}, std::vector<PartsOfRanks> parts = {})
      : world_(world), host_(world, "this host", Deadline::after(std::chrono::seconds(60))) {
    fabric_ = shm::module().open({world.rank, world.size, 0, host_, {}});
    for (int r = 0; r < world.size; ++r) group_.world_ranks.push_back(r);
    group_.rank = world.rank;
    offload_ = fabric_->make_offload({group_, world_, facts, std::move(parts)});
  }
  /// Ends together with the others.
  ~ShmRank() {
    try {
      (void)world_.all_gather({});
    } catch (const Error&) {
    }
  }

  int rank() const { return world_.rank; }
  int ranks() const { return world_.size; }
  CollectiveOffload& offload() { return *offload_; }
  Fabric& fabric() { return *fabric_; }
  HostPeers& host() { return host_; }
  void end_offload() { offload_.reset(); }
  void make_offload() { offload_ = fabric_->make_offload({group_, world_, {}}); }

  void launch(const CollectiveDesc& desc, const std::byte* in, std::byte* out, Fired& done, double factor = 1.0) {
    Call call{.desc = desc, .in = {in, 0}, .out = {out, 0}};
    call.fingerprint = fingerprint_of(desc);
    call.history = history_ = (history_ ^ call.fingerprint) * 0x9e3779b97f4a7c15U;
    if (reduces(desc.collective)) call.reducer = desc.user ? *desc.user : reducer_for(desc.op, desc.dtype);
    if (reduces(desc.collective) && !desc.user) call.many = many_reducer_for(desc.op, desc.dtype);
    if (desc.op == ReduceOp::Average) call.scaler = scaler_for(desc.dtype, 1.0 / ranks());
    if (desc.op == ReduceOp::PreMulSum) call.scaler = scaler_for(desc.dtype, factor);
    offload_->launch(call, done);
  }
  void wait(const Fired& done) {
    const auto give_up = Clock::now() + std::chrono::seconds(120);
    while (!done.fired) {
      if (offload_->progress() > 0) continue;
      ::sched_yield();
      if (Clock::now() > give_up) {
        ADD_FAILURE() << "rank " << rank() << ": no end in sight";
        return;
      }
    }
  }

  /// Memory of its own, registered or not; on no boundary in particular.
  std::byte* memory(std::size_t bytes, bool registered) {
    if (registered) {
      regions_.push_back(*fabric_->allocate(bytes + 24, false));
      return regions_.back().memory.data + 24;
    }
    ordinary_.push_back(std::make_unique<std::byte[]>(bytes + 8));
    return ordinary_.back().get() + 8;
  }
  void forget_memory() {
    regions_.clear();
    ordinary_.clear();
  }

 private:
  Exchange world_;
  HostPeers host_;
  std::unique_ptr<Fabric> fabric_;
  Group group_;
  std::unique_ptr<CollectiveOffload> offload_;
  std::uint64_t history_ = 0;
  std::vector<Region> regions_;
  std::vector<std::unique_ptr<std::byte[]>> ordinary_;
};

/// Runs the case and compares every element with its closed form.
void run_shm_case(ShmRank& rank, const ShmCase& c);

}  // namespace sinew::test
