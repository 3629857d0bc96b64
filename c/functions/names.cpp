#include <cstddef>

#include <sinew/c/types.h>
#include <sinew/core/base/version.hpp>
#include <sinew/core/call/collective.hpp>
#include <sinew/core/error.hpp>

namespace {

/// The name of an enumerator. The tables of names hold literals, so the text ends with a zero byte.
template <class Enum>
const char* name(int number, Enum last) noexcept {
  return number < 0 || number > static_cast<int>(last) ? "?" : name_of(static_cast<Enum>(number)).data();
}

}  // namespace

extern "C" {

const char* sinew_status_name(sinew_status status) { return name(static_cast<int>(status), sinew::Code::System); }
const char* sinew_dtype_name(sinew_dtype dtype) { return name(static_cast<int>(dtype), sinew::DType::U16); }
const char* sinew_op_name(sinew_op op) { return name(static_cast<int>(op), sinew::ReduceOp::User); }
const char* sinew_collective_name(sinew_collective collective) {
  return name(static_cast<int>(collective), sinew::Collective::SendRecv);
}

size_t sinew_dtype_size(sinew_dtype dtype) {
  const auto number = static_cast<std::size_t>(static_cast<int>(dtype));
  return number < sinew::kDTypeCount ? size_of(static_cast<sinew::DType>(number)) : 0;
}

const char* sinew_version() { return sinew::version().data(); }

}  // extern "C"
