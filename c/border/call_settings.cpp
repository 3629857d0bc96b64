#include <memory>
#include <set>
#include <string>

#include <fmt/format.h>

#include <sinew/c/border/arguments.hpp>
#include <sinew/c/border/call_settings.hpp>
#include <sinew/core/base/process_lock.hpp>

namespace sinew::c {
namespace {

constexpr std::size_t kDeterminismCount = 3;
constexpr std::size_t kMemoryKindCount = 3;

/// Makes one text of a line and a label. The text stays for the life of the process, because a call may outlast the
/// function that started it. After kMost different texts the line alone is shown.
const char* labelled_site(const char* site, const char* label) {
  constexpr std::size_t kMost = 4096;               // not a page
  static auto& texts = *new std::set<std::string>;  // is not destroyed while threads of the process still end
  const std::string text = fmt::format("{} for {}", site, label);
  const ProcessLock lock(OfProcess::CallSites);
  const auto found = texts.find(text);
  if (found != texts.end()) return found->c_str();
  return texts.size() < kMost ? texts.insert(text).first->c_str() : site;
}

const char* shown_site(const sinew_call_options& given) {
  if (given.site == nullptr) return given.label;
  return given.label == nullptr ? given.site : labelled_site(given.site, given.label);
}

}  // namespace

Place place_of(const char* function, sinew_memory_kind kind, int device) {
  const auto where = enum_of<MemoryKind>(function, "memory_kind", static_cast<int>(kind), kMemoryKindCount);
  return where == MemoryKind::Host ? Place{} : Place{where, device};
}

Determinism determinism_of(const char* function, sinew_determinism level) {
  return enum_of<Determinism>(function, "determinism", static_cast<int>(level), kDeterminismCount);
}

Codec codec_of(const char* function, sinew_codec codec) {
  return enum_of<Codec>(function, "codec", static_cast<int>(codec), kCodecCount);
}

void CallSettings::take(const char* function, const sinew_call_options& given, bool waits_at_once,
                        std::uint32_t element_bytes) {
  require_struct_size(function, "sinew_call_options", given);
  auto& [options, reducer] = given_.emplace(Given{.options = {.waits_at_once = waits_at_once, .where = {}}});
  if (given.after != nullptr) options.after = {given.after->stream, given.after->device};
  options.deadline = deadline_of(function, "deadline_s", given.deadline_s);
  options.determinism = determinism_of(function, given.determinism);
  options.codec = codec_of(function, given.codec);
  options.largest_bytes = given.largest_bytes;
  options.pre_multiply = given.pre_multiply;
  options.label = shown_site(given);
  if (given.reduce != nullptr) {
    reducer = reducer_of(given.reduce, given.reduce_context, element_bytes);
    options.user = &reducer;
  }
  place_ = place_of(function, given.memory_kind, given.memory_device);
  options_ = &options;
}

}  // namespace sinew::c
