#pragma once

#include <span>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/parallel/checkpoint/index/item.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// What a checkpoint is of, without its data.
struct CheckpointContents {
  CheckpointMetadata metadata;
  int ranks = 0;  ///< that saved it
  std::vector<CheckpointItem> items;
};

/// folder: of one checkpoint, as step_folder names it. Errors: InvalidArgument or System naming the file.
SINEW_API CheckpointContents read_contents(const std::string& folder);

struct Loaded {
  CheckpointMetadata metadata;
  std::vector<std::string> unread;  ///< items of the checkpoint of which no rank wanted any part
};

/// Fills the wanted parts' buffers, whatever layout and number of ranks the checkpoint was saved from. Collective; each
/// rank wants what it likes.
/// Errors: on all ranks alike, naming the first rank with a fault and its host. InvalidArgument: an item that is not
///         there or has another shape or element type; a file that is cut or changed, with the item and the bytes.
///         System: a file that is missing or cannot be read. Buffers may hold anything then.
/// Cost:   each rank reads those blocks of 4 MiB of the parts that hold any of what it wants; 4 MiB of memory.
SINEW_API Loaded load_checkpoint(CallGroup all, const std::string& folder, std::span<const CheckpointPart> wanted);

}  // namespace sinew::parallel
