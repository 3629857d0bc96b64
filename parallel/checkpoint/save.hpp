#pragma once

// Checkpoints of any layout. The room saves and loads the state of a training job, and carries it over between ranks
// that survived. It may include its sub-rooms `index` and `files`, and the room `common`. It may also include data
// parallelism and the optimizer for the parts of a training, its room `update_rule` for the state of a loss scaler, and
// the mesh for agreement between ranks.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// The stages of a save on this rank.
enum class SaveStage : std::uint8_t {
  Folder,   ///< the folder for its files exists
  Written,  ///< this rank's file is on the disk
  Indexed,  ///< the index is on the disk; the checkpoint is not in place yet
  InPlace,  ///< the checkpoint is in place
};

struct SaveOptions {
  /// Called when a stage is reached: Written on each rank, the other stages on rank 0.
  /// Errors: if it throws, the World ends (Communicator::abort_world_by_exception), and save_checkpoint() throws the
  ///         same exception.
  std::function<void(SaveStage)> reached{};
};

/// Saves what all ranks hold as `folder`/step-000123: a file for each rank, and index.json (docs/checkpoints.md).
/// Elements that several ranks hold are written once. All ranks return when the checkpoint is in place. An
/// AsyncCheckpointer saves while training goes on. Until the checkpoint is in place the earlier ones stay intact,
/// whatever ends the job. Only one save at a time may go to a folder. The hosts of all ranks share the folder.
/// Shape:  parts of one name agree in shape and element type, and together have all elements of the item. Different
///         parts have no element in common, with one exception: ranks that all hold a box may cut it differently, if
///         equally many of them have each element.
/// Errors: on all ranks alike, naming the first rank with a fault and its host. InvalidArgument for parts of another
///         shape than above, naming the item, and for metadata that differ. System with the file if the file system
///         refuses a write. Nothing of the save is left then, and the job can go on.
/// Cost:   every rank writes about equally many bytes, once, and waits for the disk.
SINEW_API void save_checkpoint(CallGroup all, const std::string& folder, std::span<const CheckpointPart> parts,
                               const CheckpointMetadata& metadata, const SaveOptions& options = {});

}  // namespace sinew::parallel
