#include <dlfcn.h>
#include <link.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>
#include <ucs/type/status.h>

#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <sinew/core/log.hpp>
#include <sinew/transports/ucx/embedded.hpp>

namespace sinew::ucx {
namespace {

thread_local int depth = 0;
thread_local std::string error;

ucs_log_func_rc_t take_line(const char* /*file*/, unsigned /*line*/, const char* /*function*/, ucs_log_level_t level,
                            const ucs_log_component_config_t* /*component*/, const char* format, va_list arguments) {
  if (depth == 0 || level == UCS_LOG_LEVEL_FATAL) return UCS_LOG_FUNC_RC_CONTINUE;
  std::array<char, 512> text{};
  va_list copy;
  va_copy(copy, arguments);
  std::vsnprintf(text.data(), text.size(), format, copy);
  va_end(copy);
  if (level == UCS_LOG_LEVEL_ERROR && error.empty()) error = text.data();
  log::info("ucx: UCX says: {}", text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

/// Positions, in the order of loading, of the objects that hold two addresses.
struct LoadOrder {
  const void* first;
  const void* second;
  int position = 0;
  int position_of_first = -1;
  int position_of_second = -1;
};

bool holds(const dl_phdr_info& object, const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && at >= begin && at < begin + segment.p_memsz) return true;
  }
  return false;
}

int look_at(dl_phdr_info* object, std::size_t /*bytes*/, void* context) {
  auto& order = *static_cast<LoadOrder*>(context);
  if (holds(*object, order.first)) order.position_of_first = order.position;
  if (holds(*object, order.second)) order.position_of_second = order.position;
  ++order.position;
  return 0;
}

const void* in_libucs() { return reinterpret_cast<const void*>(&ucs_status_string); }

/// Libraries come after whoever made them be loaded.
bool was_there_before_this_module() {
  LoadOrder order{reinterpret_cast<const void*>(&embed), in_libucs()};
  ::dl_iterate_phdr(&look_at, &order);
  return order.position_of_second < order.position_of_first;
}

bool asked_for() {
  return std::getenv("UCX_HANDLE_ERRORS") != nullptr || std::getenv("UCX_ERROR_SIGNALS") != nullptr ||
         std::getenv("UCX_DEBUG_SIGNO") != nullptr;
}

bool is_of_libucs(int signal) {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0) return false;
  const void* handler = reinterpret_cast<const void*>(action.sa_handler);
  Dl_info its{};
  Dl_info ours{};
  return handler != nullptr && ::dladdr(handler, &its) != 0 && ::dladdr(in_libucs(), &ours) != 0 &&
         its.dli_fbase == ours.dli_fbase;
}

}  // namespace

Embedded::Embedded() noexcept {
  if (depth++ == 0) error.clear();
}

Embedded::~Embedded() { --depth; }

const std::string& Embedded::first_error() noexcept { return error; }

void embed() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_log_push_handler(take_line);
    if (asked_for() || was_there_before_this_module()) return;
    for (int signal = 1; signal < NSIG; ++signal) {
      if (is_of_libucs(signal)) ucs_debug_disable_signal(signal);
    }
  });
}

}  // namespace sinew::ucx
