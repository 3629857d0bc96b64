#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fakes/fake_device.hpp"
#include "fakes/fake_nccl_data.hpp"

namespace sinew::nccl {

namespace fakes {
struct Clique;
struct Gathering;
}  // namespace fakes

/// What callers hold as ncclComm_t. Never freed: a use after its end shall be seen.
struct OpaqueComm {
  std::shared_ptr<fakes::Clique> clique;
  int rank = 0;
  int device = -1;
  enum class Life { Making, Alive, Finalizing, Finalized, Gone } life = Life::Making;
  bool hangs = false;              ///< a planted fault: does not meet the others
  int looks = 0;                   ///< at its state, since it was last asked for something
  Result error = Result::Success;  ///< asynchronous
  std::string words;               ///< of the last error
  std::uint64_t launches = 0;
  std::uint64_t meetings = 0;
  std::uint64_t gatherings = 0;
  int running = 0;                              ///< what is on streams and has not come to its end
  std::shared_ptr<fakes::Gathering> gathering;  ///< that the caller has asked for
  std::function<void()> when_all_came;          ///< what it then does
  std::vector<std::function<void()>> later;     ///< put on their streams when it has been looked at often enough
};

namespace fakes {

/// Guards everything here: the caller of NCCL holds it, and each step while it runs.
std::mutex& lock();

/// A message between two ranks that lies where its sender has it.
struct Message {
  const std::byte* from;
  std::size_t count;
  DType dtype;
  bool taken = false;
};

/// A collective call that waits for all ranks.
struct Meeting {
  std::vector<fake::Part> parts;
  int here = 0;
  bool over = false;
};

/// Something that all ranks of a clique are asked for without a stream: to split it, to know memory.
struct Gathering {
  int here = 0;
  std::map<int, std::pair<int, int>> colors;       ///< with keys, by rank
  std::map<int, std::shared_ptr<Clique>> cliques;  ///< by color
  std::map<int, std::size_t> bytes;                ///< by rank
};

/// The ranks of one unique id, or of one color of a split.
struct Clique {
  explicit Clique(int ranks) : members(static_cast<std::size_t>(ranks)) {}

  std::vector<OpaqueComm*> members;  ///< null: has not come yet
  int met = 0;
  bool broken = false;  ///< one of them was aborted: nothing more is read or written
  std::map<std::uint64_t, Meeting> meetings;
  std::map<std::uint64_t, std::shared_ptr<Gathering>> gatherings;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> messages;  ///< by sender and receiver

  void break_all(Result result, const std::string& why);
};

/// A send or a receive, or a collective, of one rank.
struct Request {
  OpaqueComm* comm;
  Stream stream;
  fake::Part part;
  int peer = -1;             ///< Send and Recv
  const void* to = nullptr;  ///< as the caller knows it
};

/// What a rank's stream does: true when its turn is over.
fake::Step step_of(Request collective, std::uint64_t meeting);
/// Sends and receives of one group run together.
fake::Step step_of(std::vector<Request> messages);

}  // namespace fakes
}  // namespace sinew::nccl
