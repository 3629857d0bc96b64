#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <filesystem>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/random.hpp>
#include <sinew/core/base/thrown.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/host_name.hpp>
#include <sinew/core/system/thread_without_signals.hpp>
#include <sinew/parallel/checkpoint/async_checkpointer.hpp>
#include <sinew/parallel/checkpoint/files/file.hpp>
#include <sinew/parallel/checkpoint/files/rank_file.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/save_plan.hpp>
#include <sinew/parallel/checkpoint/save_report.hpp>
#include <sinew/parallel/checkpoint/snapshot.hpp>
#include <sinew/parallel/common/all_or_none.hpp>
#include <sinew/parallel/data_parallel/data_parallel.hpp>
#include <sinew/parallel/mesh/agreement.hpp>

namespace sinew::parallel {
namespace {

constexpr const char* kReportLabel = "what each rank has saved";
constexpr const char* kOutcomeLabel = "the end of a save";

/// A piece of a file, as bytes of a part.
struct PieceSource {
  std::size_t part = 0, offset = 0, bytes = 0;
};

/// Where the pieces of a file are in the parts. Saves of the same parts have the pieces at the same places.
std::vector<PieceSource> sources_of(const RankFile& file, std::span<const CheckpointPart> parts) {
  std::vector<std::size_t> by_address(parts.size());
  std::iota(by_address.begin(), by_address.end(), std::size_t{0});
  const auto address = [&](std::size_t part) { return parts[part].buffer.data; };
  std::erase_if(by_address, [&](std::size_t part) { return parts[part].buffer.bytes == 0; });
  std::ranges::sort(by_address, std::less(), address);
  std::vector<PieceSource> sources;
  for (const ConstBuffer& piece : file.pieces) {
    if (piece.bytes == 0) {
      sources.emplace_back();
      continue;
    }
    const std::size_t part = *(std::ranges::upper_bound(by_address, piece.data, std::less(), address) - 1);
    sources.push_back({part, static_cast<std::size_t>(piece.data - parts[part].buffer.data), piece.bytes});
  }
  return sources;
}

bool are_same(const std::vector<PartDescription>& before, std::span<const CheckpointPart> now) {
  return std::ranges::equal(before, now, [](const PartDescription& a, const CheckpointPart& b) {
    return a.item == b.item && a.extent == b.extent;
  });
}

/// Adds the time until its end to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(Duration& sum) noexcept : sum_(&sum) {}
  ~Stopwatch() { *sum_ += Clock::now() - began_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Duration* sum_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace

/// The World's thread moves a save through the stages in their order. Only in Copying and Committing does a thread of
/// the save work. It touches no communicator.
struct AsyncCheckpointer::State {
  enum class Stage : std::uint8_t {
    Idle,
    Writing,     ///< the thread copies this rank's pieces and writes its file
    Reporting,   ///< rank 0 gathers what each rank has written, or why it has not
    Committing,  ///< rank 0 only: the thread writes the index and puts the checkpoint in place
    Ending,      ///< rank 0 tells all ranks how the save has ended
  };

  State(CallGroup ranks, const std::string& to, const AsyncCheckpointerOptions& how)
      : all(ranks), folder(to), options(how) {
    const std::string asked = fmt::format("folder '{}', when busy {}", folder, static_cast<int>(options.when_busy));
    require_equal_on_all(all, "asynchronous checkpoints", asked, all.options("asynchronous checkpoints"));
    id = text_of_root(all, fmt::format("{:016x}", random_id()), 0);
    own = all->split(0, all->rank(), all.options("asynchronous checkpoints"), "checkpoints");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (stage == Stage::Idle) return;
    gives_up.store(true, std::memory_order_relaxed);
    if (thread.joinable()) thread.join();
    try {
      own.abort_here(what + " was given up: its AsyncCheckpointer has ended");
      static_cast<void>(call.wait(Deadline::after(std::chrono::seconds(1))));
    } catch (const Error&) {  // the World has ended
    }
    discard();
  }

  bool save(std::span<const CheckpointPart> parts, const CheckpointMetadata& metadata) {
    stalled = {};
    const Stopwatch watch(stalled);
    move_on(false);
    const std::string next = fmt::format("save of step {} to {}", metadata.step, folder);
    Status mine;
    bool is_new = true;
    try {
      require_sound(metadata);
      for (const CheckpointPart& part : parts) require_valid(part);
      is_new = !is_planned || !are_same(descriptions, parts);
    } catch (...) {
      mine = status_of_current_exception();
    }
    std::array<std::int32_t, 4> any{!mine.ok(), !failure.ok(), stage != Stage::Idle, is_new};
    all->all_reduce(any, ReduceOp::Max, all.options(next.c_str())).get();
    if (any[0] != 0) on_all_or_none(all, next, [&] { mine.require(); });
    if (any[1] != 0) finish();
    if (any[2] != 0) {
      if (options.when_busy == WhenBusy::Skip) return false;
      if (options.when_busy == WhenBusy::Refuse)
        throw Error(Code::InvalidArgument,
                    fmt::format("{}: the save of step {} has not ended; expected finish() first, or another "
                                "AsyncCheckpointerOptions::when_busy",
                                next, plan.metadata.step));
      finish();
    }
    what = next;
    if (any[3] != 0) {
      plan_anew(parts, metadata);
    } else {
      require_equal_metadata(all, what, metadata);
      plan.metadata = metadata;
    }
    begin(parts);
    return true;
  }

  void plan_anew(std::span<const CheckpointPart> parts, const CheckpointMetadata& metadata) {
    is_planned = false;
    plan = plan_with_all(all, what, parts, metadata);
    on_all_or_none(all, what, [&] {
      const RankFile file = file_of_rank(plan, all->rank(), parts);
      number_of_file = file.file;
      sources = sources_of(file, parts);
      std::size_t bytes = 0;
      for (const PieceSource& source : sources) bytes += source.bytes;
      snapshot.reserve(bytes);
      sizes = report_sizes(plan);
      for (std::uint64_t& size : sizes) size += kStatusWords;
      report.resize(sizes[static_cast<std::size_t>(all->rank())]);
      if (is_first()) reports.resize(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
      descriptions = descriptions_of(parts);
    });
    is_planned = true;
  }

  void begin(std::span<const CheckpointPart> parts) {
    std::vector<ConstBuffer> pieces;
    for (const PieceSource& source : sources)
      pieces.push_back(source.bytes == 0 ? ConstBuffer() : parts[source.part].buffer.part(source.offset, source.bytes));
    snapshot.begin(std::move(pieces));
    partial = partial_folder(folder, plan.metadata.step, fmt::format("{}-{}", id, saves++));
    stage = Stage::Writing;
    start([this] { return write(); });
  }

  /// Runs `body` on a thread. Its outcome is in `outcome` when `thread_ended` is true.
  template <class Body>
  void start(Body body) {
    outcome = {};
    thread_ended.store(false, std::memory_order_relaxed);
    try {
      thread = thread_without_signals([this, body] {
        try {
          body();
        } catch (...) {
          outcome = status_of_current_exception();
        }
        thread_ended.store(true, std::memory_order_release);
      });
    } catch (const std::exception& e) {  // there is no thread: the save fails on all ranks, as if it could not write
      outcome = status_of(e);
      snapshot.finish();
      thread_ended.store(true, std::memory_order_relaxed);
    }
  }

  void write() {
    snapshot.finish();
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), options.niceness);  // of this thread, as Linux has it
    join_partial_folder(folder, partial, is_first());
    const std::vector<std::uint64_t> written =
        write_file(plan, {.file = number_of_file, .pieces = snapshot.copies()}, partial, &gives_up);
    std::ranges::copy(written, report.begin() + kStatusWords);
  }

  /// On rank 0. `failed` is the first failure of a rank.
  void commit(const Status& failed) {
    if (!failed.ok()) {
      discard();
      failed.require();
    }
    try {
      CheckpointIndex index = plan;
      std::vector<std::vector<std::uint64_t>> of_ranks;
      auto at = reports.begin();
      for (const std::uint64_t size : sizes) {
        of_ranks.emplace_back(at + kStatusWords, at + static_cast<std::ptrdiff_t>(size));
        at += static_cast<std::ptrdiff_t>(size);
      }
      complete(index, of_ranks);
      NewFile file(partial + "/index.json");
      file.write(to_text(index));
      file.finish();
      put_in_place(partial, folder, plan.metadata.step);
    } catch (...) {
      const Status why = named(status_of_current_exception());
      discard();
      why.require();
    }
  }

  /// waits: until the save has ended. Otherwise only what has ended already is taken notice of.
  void move_on(bool waits) noexcept {
    try {
      while (stage != Stage::Idle && is_through(waits)) enter_next();
    } catch (...) {  // a rank has died, or the communicator has ended
      end(status_of_current_exception());
    }
  }

  /// Returns whether this rank's part of the stage has ended.
  bool is_through(bool waits) {
    if (stage == Stage::Writing || stage == Stage::Committing) {
      if (!waits && !thread_ended.load(std::memory_order_acquire)) return false;
      if (waits) snapshot.finish();
      if (thread.joinable()) thread.join();
      return true;
    }
    if (!waits && !call.test()) return false;
    call.wait(Deadline::never()).require();
    call = {};
    return true;
  }

  void enter_next() {
    switch (stage) {
      case Stage::Writing: {
        const StatusWords words = words_of(named(outcome));
        std::ranges::copy(words, report.begin());
        stage = Stage::Reporting;
        call =
            own.gather_v(report, reports, 0, Parts{sizes}, all.options(kReportLabel, {.deadline = Deadline::never()}));
        return;
      }
      case Stage::Reporting:
        if (!is_first()) return hear_end();
        stage = Stage::Committing;
        return start([this] { commit(first_failure()); });
      case Stage::Committing: last_words = words_of(outcome); return hear_end();
      case Stage::Ending: return end(status_from(last_words));
      case Stage::Idle: return;
    }
  }

  void hear_end() {
    stage = Stage::Ending;
    call = own.broadcast(last_words, 0, all.options(kOutcomeLabel, {.deadline = Deadline::never()}));
  }

  void end(const Status& how) {
    if (thread.joinable()) thread.join();
    call = {};
    stage = Stage::Idle;
    failure = how;
    if (how.ok()) in_place = plan.metadata.step;
  }

  void finish() {
    move_on(true);
    std::exchange(failure, {}).require();
  }

  Status first_failure() const {
    std::size_t at = 0;
    for (const std::uint64_t size : sizes) {
      const Status status = status_from(std::span(reports).subspan(at).first<kStatusWords>());
      if (!status.ok()) return status;
      at += size;
    }
    return {};
  }

  /// A failure on this rank, as all ranks throw it.
  Status named(const Status& status) const {
    if (status.ok()) return {};
    return {status.code(),
            fmt::format("{}: {} on {}: {}", what, all->rank_text(all->rank()), host_name(), status.message()),
            all->rank()};
  }

  void discard() const noexcept {
    std::error_code ignored;  // the next save removes what stays
    if (is_first()) std::filesystem::remove_all(partial, ignored);
  }

  bool is_first() const noexcept { return all->rank() == 0; }

  CallGroup all;
  std::string folder;
  AsyncCheckpointerOptions options;
  std::string id;
  Communicator own;  // so that its calls may have any order beside those of the training
  std::vector<std::shared_ptr<StepProtocol::Reader>> reads;
  std::uint64_t saves = 0;

  bool is_planned = false;
  std::vector<PartDescription> descriptions;  // of this rank's parts, when they were planned
  CheckpointIndex plan;
  std::int32_t number_of_file = -1;
  std::vector<PieceSource> sources;
  std::vector<std::uint64_t> sizes;  // of all reports

  Stage stage = Stage::Idle;
  std::string what, partial;
  Snapshot snapshot;
  std::thread thread;
  std::atomic<bool> thread_ended{true}, gives_up{false};
  Status outcome;                              // of the thread
  std::vector<std::uint64_t> report, reports;  // a Status, then what write_file returned; reports: of all ranks
  StatusWords last_words{};
  Work call;
  Status failure;  // of the last save, until it is thrown
  std::optional<std::int64_t> in_place;
  Duration stalled{};
};

AsyncCheckpointer::AsyncCheckpointer(CallGroup all, const std::string& folder, const AsyncCheckpointerOptions& options)
    : state_(std::make_unique<State>(all, folder, options)) {}
AsyncCheckpointer::AsyncCheckpointer(AsyncCheckpointer&&) noexcept = default;
AsyncCheckpointer& AsyncCheckpointer::operator=(AsyncCheckpointer&&) noexcept = default;
AsyncCheckpointer::~AsyncCheckpointer() = default;

void AsyncCheckpointer::follow(DataParallel& data) {
  state_->reads.push_back(data.protocol().join_as_reader([state = state_.get()] {
    const Stopwatch watch(state->stalled);
    state->snapshot.finish();
    state->move_on(false);
  }));
}

bool AsyncCheckpointer::save(std::span<const CheckpointPart> parts, const CheckpointMetadata& metadata) {
  return state_->save(parts, metadata);
}
void AsyncCheckpointer::finish_copy() noexcept {
  const Stopwatch watch(state_->stalled);
  state_->snapshot.finish();
  state_->move_on(false);
}
bool AsyncCheckpointer::poll() noexcept {
  const Stopwatch watch(state_->stalled);
  state_->move_on(false);
  return state_->stage == State::Stage::Idle;
}
void AsyncCheckpointer::finish() {
  const Stopwatch watch(state_->stalled);
  state_->finish();
}
std::optional<std::int64_t> AsyncCheckpointer::in_place() const noexcept { return state_->in_place; }
Duration AsyncCheckpointer::stalled() const noexcept { return state_->stalled; }

}  // namespace sinew::parallel
