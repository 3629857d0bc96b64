#include <fcntl.h>
#include <stdio.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/base/random.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/files/file.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/common/all_or_none.hpp>

namespace sinew::parallel {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-", kPartial = ".partial-";

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStep)) return {};
  const auto step = parse_number<std::int64_t>(std::string_view(name).substr(kStep.size()));
  return step && fmt::format("{}{:06}", kStep, *step) == name ? step : std::nullopt;
}

template <class F>
auto with_system_error(const std::string& what, const F& f) {
  try {
    return f();
  } catch (const fs::filesystem_error& e) {
    throw_errno(what, e.code().value());
  }
}

}  // namespace

std::string step_folder(const std::string& folder, std::int64_t step) {
  return fmt::format("{}/{}{:06}", folder, kStep, step);
}

std::optional<std::int64_t> latest_step(const std::string& folder) {
  return with_system_error(folder, [&] {
    std::optional<std::int64_t> latest;
    if (!fs::exists(folder)) return latest;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto step = step_of(entry.path().filename().string());
      if (step && (!latest || *step > *latest)) latest = step;
    }
    return latest;
  });
}

std::optional<std::int64_t> latest_step(CallGroup all, const std::string& folder) {
  std::array<std::int64_t, 1> newest{-1};
  on_all_or_none(all, "the latest step", [&] { newest[0] = latest_step(folder).value_or(-1); });
  all->all_reduce(newest, ReduceOp::Min, all.options("the latest step")).get();
  return newest[0] < 0 ? std::nullopt : std::optional(newest[0]);
}

void require_folder_for_checkpoints(CallGroup all, const std::string& folder) {
  on_all_or_none(all, fmt::format("checkpoints in '{}'", folder), [&] {
    const std::string probe = fmt::format("{}/{}{:016x}", folder, kPartial, random_id());
    try {
      with_system_error(folder, [&] { fs::create_directories(folder); });
      std::ofstream file(probe);
      if (!file.is_open()) throw_errno(probe);
    } catch (const Error& e) {
      throw Error(Code::InvalidArgument, e.what());
    }
    std::error_code ignored;  // the next save removes what stays
    fs::remove(probe, ignored);
  });
}

std::string partial_folder(const std::string& folder, std::int64_t step, const std::string& id) {
  return fmt::format("{}/{}{:06}-{}", folder, kPartial, step, id);
}

void join_partial_folder(const std::string& folder, const std::string& partial, bool cleans) {
  with_system_error(folder, [&] {
    fs::create_directories(folder);
    if (cleans) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().filename().string().starts_with(kPartial) && entry.path() != partial)
          fs::remove_all(entry.path());
      }
    }
    fs::create_directory(partial);  // false if another rank was faster
  });
}

std::string make_partial_folder(const std::string& folder, std::int64_t step) {
  std::string partial = partial_folder(folder, step, fmt::format("{:016x}", random_id()));
  join_partial_folder(folder, partial, true);
  return partial;
}

void put_in_place(const std::string& partial, const std::string& folder, std::int64_t step) {
  const std::string place = step_folder(folder, step);
  sync_folder(partial);
  if (!fs::exists(place)) {
    if (::rename(partial.c_str(), place.c_str()) != 0) throw_errno(fmt::format("{}: to {}", partial, place));
    return sync_folder(folder);
  }
  if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS) throw_errno(fmt::format("{}: in place of {}", partial, place));
    throw Error(Code::Unavailable,
                fmt::format("{}: it is there already, and this file system cannot exchange two folders; "
                            "remove it first, or save another step",
                            place));
  }
  sync_folder(folder);
  std::error_code ignored;  // the next save removes what stays
  fs::remove_all(partial, ignored);
}

}  // namespace sinew::parallel
