#include "completion.hpp"

namespace sinew::torch_backend {
namespace {

c10d::ErrorType error_type(Code code) {
  switch (code) {
    case Code::Ok:
    case Code::Pending: return c10d::ErrorType::SUCCESS;
    case Code::Timeout: return c10d::ErrorType::TIMEOUT;
    case Code::PeerLost:
    case Code::Mismatch: return c10d::ErrorType::REMOTE_ERROR;
    case Code::InvalidArgument:
    case Code::Unavailable:
    case Code::Truncated:
    case Code::Cancelled:
    case Code::Aborted:
    case Code::System: return c10d::ErrorType::COMM_ERROR;
  }
  return c10d::ErrorType::COMM_ERROR;
}

}  // namespace

void Completion::failed(Code code) {
  c10d::ErrorType none = c10d::ErrorType::SUCCESS;
  error_.compare_exchange_strong(none, error_type(code), std::memory_order_relaxed);
  if (on_abort_.any()) on_abort_.call();
}

}  // namespace sinew::torch_backend
