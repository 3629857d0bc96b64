#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <sinew/collectives/launch/protocols/munge.hpp>
#include <sinew/core/base/made_once.hpp>
#include <sinew/core/error.hpp>

namespace sinew {
namespace {

constexpr const char* kMungeLibrary = "libmunge.so.2";

// The part of munge.h that is used here. These values are of libmunge's ABI 2.
struct MungeContext;
constexpr int kMungeSuccess = 0;
constexpr int kCipherOption = 0;
constexpr int kLifetimeOption = 4;
constexpr int kUserOption = 9;
constexpr int kAes128 = 4;  ///< a site may have turned its default cipher off
constexpr int kLifetimeSeconds = 60;

}  // namespace

struct Munge::Library {
  MungeContext* (*create)();
  void (*destroy)(MungeContext*);
  int (*set)(MungeContext*, int option, ...);
  int (*encode)(char** credential, MungeContext*, const void* bytes, int count);
  int (*decode)(const char* credential, MungeContext*, void** bytes, int* count, uid_t*, gid_t*);
  const char* (*reason)(int);

  Library() {
    void* handle = ::dlopen(kMungeLibrary, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw Error(Code::Unavailable, fmt::format("MUNGE: {}", ::dlerror()));
    find(handle, "munge_ctx_create", create);
    find(handle, "munge_ctx_destroy", destroy);
    find(handle, "munge_ctx_set", set);
    find(handle, "munge_encode", encode);
    find(handle, "munge_decode", decode);
    find(handle, "munge_strerror", reason);
  }

  void require(int result, std::string_view what) const {
    if (result == kMungeSuccess) return;
    throw Error(Code::Unavailable, fmt::format("MUNGE: {}: {}", what, reason(result)));
  }

 private:
  template <class F>
  static void find(void* handle, const char* name, F& function) {
    function = reinterpret_cast<F>(::dlsym(handle, name));
    if (function == nullptr) throw Error(Code::Unavailable, fmt::format("{} has no {}", kMungeLibrary, name));
  }
};

Munge::Munge()
    : library_([]() -> const Library& {
        static constinit MadeOnce<Library> library;
        return library.get([] { return Library(); });
      }()) {
  constexpr std::array<std::byte, 1> kProbe{};
  static_cast<void>(open(seal(kProbe)));
}

std::string Munge::seal(std::span<const std::byte> bytes) const {
  const std::unique_ptr<MungeContext, void (*)(MungeContext*)> context(library_.create(), library_.destroy);
  if (!context) throw Error(Code::Unavailable, "MUNGE: no memory for a context");
  library_.require(library_.set(context.get(), kCipherOption, kAes128), "asking for encryption");
  library_.require(library_.set(context.get(), kLifetimeOption, kLifetimeSeconds), "setting a lifetime");
  library_.require(library_.set(context.get(), kUserOption, ::geteuid()), "naming the user who may open it");
  char* credential = nullptr;
  const int result = library_.encode(&credential, context.get(), bytes.data(), static_cast<int>(bytes.size()));
  const std::unique_ptr<char, decltype(&std::free)> held(credential, &std::free);
  library_.require(result, "sealing a secret");
  return credential;
}

Bytes Munge::open(std::string_view credential) const {
  void* bytes = nullptr;
  int count = 0;
  uid_t user = 0;
  gid_t group = 0;
  const int result = library_.decode(std::string(credential).c_str(), nullptr, &bytes, &count, &user, &group);
  const std::unique_ptr<void, decltype(&std::free)> held(bytes, &std::free);
  library_.require(result, "opening a secret");
  if (user != ::geteuid()) {
    throw Error(Code::Unavailable, fmt::format("MUNGE: user id {} has sealed the secret, not this user", user));
  }
  const auto* first = static_cast<const std::byte*>(bytes);
  return Bytes(first, first + count);
}

}  // namespace sinew
