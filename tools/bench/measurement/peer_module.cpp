#include "peer_module.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/core/system/file_descriptor.hpp>

#include "../../../bench/peer/peer.hpp"

extern "C" char** environ;

namespace sinew::tools {
namespace {

namespace fs = std::filesystem;

/// The folder in which this program is installed, or its build folder.
fs::path own_prefix() { return fs::read_symlink("/proc/self/exe").parent_path().parent_path(); }

/// The module's name by the variables of the launcher.
std::string name_by_launcher() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return "libsinew_peer_openmpi.so";
  if (std::getenv("PMI_RANK") != nullptr) return "libsinew_peer_mpich.so";
  throw Error(Code::InvalidArgument,
              "--peer mpi: neither OMPI_COMM_WORLD_SIZE nor PMI_RANK is set; expected ranks that mpirun of Open MPI or "
              "MPICH has started");
}

/// PREFIX/lib of the build tree, or the folder of modules of an installation.
fs::path built_module(const std::string& name) {
  const fs::path built = own_prefix() / "lib" / name;
  std::error_code error;
  return fs::exists(built, error) ? built : own_prefix() / SINEW_LIBRARY_FOLDER / name;
}

/// The way to compile the module of an installed library.
struct Recipe {
  std::vector<std::string> sources;  ///< files in the folder of sources: the one to compile, and what it includes
  std::vector<fs::path> made_from;   ///< files of the library; the module is compiled again when they change
  std::vector<std::string> options;
};

std::optional<fs::path> first_of(const std::vector<fs::path>& files) {
  std::error_code error;
  const auto found =
      std::ranges::find_if(files, [&](const fs::path& file) { return fs::is_regular_file(file, error); });
  return found == files.end() ? std::nullopt : std::optional(*found);
}

std::string text_of(const std::vector<fs::path>& files) {
  std::vector<std::string> all;
  for (const fs::path& file : files) all.push_back(file.string());
  return fmt::format("{}", fmt::join(all, " or "));
}

/// Returns nothing if the prefix has no DeepSpeed. It may be the folder of a source package, or one of installed Python
/// packages.
std::optional<Recipe> recipe_for_deepspeed(const fs::path& prefix) {
  const fs::path below = "csrc/cpu/comm/shm.cpp";
  const auto source = first_of({prefix / below, prefix / "deepspeed/ops" / below, prefix / "ops" / below});
  if (!source) return std::nullopt;
  const fs::path folder = source->parent_path();
  return Recipe{
      .sources = {"deepspeed.cpp"}, .made_from = {*source}, .options = {"-fopenmp", "-w", "-I", folder.string()}};
}

/// Returns nothing if the prefix has no oneCCL for CPUs. Its ranks are those of the Intel MPI in the same prefix.
std::optional<Recipe> recipe_for_oneccl(const fs::path& prefix) {
  const auto header = first_of({prefix / "include/oneapi/ccl.hpp"});
  const auto archive = first_of({prefix / "lib/ccl/cpu/lib/libccl.a"});
  if (!header || !archive) return std::nullopt;
  const std::string include = (prefix / "include").string(), libraries = (prefix / "lib").string();
  return Recipe{.sources = {"oneccl.cpp", "mpi_ranks.hpp"},
                .made_from = {*header, *archive},
                .options = {"-I", include, archive->string(), "-L" + libraries, "-Wl,-rpath," + libraries, "-lmpi",
                            "-lhwloc", "-ldl", "-lpthread", "-lrt"}};
}

Recipe recipe_for_mpi(const fs::path& prefix) {
  const std::vector<fs::path> headers{prefix / "include/mpi.h", prefix / "include/mpi/mpi.h"};
  const fs::path of_debian = prefix.parent_path() / fmt::format("lib{}.so", prefix.filename().string());  // libmpich.so
  const std::vector<fs::path> libraries{prefix / "lib/libmpi.so", prefix / "lib64/libmpi.so",
                                        prefix / "lib/libmpich.so", prefix / "lib/release/libmpi.so", of_debian};
  const auto header = first_of(headers), library = first_of(libraries);
  if (!header || !library)
    throw Error(
        Code::InvalidArgument,
        fmt::format("--peer {}: there is no {}; expected the prefix of an MPI with its header and its library, or "
                    "a folder with DeepSpeed's csrc/cpu/comm/shm.cpp",
                    prefix.string(), text_of(header ? libraries : headers)));
  const fs::path target = fs::canonical(*library);
  return {.sources = {"mpi.cpp", "mpi_ranks.hpp"},
          .made_from = {*header, target},
          .options = {"-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", "-I", header->parent_path().string(),
                      target.string(), "-Wl,-rpath," + target.parent_path().string()}};
}

Recipe recipe_for(fs::path prefix) {
  if (!prefix.has_filename()) prefix = prefix.parent_path();  // without a slash at its end
  if (const auto deepspeed = recipe_for_deepspeed(prefix)) return *deepspeed;
  if (const auto oneccl = recipe_for_oneccl(prefix)) return *oneccl;
  return recipe_for_mpi(prefix);
}

/// Returns the source of a module. An installation has it in share/sinew/peer. A build takes that of its source tree.
fs::path source_of_module(const std::string& name) {
  const fs::path installed = own_prefix() / "share/sinew/peer" / name, in_tree = fs::path(SINEW_PEER_SOURCES) / name;
  if (const auto source = first_of({installed, in_tree})) return *source;
  throw Error(Code::Unavailable, fmt::format("--peer: the source of its module is neither {} nor {}; expected an "
                                             "installation of the tools that is whole",
                                             installed.string(), in_tree.string()));
}

fs::path cache_folder() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  const auto is_set = [](const char* value) { return value != nullptr && *value != '\0'; };
  if (is_set(cache)) return fs::path(cache) / "sinew/peers";
  return is_set(home) ? fs::path(home) / ".cache/sinew/peers" : fs::temp_directory_path() / "sinew-peers";
}

