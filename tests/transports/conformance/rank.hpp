#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/fabric.hpp>
#include <sinew/core/transport.hpp>

namespace sinew::test {

/// A transport of one rank, and whatever it must not outlive.
struct Rail {
  Rail(std::unique_ptr<Transport> alone) : transport(alone.get()), hold(std::move(alone)) {}
  Rail(Transport* of, std::shared_ptr<void> holder) : transport(of), hold(std::move(holder)) {}

  Transport* transport;
  std::shared_ptr<void> hold;
};
/// Called by every rank at the same time.
using MakeRail = std::function<Rail(const Exchange&)>;
/// The first rail of a module that is opened as a World opens it.
/// Errors: Error{Unavailable} with the module's reason.
Rail open_rail(Module& module, const Exchange& world, const Config& config = {});

/// An operation under watch: how often it fired, and whether it ever did so outside progress().
struct Watched : Completion {
  Watched();
  ~Watched() { EXPECT_LE(fired, 1) << "fired more than once"; }
  bool done() const { return fired > 0; }

  int fired = 0;
  bool outside = false;
  std::function<void()> then;  ///< runs inside fire
};

/// What a case sees of one rank. Whatever waits gives up after a minute and fails the test.
class Rank {
 public:
  Rank(const Exchange& world, const MakeRail& make);
  ~Rank();

  int rank() const { return world_.rank; }
  int size() const { return world_.size; }
  Transport& transport() { return *rail_.transport; }
  /// Connects on first use.
  Endpoint& peer(int rank);
  const Address& address_of(int rank) const { return addresses_[static_cast<std::size_t>(rank)]; }
  /// What each rank has given, by rank; without progress in the meantime.
  std::vector<Bytes> gather(const Bytes& mine) { return world_.all_gather(mine); }
  /// Returns without progress having been made in the meantime.
  void barrier() { static_cast<void>(world_.all_gather({})); }

  int progress();
  /// Progresses until `holds`; false, with a failure, if that takes more than a minute.
  bool until(const std::function<bool()>& holds, const std::string& what);
  bool wait(Watched& w, const std::string& what = "an operation");
  bool wait(std::vector<Watched>& all, const std::string& what = "operations");
  /// Keeps progressing until all ranks are here.
  void barrier_with_progress();
  /// Progress for that long.
  void linger(std::chrono::milliseconds time);
  /// Closes the endpoint in the way a caller must, and forgets it.
  void close(int rank);
  void drop_endpoint(int rank) { endpoints_.erase(rank); }
  /// This rank ends without the others: one of them is dead.
  void end_alone() { alone_ = true; }

 private:
  const Exchange& world_;
  Rail rail_;
  std::vector<Address> addresses_;
  std::map<int, std::unique_ptr<Endpoint>> endpoints_;
  bool alone_ = false;
};

/// `bytes` bytes that differ with `seed`.
std::vector<std::byte> pattern(std::size_t bytes, unsigned seed);
inline Buffer view(std::vector<std::byte>& v) { return {v.data(), v.size()}; }
inline ConstBuffer view(const std::vector<std::byte>& v) { return {v.data(), v.size()}; }
/// A tag of a collective's step, in generation 0.
inline Tag step(std::uint32_t match, std::uint16_t call = 1) { return Tag::collective(0, 2, call, match, 0); }
inline Tag user(std::uint32_t tag) { return Tag::user(0, 3, tag); }

}  // namespace sinew::test
