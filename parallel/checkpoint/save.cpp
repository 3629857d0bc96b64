#include <array>
#include <filesystem>
#include <numeric>
#include <string_view>
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

/// A save from its plan to its end.
class Save {
 public:
  Save(CallGroup all, const std::string& folder, std::span<const CheckpointPart> parts,
       const CheckpointMetadata& metadata, const SaveOptions& options)
      : all_(all),
        folder_(folder),
        options_(options),
        what_(fmt::format("save of step {} to {}", metadata.step, folder)),
        plan_(plan_with_all(all, what_, parts, metadata)),
        file_(file_of_rank(plan_, all->rank(), parts)) {}
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;
  /// All ranks are through with the folder, or have given the save up.
  ~Save() {
    std::error_code ignored;  // the next save removes what stays
    if (all_->rank() == 0 && !partial_.empty()) std::filesystem::remove_all(partial_, ignored);
  }

  void run() {
    on_all_or_none(all_, what_, [&] {
      if (all_->rank() == 0) partial_ = make_partial_folder(folder_, plan_.metadata.step);
    });
    tell_from_first(SaveStage::Folder);
    partial_ = text_of_root(all_, partial_, 0);
    complete(plan_, gathered(all_, written()));
    on_all_or_none(all_, what_, [&] {
      if (all_->rank() != 0) return;
      NewFile index(partial_ + "/index.json");
      index.write(to_text(plan_));
      index.finish();
    });
    tell_from_first(SaveStage::Indexed);
    on_all_or_none(all_, what_, [&] {
      if (all_->rank() == 0) put_in_place(partial_, folder_, plan_.metadata.step);
    });
    tell_from_first(SaveStage::InPlace);
    partial_.clear();
  }

 private:
  /// Writes this rank's file, and returns when all ranks have theirs.
  std::vector<std::uint64_t> written() const {
    std::vector<std::uint64_t> report;
    Status failure;
    // No signal reaches this thread. So a file that is too long is an error of the write, where SIGXFSZ would end the
    // process.
    thread_without_signals([&] {
      try {
        report = write_file(plan_, file_, partial_);
      } catch (...) {
        failure = status_of_current_exception();
      }
    }).join();
    if (failure.ok()) tell(SaveStage::Written);
    on_all_or_none(all_, what_, [&] { failure.require(); });
    return report;
  }
  void tell(SaveStage stage) const {
    run_user_code(
        *all_, [&] { return fmt::format("{}, reached({})", what_, stage_name(stage)); },
        [&] {
          if (options_.reached) options_.reached(stage);
        });
  }
  /// Tells rank 0 after all ranks have reached the stage.
  void tell_from_first(SaveStage stage) const {
    if (all_->rank() == 0) tell(stage);
  }

  CallGroup all_;
  std::string folder_;
  const SaveOptions& options_;
  std::string what_;
  CheckpointIndex plan_;
  RankFile file_;
  std::string partial_;  // where the files are until all is in place
};

}  // namespace

void save_checkpoint(CallGroup all, const std::string& folder, std::span<const CheckpointPart> parts,
                     const CheckpointMetadata& metadata, const SaveOptions& options) {
  Save(all, folder, parts, metadata, options).run();
}

}  // namespace sinew::parallel
