#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <sys/types.h>

#include <memory>
#include <string_view>

namespace sinew::ofi {

struct CloseHandle {
  template <class T>
  void operator()(T* handle) const noexcept {
    fi_close(&handle->fid);
  }
};
/// Owns an object of libfabric.
template <class T>
using Handle = std::unique_ptr<T, CloseHandle>;

struct FreeInfo {
  void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/// The provider takes no more now. (Out of entries for receives, shm says that it has no memory.)
constexpr bool is_later(ssize_t result) noexcept { return result == -FI_EAGAIN || result == -FI_ENOMEM; }

/// Throws Error{Unavailable} with libfabric's text where `result` is negative.
void require(ssize_t result, std::string_view what);

}  // namespace sinew::ofi
