#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/common/call_group.hpp>

namespace sinew::parallel {

/// The folder of one checkpoint in a folder of checkpoints: "step-000123". A folder whose name begins with ".partial-"
/// belongs to a save that is in flight or was interrupted.
SINEW_API std::string step_folder(const std::string& folder, std::int64_t step);

/// The highest step whose save has ended. nullopt: there is none. The folder of a step exists when its save has ended.
/// A folder whose files are gone counts too; loading it reports that.
/// Errors: System if the folder exists and cannot be read.
SINEW_API std::optional<std::int64_t> latest_step(const std::string& folder);

/// The same on all ranks alike: the highest step that every rank can see.
/// Errors: System on all ranks if one of them cannot read the folder, with that rank and its host. Otherwise as
///         all_reduce.
SINEW_API std::optional<std::int64_t> latest_step(CallGroup all, const std::string& folder);

/// Checks, before there is anything to save, that every rank can write into the folder. Makes the folder. Collective.
/// Errors: InvalidArgument on all ranks if one of them cannot write, with that rank, its host and the system's reason.
SINEW_API void require_folder_for_checkpoints(CallGroup all, const std::string& folder);

/// Makes the folder, and in it a new folder for the files of a save. Removes what interrupted saves have left.
/// Errors: System.
std::string make_partial_folder(const std::string& folder, std::int64_t step);

/// A name for the folder of a save that has not ended. No other save has this `id`.
std::string partial_folder(const std::string& folder, std::int64_t step, const std::string& id);
/// Makes this folder, unless another rank has made it. cleans: first removes what interrupted saves have left.
/// Errors: System.
void join_partial_folder(const std::string& folder, const std::string& partial, bool cleans);

/// Makes the written files the checkpoint of that step. If the step has a checkpoint already, the old one stays intact
/// until the new one takes its place, at once.
/// Errors: System; Unavailable where the file system cannot exchange two folders.
void put_in_place(const std::string& partial, const std::string& folder, std::int64_t step);

}  // namespace sinew::parallel
