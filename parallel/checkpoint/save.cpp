#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <filesystem>
#include <numeric>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/thrown.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/system/thread_without_signals.hpp>
#include <sinew/parallel/checkpoint/files/file.hpp>
#include <sinew/parallel/checkpoint/files/rank_file.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <sinew/parallel/checkpoint/save_plan.hpp>
#include <sinew/parallel/common/all_or_none.hpp>
#include <sinew/parallel/common/user_code.hpp>

namespace sinew::parallel {
namespace {

std::string_view stage_name(SaveStage stage) noexcept {
  switch (stage) {
    case SaveStage::Folder: return "Folder";
    case SaveStage::Written: return "Written";
    case SaveStage::Indexed: return "Indexed";
    case SaveStage::InPlace: return "InPlace";
  }
  return "";
}

/// Everybody's numbers, by rank.
std::vector<std::vector<std::uint64_t>> gathered(CallGroup all, const std::vector<std::uint64_t>& mine) {
  const std::array<std::uint64_t, 1> count{mine.size()};
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(all->size()));
  const CallOptions options = all.options("what each rank has saved");
  all->all_gather(count, counts, options).get();
  std::vector<std::uint64_t> joined(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  all->all_gather_v(mine, joined, Parts{counts}, options).get();
  std::vector<std::vector<std::uint64_t>> of_ranks;
  auto at = joined.begin();
  for (const std::uint64_t n : counts) {
    of_ranks.emplace_back(at, at + static_cast<std::ptrdiff_t>(n));
    at += static_cast<std::ptrdiff_t>(n);
  }
  return of_ranks;
}

}  // namespace

/// A save from its plan to its end. The thread touches nothing of the communicator.
struct AsyncSave::State {
  State(CallGroup ranks, const std::string& to, std::span<const CheckpointPart> parts,
        const CheckpointMetadata& metadata, const SaveOptions& how)
      : all(ranks), folder(to), options(how), what(fmt::format("save of step {} to {}", metadata.step, to)) {
    plan = plan_with_all(all, what, parts, metadata);
    file = file_of_rank(plan, all->rank(), parts);
    try {
      on_all_or_none(all, what, [&] {
        if (all->rank() == 0) partial = make_partial_folder(folder, metadata.step);
      });
      tell_from_first(SaveStage::Folder);
      partial = text_of_root(all, partial, 0);
    } catch (...) {
      discard();
      throw;
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (writer.joinable()) writer.join();
    discard();
  }

  /// On all ranks or on none: where one has no memory for it, none writes.
  void copy_pieces() {
    on_all_or_none(all, what, [&] {
      std::size_t bytes = 0;
      for (const ConstBuffer& piece : file.pieces) bytes += piece.bytes;
      copy.resize(bytes);
      std::size_t at = 0;
      for (ConstBuffer& piece : file.pieces) {
        if (piece.bytes > 0) std::memcpy(copy.data() + at, piece.data, piece.bytes);
        piece = {copy.data() + at, piece.bytes};
        at += piece.bytes;
      }
    });
  }

  void start() {
    writer = thread_without_signals([this] {
      try {
        report = write_file(plan, file, partial);
      } catch (...) {
        failure = status_of_current_exception();
      }
      try {
        if (failure.ok()) reached(SaveStage::Written);
      } catch (...) {  // finish() rethrows it on the World's thread
        thrown_by_user = std::current_exception();
      }
      is_written.store(true, std::memory_order_release);
    });
  }

  void finish() {
    if (finished)
      throw Error(
          Code::InvalidArgument,
          fmt::format("{}: AsyncSave::finish() was called, but this save is finished already; expected one call",
                      what));
    finished = true;
    if (writer.joinable()) writer.join();
    std::vector<std::byte>().swap(copy);
    try {
      run_user_code(
          *all, [&] { return told(SaveStage::Written); },
          [&] {
            if (thrown_by_user) std::rethrow_exception(thrown_by_user);
          });
      on_all_or_none(all, what, [&] { failure.require(); });
      complete(plan, gathered(all, report));
      on_all_or_none(all, what, [&] {
        if (all->rank() != 0) return;
        NewFile index(partial + "/index.json");
        index.write(to_text(plan));
        index.finish();
      });
      tell_from_first(SaveStage::Indexed);
      on_all_or_none(all, what, [&] {
        if (all->rank() == 0) put_in_place(partial, folder, plan.metadata.step);
      });
      tell_from_first(SaveStage::InPlace);
    } catch (...) {
      discard();
      throw;
    }
    partial.clear();
  }

  /// All ranks are through with the folder, or have given the save up.
  void discard() noexcept {
    std::error_code ignored;  // the next save removes what stays
    if (all->rank() == 0 && !partial.empty()) std::filesystem::remove_all(partial, ignored);
    partial.clear();
  }

  void reached(SaveStage stage) const {
    if (options.reached) options.reached(stage);
  }
  /// Calls `reached` on rank 0 after all ranks have reached the stage.
  void tell_from_first(SaveStage stage) const {
    if (all->rank() == 0)
      run_user_code(
          *all, [&] { return told(stage); }, [&] { reached(stage); });
  }
  std::string told(SaveStage stage) const { return fmt::format("{}, reached({})", what, stage_name(stage)); }

  CallGroup all;
  std::string folder;
  SaveOptions options;
  std::string what;
  CheckpointIndex plan;
  RankFile file;
  std::string partial;  // where the files are until all is in place
  std::vector<std::byte> copy;
  std::thread writer;
  std::vector<std::uint64_t> report;
  Status failure;
  std::exception_ptr thrown_by_user;  // by `reached`, on the thread `writer`
  std::atomic<bool> is_written{false};
  bool finished = false;
};

AsyncSave::AsyncSave(CallGroup all, const std::string& folder, std::span<const CheckpointPart> parts,
                     const CheckpointMetadata& metadata, const SaveOptions& options)
    : state_(std::make_unique<State>(all, folder, parts, metadata, options)) {
  state_->copy_pieces();
  state_->start();
}
AsyncSave::AsyncSave(AsyncSave&&) noexcept = default;
AsyncSave& AsyncSave::operator=(AsyncSave&&) noexcept = default;
AsyncSave::~AsyncSave() = default;

bool AsyncSave::written() const noexcept {
  return state_ != nullptr && state_->is_written.load(std::memory_order_acquire);
}
void AsyncSave::finish() {
  if (!state_)
    throw Error(Code::InvalidArgument, "AsyncSave::finish() was called, but this save was moved to another AsyncSave");
  state_->finish();
}

void save_checkpoint(CallGroup all, const std::string& folder, std::span<const CheckpointPart> parts,
                     const CheckpointMetadata& metadata, const SaveOptions& options) {
  AsyncSave::State save(all, folder, parts, metadata, options);
  save.start();
  save.finish();
}

}  // namespace sinew::parallel
