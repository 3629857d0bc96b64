#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/deadline.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

class DataParallel;

/// Selects what AsyncCheckpointer::save() does if the save before it has not ended on all ranks.
enum class WhenBusy : std::uint8_t {
  Wait,    ///< it waits for the end of the other save
  Skip,    ///< it saves nothing
  Refuse,  ///< it throws
};

struct AsyncCheckpointerOptions {
  WhenBusy when_busy = WhenBusy::Wait;
  /// Lowers the priority of the thread that writes, as nice(2) counts. The thread copies with the priority of the
  /// training.
  int niceness = 10;
};

/// Saves checkpoints while training goes on. A thread of this object copies what this rank will write, while the next
/// forward and backward passes run. Then it writes the copy. The ranks agree by calls that do not wait, on a
/// communicator of this object, and rank 0 puts the checkpoint in place.
///
///     AsyncCheckpointer checkpointer(world.communicator(), "run7");
///     checkpointer.follow(data);
///     for (...) { ...; data.updated(); if (step % 100 == 0) checkpointer.save(parts_to_save(data, adam), {...}); }
///     checkpointer.finish();
///
/// The parts must not change before they are copied. A checkpointer that follows data parallelism waits for its copy in
/// finish_backward(), before the gradients are given to the optimizer. Otherwise call finish_copy().
/// Whenever the job ends, each checkpoint in the folder is one whose save has ended on all ranks. The next save removes
/// the files of an interrupted one. One save at a time goes to a folder.
/// Thread:   the World's, for all calls.
/// Lifetime: ends before the communicator, and before the memory of the parts of its last save. A save that is in
///           flight then is given up, unless rank 0 is already putting it in place.
/// Errors:   the next save() or finish() throws the failure of a save, on all ranks alike and once: System with the
///           first rank that failed, its host, the file and the system's reason. Nothing of that save is left, and the
///           next save() may follow. PeerLost if a rank has died.
/// Cost:     memory for the copy, which is kept for the next save. If the parts are those of the save before, save()
///           makes two small all_reduces. Otherwise it plans the save as save_checkpoint() does. When the files are
///           written, a gather of 1 KiB and 8 bytes for each 4 MiB, and a broadcast of 1 KiB.
class SINEW_API AsyncCheckpointer {
 public:
  /// Collective. The hosts of all ranks share the folder, which need not exist.
  /// Errors: InvalidArgument on all ranks alike if their folders or options differ.
  AsyncCheckpointer(CallGroup all, const std::string& folder, const AsyncCheckpointerOptions& options = {});
  AsyncCheckpointer(AsyncCheckpointer&&) noexcept;
  AsyncCheckpointer& operator=(AsyncCheckpointer&&) noexcept;
  ~AsyncCheckpointer();

  /// From now on finish_backward() and parts_to_load() of `data` wait for the copy of a save in flight. Call this for
  /// each DataParallel whose parts are saved.
  void follow(DataParallel& data);

  /// Begins a save. Returns whether it did: false with WhenBusy::Skip. Collective.
  /// Shape:  parts and metadata as for save_checkpoint().
  /// Errors: as save_checkpoint() for the parts and the metadata; then the save before, which may be in flight, is as
  ///         it was. The failure of the save before. InvalidArgument on all ranks with WhenBusy::Refuse, if busy.
  bool save(std::span<const CheckpointPart> parts, const CheckpointMetadata& metadata);
  /// Returns when the parts of this rank are copied. The calling thread helps with the copy.
  void finish_copy() noexcept;
  /// Moves a save in flight on without waiting, as each call of this object does. Returns whether this rank knows that
  /// no save is in flight. Not collective: each rank may call it at any time.
  bool poll() noexcept;
  /// Waits for the end of a save in flight. Collective.
  /// Errors: its failure, or the failure of a save that has ended before.
  void finish();

  /// The step of the last save that has ended. {}: this rank knows of none.
  std::optional<std::int64_t> in_place() const noexcept;
  /// The time that the World's thread has spent in this object since the last save() began. It includes the waits in
  /// finish_backward().
  Duration stalled() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sinew::parallel
