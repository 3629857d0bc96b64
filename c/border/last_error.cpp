#include <string>

#include <sinew/c/border/last_error.hpp>
#include <sinew/core/base/thrown.hpp>

namespace sinew::c {
namespace {

struct LastError {
  sinew_status status = SINEW_OK;
  int rank = -1;
  std::string message;
  const char* text = "";  ///< `message`, or a literal if there was no memory for a message
};

thread_local LastError last;

sinew_status keep_out_of_memory() noexcept {
  last.status = SINEW_SYSTEM;
  last.rank = -1;
  last.text = "there is no memory for the text of an error";
  return SINEW_SYSTEM;
}

}  // namespace

sinew_status keep_error(const Status& failure) noexcept {
  try {
    last.message = failure.message();
    last.text = last.message.c_str();
    last.status = status_of(failure.code());
    last.rank = failure.rank();
    return last.status;
  } catch (...) {
    return keep_out_of_memory();
  }
}

sinew_status keep_current_exception() noexcept {
  try {
    return keep_error(status_of_current_exception());
  } catch (...) {
    return keep_out_of_memory();
  }
}

}  // namespace sinew::c

extern "C" {

const char* sinew_last_error_message() { return sinew::c::last.text; }
sinew_status sinew_last_error_status() { return sinew::c::last.status; }
int sinew_last_error_rank() { return sinew::c::last.rank; }

}  // extern "C"
