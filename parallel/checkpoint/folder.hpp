#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// A folder of checkpoints has one folder for each: "step-000123". What begins with ".partial-" is of a save that was
/// interrupted, or is under way.
SINEW_API std::string step_folder(const std::string& folder, std::int64_t step);

/// The highest step that was saved to its end; nullopt: none. A folder of a step is there when the save has ended: one
/// whose files are gone counts, for loading it to say so.
/// Errors: System where there is a folder that cannot be read.
SINEW_API std::optional<std::int64_t> latest_step(const std::string& folder);

/// The same for all ranks alike: the highest step that every rank can see.
/// Errors: System on all of them where one cannot read the folder, with rank and host; as all_reduce.
SINEW_API std::optional<std::int64_t> latest_step(CallGroup all, const std::string& folder);

/// Before there is anything to save: whether every rank could write into the folder, which it makes. Collective.
/// Errors: InvalidArgument on all ranks where one could not, with rank, host and the system's reason.
SINEW_API void require_folder_for_checkpoints(CallGroup all, const std::string& folder);

/// Makes the folder and in it a new one for files of a save; what interrupted saves have left is gone.
/// Errors: System.
std::string make_partial_folder(const std::string& folder, std::int64_t step);

/// Makes what was written the checkpoint of that step. Of a step that there is already, the old one is intact until
/// the new one takes its place, at once.
/// Errors: System; Unavailable where the file system cannot exchange two folders.
void put_in_place(const std::string& partial, const std::string& folder, std::int64_t step);

}  // namespace sinew::parallel
