#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <deque>

#include <sinew/core/buffer.hpp>
#include <sinew/core/completion.hpp>
#include <sinew/core/transport/block_pool.hpp>
#include <sinew/transports/ucx/frame.hpp>

namespace sinew::ucx {

struct Request;

/// Tells UCX what it would have to ask the CUDA driver for. Of host memory nothing is said: that is its assumption.
inline void hint(ucp_request_param_t& p, MemoryKind kind) noexcept {
  if (kind != MemoryKind::Device) return;
  p.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  p.memory_type = UCS_MEMORY_TYPE_CUDA;
}

/// Whom a request's end is told, from inside a call of UCX or of its progress.
class RequestOwner {
 public:
  virtual void completed(Request& request, ucs_status_t status) = 0;

  Request* begun = nullptr;  ///< those that UCX has not ended, newest first: kept by Requests

 protected:
  ~RequestOwner() = default;
};

/// One operation of UCX. It outlives the operation's memory and its endpoint, so that UCX may end it whenever it likes,
/// or never.
struct Request {
  enum class What : std::uint8_t { Frame, Data, Fetch };
  /// Shorter payloads need no block: about what UCX itself sends in one line.
  static constexpr std::size_t kInline = 64;

  RequestOwner* owner = nullptr;  ///< null: nobody, or nobody any more
  Completion* completion = nullptr;
  std::size_t bytes = 0;       ///< of the payload, or of the data
  std::uint32_t stream = 0;    ///< Fetch: number of the stream
  std::uint32_t fragment = 0;  ///< Fetch: index in Stream::fragments
  What what = What::Frame;
  Frame frame{};  ///< UCX reads the header until it has sent it
  DataFrame data{};
  std::byte payload[kInline];  ///< of a Frame
  std::byte* block = nullptr;  ///< or here
  class Requests* pool = nullptr;
  Request* before = nullptr;
  Request* after = nullptr;  ///< also of the free list

  const std::byte* kept() const noexcept { return block != nullptr ? block : payload; }
};

/// All requests of one worker. Lifetime: longer than the worker's, which may end some while it is destroyed.
class Requests {
 public:
  Requests() = default;
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  Request& take(Request::What what, RequestOwner* owner = nullptr, Completion* completion = nullptr);
  /// A copy of a Frame's payload, which lives as long as the request.
  void keep(Request& r, ConstBuffer payload);
  /// Before a call that may end the request by a callback, from inside the call.
  static void begin(Request& r) noexcept;
  /// After a call of UCX that has the request as its user data, and `sent` or `fetched` as its callback.
  static void returned(Request& r, ucs_status_ptr_t result);
  /// Begun, but not given to UCX after all.
  static void take_back(Request& r) noexcept;
  /// Whoever was to be told is not: the request is left to UCX.
  static void forget(Request& r) noexcept;

  static void sent(void* request, ucs_status_t status, void* user_data);
  static void fetched(void* request, ucs_status_t status, std::size_t bytes, void* user_data);

 private:
  static void end(Request& r, ucs_status_t status);

  BlockPool blocks_;
  std::deque<Request> all_;
  Request* free_ = nullptr;
};

}  // namespace sinew::ucx
