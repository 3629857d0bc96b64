#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <string>

namespace sinew::ofi {

/// How an operation of the provider ended.
struct Outcome {
  std::size_t bytes = 0;  ///< received
  int error = 0;          ///< FI_*; 0: well
  std::string text{};     ///< the provider's, of an error
};

/// What the provider is given as the context of an operation, and may write to while it runs.
struct Request {
  using Completed = void (*)(Request&, const Outcome&);

  explicit Request(Completed c) noexcept : completed(c) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  fi_context2 context{};  // first: its address is the request's
  Completed completed;
};

}  // namespace sinew::ofi
