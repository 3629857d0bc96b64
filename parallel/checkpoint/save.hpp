#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// How far a save is on this rank.
enum class SaveStage : std::uint8_t {
  Folder,   ///< there is a folder for its files
  Written,  ///< this rank's file is on the disk
  Indexed,  ///< the index, too; the checkpoint is not in place yet
  InPlace,
};

struct SaveOptions {
  /// Called as each stage is reached: Written by a thread of the save's own; the others on rank 0 only.
  /// Errors: if it throws, the World ends (Communicator::abort_world_by_exception), and the call that reached the stage
  ///         throws the same exception. For Written that call is finish().
  std::function<void(SaveStage)> reached;
};

/// Saves what all ranks hold as `folder`/step-000123: each rank's file and index.json (docs/checkpoints.md). What
/// several ranks hold is written once. All ranks return when the checkpoint is in place; before that, whatever ends the
/// job, the previous ones are intact. One save at a time goes to a folder, which all ranks' hosts share.
/// Shape:  parts of one name agree in shape and element type, and have all of its elements together. Those that differ
///         have no element in common, but where as many ranks have each element of a box: these may cut it differently.
/// Errors: on all ranks alike, naming the first rank with a fault and its host: InvalidArgument for parts that are not
///         so, naming the item, and for metadata that differ; System with the file for what the disk refuses. Nothing
///         of the save is left, and the job can go on.
/// Cost:   every rank writes about as many bytes as the others, once, and waits for the disk.
SINEW_API void save_checkpoint(CallGroup all, const std::string& folder, std::span<const CheckpointPart> parts,
                               const CheckpointMetadata& metadata, const SaveOptions& options = {});

/// The same while training goes on: the constructor returns when what this rank is to write is copied, a thread writes
/// it, and finish(), by all ranks, puts the checkpoint in place.
/// Lifetime: the parts' buffers may change when the constructor has returned; the communicator outlives it. One that
///           goes without finish() leaves no checkpoint.
/// Errors:   as save_checkpoint: of parts and metadata from the constructor, of writing from finish().
/// Cost:     memory for the copy.
class SINEW_API AsyncSave {
 public:
  AsyncSave(CallGroup all, const std::string& folder, std::span<const CheckpointPart> parts,
            const CheckpointMetadata& metadata, const SaveOptions& options = {});
  AsyncSave(AsyncSave&&) noexcept;
  AsyncSave& operator=(AsyncSave&&) noexcept;
  ~AsyncSave();

  /// This rank's part is written, or has failed: finish() waits for other ranks only.
  bool written() const noexcept;
  /// Once. Collective.
  void finish();

 private:
  friend void save_checkpoint(CallGroup, const std::string&, std::span<const CheckpointPart>, const CheckpointMetadata&,
                              const SaveOptions&);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sinew::parallel
