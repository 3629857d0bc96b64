#include <sys/resource.h>

#include <cerrno>
#include <new>
#include <system_error>

#include <fmt/format.h>

#include <sinew/core/error.hpp>

namespace sinew {

std::string_view name_of(Code code) noexcept {
  switch (code) {
    case Code::Ok: return "Ok";
    case Code::Pending: return "Pending";
    case Code::InvalidArgument: return "InvalidArgument";
    case Code::Unavailable: return "Unavailable";
    case Code::Truncated: return "Truncated";
    case Code::Cancelled: return "Cancelled";
    case Code::Timeout: return "Timeout";
    case Code::PeerLost: return "PeerLost";
    case Code::Mismatch: return "Mismatch";
    case Code::Aborted: return "Aborted";
    case Code::System: return "System";
  }
  return "?";
}

void Status::throw_error() const { throw Error(code_, std::string(message()), rank_); }

Status status_of(const std::exception& e) {
  if (const auto* error = dynamic_cast<const Error*>(&e)) return {error->code(), error->what(), error->rank()};
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr)
    return {Code::System,
            "out of memory: neither the machine nor this process's limits (ulimit -v, control groups) "
            "leave what was asked for"};
  return {Code::System, e.what()};
}

void throw_errno(std::string_view what, int error_number) {
  std::string text = fmt::format("{}: {}", what, std::generic_category().message(error_number));
  rlimit limit{};
  if (error_number == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    text += fmt::format("; this process may open {}: raise the limit (ulimit -n)", limit.rlim_cur);
  throw Error(Code::System, text);
}

void throw_errno(std::string_view what) { throw_errno(what, errno); }

}  // namespace sinew
