// A libmunge.so.2 without munged. A credential is the name of a file in FAKE_MUNGE_FOLDER, which stands for the key
// that the hosts of a cluster share: whoever has another folder can open nothing. Without the variable no munged
// answers.
//   FAKE_MUNGE_USER   the user id that this process has for MUNGE
//   FAKE_MUNGE_HOST   the host that this process is on: a credential can be opened there once
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#define EXPORTED __attribute__((visibility("default")))

namespace {

enum Result { kSuccess = 0, kBadArgument = 2, kSocket = 6, kBadCredential = 8, kReplayed = 17, kUnauthorized = 18 };

struct Context {
  int cipher = 1;
  int lifetime = 0;
  uid_t user = static_cast<uid_t>(-1);
};

std::string variable(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::string own_user() { return variable("FAKE_MUNGE_USER", std::to_string(::geteuid())); }

}  // namespace

extern "C" {

EXPORTED Context* munge_ctx_create() { return new Context; }
EXPORTED void munge_ctx_destroy(Context* context) { delete context; }

EXPORTED int munge_ctx_set(Context* context, int option, ...) {
  std::va_list arguments;
  va_start(arguments, option);
  int result = kSuccess;
  switch (option) {
    case 0: context->cipher = va_arg(arguments, int); break;
    case 4: context->lifetime = va_arg(arguments, int); break;
    case 9: context->user = va_arg(arguments, uid_t); break;
    default: result = kBadArgument;
  }
  va_end(arguments);
  return result;
}

EXPORTED const char* munge_strerror(int result) {
  switch (result) {
    case kSuccess: return "Success";
    case kBadArgument: return "Bad argument";
    case kSocket: return "Socket communication error";
    case kBadCredential: return "Invalid credential format";
    case kReplayed: return "Replayed credential";
    case kUnauthorized: return "Unauthorized credential decode";
    default: return "Unknown error";
  }
}

EXPORTED int munge_encode(char** credential, Context* context, const void* bytes, int count) {
  const std::string folder = variable("FAKE_MUNGE_FOLDER", "");
  if (folder.empty()) return kSocket;
  // Whoever asks for no cipher, or for no user, would hand the secret to everybody.
  if (context == nullptr || context->cipher < 2 || context->lifetime <= 0) return kBadArgument;
  std::random_device random;
  std::ostringstream name;
  name << "sealed-" << std::hex << random() << random() << random();
  std::ofstream file(folder + "/" + name.str(), std::ios::binary);
  file << own_user() << ' ' << context->user << '\n';
  file.write(static_cast<const char*>(bytes), count);
  *credential = ::strdup(("MUNGE:" + name.str() + ":").c_str());
  return kSuccess;
}

EXPORTED int munge_decode(const char* credential, Context*, void** bytes, int* count, uid_t* user, gid_t* group) {
  const std::string folder = variable("FAKE_MUNGE_FOLDER", "");
  if (folder.empty()) return kSocket;
  const std::string text = credential;
  if (!text.starts_with("MUNGE:sealed-") || !text.ends_with(":")) return kBadCredential;
  const std::string path = folder + "/" + text.substr(6, text.size() - 7);
  std::ifstream file(path, std::ios::binary);
  std::string sealer, opener;
  if (!(file >> sealer >> opener)) return kBadCredential;
  file.get();
  if (opener != own_user()) return kUnauthorized;
  const int opened = ::open((path + ".on-" + variable("FAKE_MUNGE_HOST", "this")).c_str(), O_CREAT | O_EXCL, 0600);
  if (opened < 0) return kReplayed;
  ::close(opened);
  std::ostringstream content;
  content << file.rdbuf();
  *count = static_cast<int>(content.str().size());
  *bytes = std::malloc(content.str().size() + 1);
  std::memcpy(*bytes, content.str().data(), content.str().size());
  *user = static_cast<uid_t>(std::stoul(sealer));
  *group = 0;
  return kSuccess;
}
}
