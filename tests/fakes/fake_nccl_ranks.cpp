#include "fakes/fake_nccl_ranks.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace sinew::nccl::fakes {
namespace {

/// Of a meeting that all have come to: the work, or what is wrong with the callers.
void conclude(Clique& clique, Meeting& meeting) {
  const std::string expected = meeting.parts.front().signature();
  for (std::size_t r = 1; r < meeting.parts.size(); ++r) {
    const std::string found = meeting.parts[r].signature();
    if (found == expected) continue;
    clique.break_all(Result::InvalidUsage, fmt::format("rank 0 called {}, rank {} {}", expected, r, found));
    return;
  }
  fake::perform(meeting.parts);
  meeting.over = true;
}

std::size_t bytes_of(const Request& r) { return r.part.count * size_of(r.part.dtype); }

/// The messages of one group on one rank.
class Messages {
 public:
  explicit Messages(std::vector<Request> requests) : requests_(std::move(requests)) {}

  bool run() {
    OpaqueComm& comm = *requests_.front().comm;
    const std::scoped_lock guard(lock());
    if (comm.life == OpaqueComm::Life::Gone) return true;
    if (comm.clique->broken) return false;
    post(comm);
    std::erase_if(open_, [&](const Request& r) { return take(comm, r); });
    return open_.empty() && std::ranges::all_of(sent_, [](const auto& m) { return m->taken; });
  }

 private:
  void post(OpaqueComm& comm) {
    if (std::exchange(posted_, true)) return;
    for (const Request& r : requests_) {
      if (r.part.collective == Collective::Recv) {
        open_.push_back(r);
      } else {
        sent_.push_back(std::make_shared<Message>(r.part.in, r.part.count, r.part.dtype));
        comm.clique->messages[{comm.rank, r.peer}].push_back(sent_.back());
      }
    }
  }
  static bool take(OpaqueComm& comm, const Request& r) {
    auto& queue = comm.clique->messages[{r.peer, comm.rank}];
    if (queue.empty()) return false;
    Message& message = *queue.front();
    if (message.count != r.part.count || message.dtype != r.part.dtype) {
      comm.clique->break_all(Result::InvalidUsage, fmt::format("rank {} sends {} elements, rank {} expects {}", r.peer,
                                                               message.count, comm.rank, r.part.count));
      return false;
    }
    std::memcpy(r.part.out, message.from, bytes_of(r));
    message.taken = true;
    queue.pop_front();
    return true;
  }

  std::vector<Request> requests_;
  std::vector<Request> open_;
  std::vector<std::shared_ptr<Message>> sent_;
  bool posted_ = false;
};

}  // namespace

std::mutex& lock() {
  static std::mutex m;
  return m;
}

void Clique::break_all(Result result, const std::string& why) {
  broken = true;
  for (OpaqueComm* member : members) {
    if (member == nullptr || member->error != Result::Success) continue;
    member->error = result;
    member->words = why;
  }
}

fake::Step step_of(Request request, std::uint64_t number) {
  const auto came = std::make_shared<bool>(false);
  return [request, number, came] {
    OpaqueComm& comm = *request.comm;
    Clique& clique = *comm.clique;
    const std::scoped_lock guard(lock());
    if (comm.life == OpaqueComm::Life::Gone) return true;
    if (clique.broken) return false;
    Meeting& meeting = clique.meetings[number];
    meeting.parts.resize(clique.members.size());
    if (!std::exchange(*came, true)) {
      meeting.parts[static_cast<std::size_t>(comm.rank)] = request.part;
      ++meeting.here;
      if (meeting.here == static_cast<int>(clique.members.size())) conclude(clique, meeting);
    }
    if (!meeting.over) return false;
    if (--meeting.here == 0) clique.meetings.erase(number);
    return true;
  };
}

fake::Step step_of(std::vector<Request> messages) {
  return [group = std::make_shared<Messages>(std::move(messages))] { return group->run(); };
}

}  // namespace sinew::nccl::fakes
