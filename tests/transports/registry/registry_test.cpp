#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>
#include <sinew/core/module_entry.hpp>
#include <sinew/transports/registry.hpp>
#include <support/log_guard.hpp>
#include <support/scratch_folder.hpp>

namespace sinew::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Config with_path(std::vector<std::string> folders) {
  Config config;
  config.transport_path = std::move(folders);
  return config;
}
Config planted() { return with_path({PLANTED}); }

std::string file_of(const std::string& name) { return PLANTED "/sinew_" + name + ".so"; }
bool is_loaded(const std::string& file) {
  void* library = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

/// Why the module cannot be used; the same on a second try, and from available() and open().
std::string reason_of(const std::string& name, const Config& config = planted()) {
  Module* module = find_module(name, config);
  if (module == nullptr) return "no such module";
  EXPECT_EQ(find_module(name, config), module);
  EXPECT_EQ(module->name(), name);
  const Availability can = module->available();
  EXPECT_FALSE(can.ok);
  return can.reason;
}

TEST(Modules, ThatNoLibraryCanLieIn_AreNotOpened) {
  const ScratchFolder folder;
  const Config config = with_path({folder / ""});
  ASSERT_EQ(::mkfifo((folder / "sinew_pipe.so").c_str(), 0600), 0);
  std::filesystem::copy_file(file_of("fine"), folder / "sinew_half.so");
  std::filesystem::resize_file(folder / "sinew_half.so", 1000);  // the headers, but nothing of what they name
  std::filesystem::create_symlink("sinew_loop.so", folder / "sinew_loop.so");
  EXPECT_EQ(reason_of("pipe", config), folder / "sinew_pipe.so is no regular file");
  EXPECT_EQ(reason_of("half", config), folder / "sinew_half.so is cut off: shorter than its own headers say");
  EXPECT_THAT(reason_of("loop", config), HasSubstr("Too many levels of symbolic links"));
}

TEST(Modules, ThatEveryUserCouldHaveWritten_AreNotLoaded) {
  using std::filesystem::perms;
  const ScratchFolder folder;
  const std::string open = folder / "open";
  std::filesystem::create_directory(open);
  std::filesystem::copy_file(file_of("fine"), folder / "sinew_loose.so");
  std::filesystem::permissions(folder / "sinew_loose.so", perms::others_write, std::filesystem::perm_options::add);
  std::filesystem::copy_file(file_of("fine"), open + "/sinew_planted.so");
  std::filesystem::permissions(open, perms::others_write, std::filesystem::perm_options::add);
  const Config config = with_path({folder / "", open});
  EXPECT_THAT(reason_of("loose", config), HasSubstr("sinew_loose.so can be written by every user of this host"));
  EXPECT_THAT(reason_of("planted", config), HasSubstr("open can be written by every user of this host"));
}

TEST(ModuleNames, AreKnownWithoutLoadingAnything) {
  const std::vector<std::string> names = module_names(planted());
  const std::vector<std::string> expected = {
      "inproc",   "shm",    "tcp",      "ucx",    "ofi",       "cuda_ipc", "nccl", "empty",   "fine",     "hollow",
      "impostor", "lonely", "no_entry", "number", "other_abi", "stunted",  "text", "thrower", "unwilling"};
  EXPECT_EQ(names, expected);
  const ScratchFolder folder;
  const std::string untouched = folder / "sinew_untouched.so";
  std::filesystem::copy_file(file_of("fine"), untouched);
  EXPECT_EQ(module_names(with_path({folder / ""})).back(), "untouched");
  EXPECT_FALSE(is_loaded(untouched));
  EXPECT_NE(find_module("untouched", with_path({folder / ""})), nullptr);
  EXPECT_TRUE(is_loaded(untouched)) << "the control";
}

TEST(ModuleNames, LeaveOutFilesWithOtherNames) {
  const ScratchFolder folder;
  for (const char* name : {"sinew_.so", "sinew_a.so.1", "libsinew_core.so", "notes.txt", "sinew_b.so"}) {
    std::ofstream(folder / name) << "x";
  }
  const std::vector<std::string> names = module_names(with_path({folder / ""}));
  EXPECT_EQ(names.size(), 8U);
  EXPECT_EQ(names.back(), "b");
}

TEST(ModuleNames, NameTheFolder_WhenItIsNotThere) {
  for (const auto& asked : {+[](const Config& c) { static_cast<void>(module_names(c)); },
                            +[](const Config& c) { static_cast<void>(find_module("fine", c)); }}) {
    try {
      asked(with_path({PLANTED "/nowhere"}));
      ADD_FAILURE() << "the folder is not there";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::InvalidArgument);
      EXPECT_THAT(e.what(), AllOf(StartsWith("SINEW_TRANSPORT_PATH: "), HasSubstr(PLANTED "/nowhere: No such file")));
    }
  }
}

TEST(FindModule, LoadsAModuleOnce_WhoeverAsks) {
  EXPECT_FALSE(is_loaded(file_of("fine")));
  std::vector<std::thread> threads;
  std::vector<Module*> found(8);
  for (Module*& one : found) threads.emplace_back([&one] { one = find_module("fine", planted()); });
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(is_loaded(file_of("fine")));
  EXPECT_EQ(std::ranges::count(found, found.front()), 8);
  ASSERT_NE(found.front(), nullptr);
  EXPECT_EQ(found.front()->name(), "fine");
  EXPECT_TRUE(found.front()->available().ok) << found.front()->available().reason;
}

