#include "monitored_barrier.hpp"

#include <c10/util/StringUtil.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sinew/core/buffer.hpp>

#include "errors.hpp"
#include "waits.hpp"

namespace sinew::torch_backend {
namespace {

/// Tags of c10d are at most 2^31 - 1, so these two are free.
constexpr std::uint32_t kComing = 0x8000'0001;
constexpr std::uint32_t kAnswer = 0x8000'0002;
/// How long aborted calls take to end at most.
constexpr auto kEndsWithin = std::chrono::seconds(10);

/// The messages of one rank. They are over, or the program ends, before their memory goes.
class Messages {
 public:
  Messages(Group& group, Communicator& communicator, Clock::duration time)
      : group_(group), communicator_(communicator), bytes_(static_cast<std::size_t>(2 * group.size())) {
    options_.deadline = Deadline::after(time);
    options_.where = {};
    options_.label = "monitored_barrier";
  }
  void send(int rank, std::uint32_t tag) { add(communicator_.send(ConstBuffer(next(), 1), rank, tag, options_)); }
  void recv(int rank, std::uint32_t tag) { add(communicator_.recv(Buffer{next(), 1}, rank, tag, options_)); }
  std::size_t count() const noexcept { return works_.size(); }
  Status wait(std::size_t message, Deadline until) { return wait_for(works_[message], Clock::now(), until, true); }

  [[noreturn]] void fail(const std::string& text) {
    communicator_.abort(text);
    for (WorkList& w : works_) static_cast<void>(wait_for(w, Clock::now(), Deadline::after(kEndsWithin)));
    throw error_of(Status(Code::Timeout, text), "monitored_barrier");
  }

 private:
  std::byte* next() { return &bytes_[used_++]; }
  void add(Work work) { works_.emplace_back().push_back(std::move(work)); }

  Group& group_;
  Communicator& communicator_;
  CallOptions options_{};
  std::vector<std::byte> bytes_;
  std::size_t used_ = 0;
  std::vector<WorkList> works_;
};

void reach(Messages& messages, int rank) {
  messages.send(0, kComing);
  messages.recv(0, kAnswer);
  for (std::size_t m = 0; m < messages.count(); ++m) {
    const Status status = messages.wait(m, Deadline::never());
    if (status.ok()) continue;
    messages.fail(c10::str("Rank ", rank,
                           " successfully reached monitoredBarrier, but received errors while waiting for send/recv "
                           "from rank 0. Please check rank 0 logs for faulty rank.\n Original exception: \n",
                           status.message()));
  }
}

/// Waits for message i, which belongs to rank i + 1, for every i.
void wait_for_ranks(Messages& messages, std::size_t first, int size, std::chrono::milliseconds timeout,
                    bool all_missing) {
  const Deadline last = Deadline::after(timeout);
  std::vector<int> passed;
  std::vector<int> missing;
  for (int rank = 1; rank < size; ++rank) {
    if (!all_missing && last.passed()) {
      messages.fail(c10::str("Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms.\n",
                             passed.empty() ? std::string("No ranks successfully processed in monitoredBarrier.")
                                            : c10::str("Successfully processed ranks: ", c10::Join(", ", passed))));
    }
    const Status status =
        messages.wait(first + static_cast<std::size_t>(rank) - 1, all_missing ? Deadline::after(timeout) : last);
    if (status.ok()) {
      passed.push_back(rank);
      continue;
    }
    missing.push_back(rank);
    if (!all_missing) {
      messages.fail(c10::str("[Rank 0]: Rank ", rank, " failed to pass monitoredBarrier in ", timeout.count(), " ms\n",
                             " Original exception: \n",
                             status.code() == Code::Pending ? "it did not come" : status.message()));
    }
  }
  if (!missing.empty()) {
    messages.fail(c10::str("[Rank 0]: Ranks ", c10::Join(", ", missing), " failed to pass monitoredBarrier in ",
                           timeout.count(), " ms"));
  }
}

}  // namespace

void monitored_barrier(Group& group, std::chrono::milliseconds timeout, bool all_missing) {
  group.with_communicator("monitored_barrier", [&](Communicator& communicator) {
    // Rank 0 tells who is missing, so its patience decides, and not that of the others.
    const auto longest = std::max(group.timeouts().of_group(), bounded(timeout * group.size()));
    Messages messages(group, communicator, longest + std::chrono::seconds(1));
    if (group.rank() != 0) return reach(messages, group.rank());
    for (int rank = 1; rank < group.size(); ++rank) messages.recv(rank, kComing);
    wait_for_ranks(messages, 0, group.size(), timeout, all_missing);
    for (int rank = 1; rank < group.size(); ++rank) messages.send(rank, kAnswer);
    wait_for_ranks(messages, static_cast<std::size_t>(group.size()) - 1, group.size(), timeout, all_missing);
  });
}

}  // namespace sinew::torch_backend