/// Makes the folder, which only this user may write to: its modules are loaded as code.
void make_own_folder(const fs::path& folder) {
  if (fs::create_directories(folder)) fs::permissions(folder, fs::perms::owner_all);
  struct stat found {};
  const bool is_own = lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
                      (found.st_mode & S_IWOTH) == 0;
  if (!is_own)
    throw Error(Code::InvalidArgument,
                fmt::format("--peer: the folder of modules {} belongs to another user, or all may "
                            "write to it; expected one of this user's own (XDG_CACHE_HOME)",
                            folder.string()));
}

/// The name of the module changes with everything that it was made from.
std::string module_name(const Recipe& recipe, const fs::path& source) {
  std::vector<fs::path> files = recipe.made_from;
  for (const std::string& name : recipe.sources) files.push_back(source.parent_path() / name);
  files.push_back(source.parent_path() / "peer.hpp");
  std::string made_from;
  for (const fs::path& file : files)
    made_from += fmt::format("{} {} {}\n", fs::canonical(file).string(), fs::file_size(file),
                             fs::last_write_time(file).time_since_epoch().count());
  return fmt::format("{:016x}-{}.so", std::hash<std::string>()(made_from), bench::kPeerAbi);
}

/// Runs a command, and writes its output into a file. Returns its wait status.
int run_command(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = -1;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    throw Error(Code::Unavailable, fmt::format("--peer: the compiler '{}' cannot be run: {}; expected one in PATH, or "
                                               "its name in CXX",
                                               words.front(), std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string first_line_with_error(const fs::path& log) {
  std::ifstream in(log);
  std::string first, line;
  while (std::getline(in, line)) {
    if (first.empty()) first = line;
    if (line.find("error") != std::string::npos) return line;
  }
  return first;
}

void compile(const fs::path& prefix, const Recipe& recipe, const fs::path& source, const fs::path& module) {
  const char* const chosen = std::getenv("CXX");
  const std::string compiler = chosen != nullptr && *chosen != '\0' ? chosen : "c++";
  const fs::path made = fs::path(module).concat(".made"), log = fs::path(module).concat(".log");
  std::vector<std::string> words{compiler,
                                 "-std=c++20",
                                 "-O2",
                                 "-fPIC",
                                 "-shared",
                                 "-I",
                                 (source.parent_path() / source.stem()).string(),
                                 source.string(),
                                 "-o",
                                 made.string()};
  words.insert(words.end(), recipe.options.begin(), recipe.options.end());
  const int status = run_command(words, log);
  if (status != 0)
    throw Error(Code::Unavailable, fmt::format("--peer {}: its module did not compile: {} (all of it: {})",
                                               prefix.string(), first_line_with_error(log), log.string()));
  fs::rename(made, module);
  std::error_code ignored;
  fs::remove(log, ignored);
}

fs::path compiled_module(const fs::path& prefix) {
  const Recipe recipe = recipe_for(prefix);
  const fs::path source = source_of_module(recipe.sources.front()), folder = cache_folder();
  try {
    make_own_folder(folder);
    const fs::path module = folder / module_name(recipe, source);
    const FileDescriptor lock(open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    while (lock.get() >= 0 && flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    if (!fs::exists(module)) compile(prefix, recipe, source, module);
    return module;
  } catch (const fs::filesystem_error& e) {
    throw Error(Code::System, fmt::format("--peer {}: the module cannot be kept: {}", prefix.string(), e.what()));
  }
}

}  // namespace

std::filesystem::path peer_module(const std::string& which) {
  return which == "mpi" ? built_module(name_by_launcher()) : compiled_module(which);
}

}  // namespace sinew::tools