TEST(FindModule, TakesBackSignalHandlers_ThatLibrariesInstallAsTheyAreLoaded) {
  const ScratchFolder folder;  // a copy: the other may have been loaded before
  std::filesystem::copy_file(file_of("unwilling"), folder / "sinew_unwilling.so");
  const auto before = std::signal(SIGUSR2, SIG_IGN);
  EXPECT_EQ(find_module("unwilling", with_path({folder / ""}))->available().reason, "made for a test");
  EXPECT_EQ(std::signal(SIGUSR2, before), SIG_IGN);
  EXPECT_TRUE(is_loaded(folder / "sinew_unwilling.so")) << "the control";
}

TEST(ModuleNames, WarnOfAFile_ThatAnEarlierFolderHides) {
  const ScratchFolder first;
  const ScratchFolder second;
  for (const ScratchFolder* folder : {&first, &second}) std::ofstream(*folder / "sinew_twice.so") << "x";
  ExpectLog log(log::Level::Warning, second / "sinew_twice.so is not used: an earlier folder has");
  EXPECT_EQ(std::ranges::count(module_names(with_path({first / "", second / ""})), "twice"), 1);
}

TEST(FindModule, PassesOnWhyAModuleIsNotAvailable) { EXPECT_EQ(reason_of("unwilling"), "made for a test"); }

TEST(FindModule, GivesTheLoadersWords_WhenAFileCannotBeLoaded) {
  EXPECT_THAT(reason_of("text"), AllOf(StartsWith("cannot be loaded: "), HasSubstr(file_of("text"))));
  EXPECT_THAT(reason_of("lonely"), AllOf(StartsWith("cannot be loaded: "), HasSubstr("libplanted_answer.so")));
}

TEST(FindModule, SaysWhatIsWrong_WhenALibraryIsNoModuleOfThisSinew) {
  EXPECT_EQ(reason_of("no_entry"), file_of("no_entry") + " is no sinew module: no sinew_module_entry");
  for (const char* name : {"hollow", "stunted"}) {
    EXPECT_EQ(reason_of(name),
              file_of(name) + " is no sinew module: what its sinew_module_entry holds is no ModuleEntry");
  }
  EXPECT_EQ(
      reason_of("other_abi"),
      file_of("other_abi") + " was built for another sinew: it has ABI sinew-of-another-time, expected " + kAbiId);
  EXPECT_EQ(reason_of("impostor"), file_of("impostor") + " calls itself 'fine', expected 'impostor' by its file name");
}

TEST(FindModule, ThrowsTheReason_WhenAModuleThatIsNotThereIsOpened) {
  const Exchange alone = exchange_alone();
  HostPeers host(alone, "this host", Deadline::after(std::chrono::seconds(60)));
  try {
    static_cast<void>(find_module("text", planted())->open({.host = host}));
    ADD_FAILURE() << "a text was opened";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::Unavailable);
    EXPECT_THAT(e.what(), HasSubstr(file_of("text")));
  }
}

TEST(FindModule, KnowsOnlyWhatThereIs) {
  EXPECT_EQ(find_module("nobody", planted()), nullptr);
  EXPECT_EQ(find_module("fine", Config{}), nullptr);
  const ScratchFolder folder;
  std::filesystem::create_symlink("/nowhere", folder / "sinew_gone.so");
  EXPECT_THAT(reason_of("gone", with_path({folder / ""})),
              AllOf(StartsWith("not in this package: "), HasSubstr("sinew_gone.so")));
}

TEST(FindModule, TakesTheFirstFolderThatHasIt) {
  const ScratchFolder folder;
  std::ofstream(folder / "sinew_fine.so") << "x";
  std::ofstream(folder / "sinew_nccl.so") << "x";
  EXPECT_THAT(reason_of("fine", with_path({folder / "", PLANTED})), HasSubstr(folder / ""));
  EXPECT_TRUE(find_module("fine", with_path({PLANTED, folder / ""}))->available().ok);
  EXPECT_THAT(reason_of("nccl", with_path({folder / ""})), HasSubstr(folder / "")) << "before that of the package";
}

TEST(FindModule, PrefersItsOwn_AndWarnsOnce_WhenAFileHasTheNameOfABuiltIn) {
  const ScratchFolder folder;
  std::ofstream(folder / "sinew_shm.so") << "x";
  const Config config = with_path({folder / ""});
  ExpectLog warning(log::Level::Warning, "sinew_shm.so is not used: sinew has a transport 'shm' of its own");
  EXPECT_EQ(std::ranges::count(module_names(config), "shm"), 1);
  static_cast<void>(module_names(config));
  EXPECT_EQ(warning.lines().size(), 1U);
  EXPECT_EQ(find_module("shm", config), find_module("shm", Config{}));
  EXPECT_TRUE(find_module("shm", config)->available().ok);
}

}  // namespace
}  // namespace sinew::test
