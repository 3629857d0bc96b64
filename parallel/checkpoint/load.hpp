#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// The contents of a checkpoint without its data.
struct CheckpointContents {
  CheckpointMetadata metadata{};
  int ranks = 0;  ///< the number of ranks that saved the checkpoint
  std::vector<CheckpointItem> items{};
};

/// Reads the index of a checkpoint.
/// folder: the folder of one checkpoint, as step_folder names it.
/// Errors: InvalidArgument or System naming the file.
SINEW_API CheckpointContents read_contents(const std::string& folder);

/// The result of load_checkpoint.
struct Loaded {
  CheckpointMetadata metadata{};
  std::vector<std::string> unread{};  ///< items of the checkpoint of which no rank wanted any part
};

/// Fills the buffers of the wanted parts, from a checkpoint of any layout and number of ranks. Collective. Each rank
/// may want any parts.
/// Errors: on all ranks alike, naming the first rank with a fault and its host. InvalidArgument for an item that does
///         not exist, or has another shape or element type. InvalidArgument for a file that is cut or changed, with the
///         item and the bytes. System for a file that is missing or cannot be read. After an error the content of the
///         buffers is undefined.
/// Cost:   each rank reads the blocks of 4 MiB that hold any of its wanted elements. 4 MiB of memory.
SINEW_API Loaded load_checkpoint(CallGroup all, const std::string& folder, std::span<const CheckpointPart> wanted);

}  // namespace sinew::parallel
